//! A group: the records that one write and one sync make durable.

use super::segment::{Header, Tip};
use crate::block::{self, BLOCK_BYTES, Mark, PAYLOAD_BYTES};
use bytes::Bytes;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Bytes before a group's records.
pub const HEADER_BYTES: usize = 8 + 8 + 32 + 4 + 4;
/// Bytes before a record's content.
pub const RECORD_BYTES: usize = 1 + 4;

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its place in the log; counts up without a gap.
    pub number: u64,
    /// What it is, to those who wrote it.
    pub kind: u8,
    /// Its content.
    pub body: Bytes,
}

/// A group that is being filled.
#[derive(Default)]
pub struct Draft {
    records: u32,
    bytes: Vec<u8>,
}

impl Draft {
    /// Appends a record.
    pub fn push(&mut self, kind: u8, body: &[u8]) {
        let mut to = Writer::onto(std::mem::take(&mut self.bytes));
        to.u8(kind);
        to.bytes(body);
        self.bytes = to.into_vec();
        self.records += 1;
    }

    /// How many records there are.
    pub const fn records(&self) -> u64 {
        self.records as u64
    }

    /// Bytes of the encoding, with one more record of this size.
    pub const fn bytes_with(&self, body: usize) -> u64 {
        (HEADER_BYTES + self.bytes.len() + RECORD_BYTES + body) as u64
    }

    /// Bytes of the encoding.
    pub const fn bytes(&self) -> u64 {
        (HEADER_BYTES + self.bytes.len()) as u64
    }

    pub fn clear(&mut self) {
        self.records = 0;
        self.bytes.clear();
    }

    /// Appends the blocks of this group at a place of a segment, and gives the tip behind it.
    pub fn put(&self, header: &Header, place: u64, tip: &Tip, out: &mut Vec<u8>) -> Tip {
        let mut first = Writer::default();
        tip.encode(&mut first);
        first.u32(self.records);
        first.u32(u32::try_from(self.bytes.len()).expect("a group fits a segment"));
        debug_assert_eq!(first.len(), HEADER_BYTES);
        let (start, cut) = (out.len(), self.bytes.len().min(PAYLOAD_BYTES - HEADER_BYTES));
        let (beside, behind) = self.bytes.split_at(cut);
        first.array(beside);
        block::put(header.of(), place, Mark::First, first.as_slice(), out);
        for (place, payload) in (place + 1..).zip(behind.chunks(PAYLOAD_BYTES)) {
            block::put(header.of(), place, Mark::More, payload, out);
        }
        tip.behind(self.records(), &out[start..])
    }
}

impl Tip {
    /// Of a log without records.
    pub const START: Self = Self { group: 1, record: 1, chain: Digest([0; 32]) };

    /// Behind a group of so many records, made of these blocks. The check of a block stands for it
    /// here: it is there to find accidents too. They are put side by side first, as many bytes are
    /// hashed faster at once than one by one.
    #[must_use]
    pub fn behind(&self, records: u64, blocks: &[u8]) -> Self {
        let count = blocks.len() / BLOCK_BYTES;
        let mut checks = Vec::with_capacity(count * (BLOCK_BYTES - PAYLOAD_BYTES));
        for block in blocks.chunks_exact(BLOCK_BYTES) {
            checks.extend_from_slice(&block[PAYLOAD_BYTES..]);
        }
        let mut hasher = Hasher::new("log group");
        hasher.digest(&self.chain).u64(self.group).bytes(&checks);
        let (group, record) = (self.group + 1, self.record + records);
        Self { group, record, chain: hasher.finish() }
    }
}

/// What a group's first block says.
pub struct Opening {
    pub tip: Tip,
    pub records: u32,
    /// Of the records.
    pub bytes: usize,
}

impl Opening {
    /// Reads it from the payload of a first block.
    pub fn read(payload: &Bytes) -> Result<Self, Malformed> {
        let mut from = Reader::new(payload);
        let tip = Tip::decode(&mut from)?;
        let (records, bytes) = (from.u32()?, from.u32()? as usize);
        Ok(Self { tip, records, bytes })
    }

    /// Blocks of the whole group.
    pub const fn blocks(&self) -> u64 {
        block::blocks(HEADER_BYTES + self.bytes) as u64
    }

    /// The records, from the group's blocks, each of which was found intact.
    pub fn records(&self, blocks: &[u8]) -> Result<Vec<Record>, Malformed> {
        let mut bytes = Vec::with_capacity(blocks.len());
        for block in blocks.chunks_exact(BLOCK_BYTES) {
            bytes.extend_from_slice(&block[..PAYLOAD_BYTES]);
        }
        bytes.truncate(HEADER_BYTES + self.bytes);
        let bytes = Bytes::from(bytes);
        let content = bytes.slice(HEADER_BYTES..);
        let mut from = Reader::new(&content);
        let mut records = Vec::new();
        for number in (self.tip.record..).take(self.records as usize) {
            let (kind, body) = (from.u8()?, from.bytes(self.bytes)?);
            records.push(Record { number, kind, body });
        }
        from.finish()?;
        Ok(records)
    }
}
