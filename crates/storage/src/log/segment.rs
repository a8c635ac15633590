//! A segment: one file of the log, of a fixed size, beginning with a header.

use crate::block::{self, BLOCK_BYTES, Found, Life, Mark, PAYLOAD_BYTES};
use crate::disk::{DiskError, File, Folder, UNFINISHED, expect_whole, write_whole};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The first bytes of each segment. Never changes.
const MAGIC: &[u8; 8] = b"PENTALOG";
/// The version of the format, behind the magic.
pub const VERSION: u32 = 4;
/// The oldest format of which segments, blocks and groups are as they are now. Records that say how
/// an epoch began mean something else in it; those that hold states do not.
pub const FRAMED_SINCE: u32 = 3;
/// The largest segment: one is read into memory as a whole.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;
/// The smallest one: a header, a group of a block, a seal.
pub const SEGMENT_BYTES_MIN: u64 = 3 * BLOCK_BYTES as u64;

/// What the header's own check has for a salt: everyone may know it.
fn open_salt() -> Digest {
    Digest::of(b"pentarchy log header")
}

/// No log counts that far; so what was counted can be counted on without overflow.
const COUNT_MAX: u64 = 1 << 62;

/// What a segment says of itself in its first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Counts segments, from 1 on.
    pub number: u64,
    /// Whose it is.
    pub identity: Identity,
    /// Its size in blocks.
    pub blocks: u64,
    /// Where in the log it begins.
    pub start: Tip,
    /// What the checks of its blocks cover, so that nobody can foretell them.
    pub salt: Digest,
    /// How often its file was a segment before.
    pub life: Life,
}

/// What the log knows of each of its segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// The number of its first record.
    pub first: u64,
    /// Its size in blocks.
    pub blocks: u64,
    /// How often its file was a segment before.
    pub life: Life,
}

/// A segment that went, whose file is there for the next one: to write over it costs a tenth of
/// what it costs to give its room back and to fill another file with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spare {
    /// The number that it had.
    pub number: u64,
    /// How often it has been a segment.
    pub life: Life,
}

impl Spare {
    /// The file's name now: it goes when the log is opened the next time.
    fn name(&self) -> String {
        format!("spare-{:016x}{UNFINISHED}", self.number)
    }

    /// Takes a segment away. The caller syncs the folder before anything else: until then its name
    /// may come back, and must be of what it was.
    pub fn keep(&self, folder: &mut dyn Folder) -> Result<(), DiskError> {
        folder.rename(&name(self.number), &self.name())
    }
}

/// Where the log stands: what the next group of records continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tip {
    /// Number of the next group.
    pub group: u64,
    /// Number of its first record.
    pub record: u64,
    /// Digest of the group before it, and through that of all before.
    pub chain: Digest,
}

impl Wire for Tip {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.group);
        to.u64(self.record);
        self.chain.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { group: from.u64()?, record: from.u64()?, chain: Digest::decode(from)? })
    }
}

/// The file name of a segment.
#[must_use]
pub fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// The number in a segment's file name.
#[must_use]
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (self::name(number) == name && (1..COUNT_MAX).contains(&number)).then_some(number)
}

/// Bytes of the magic and the version.
pub const FORMAT_BYTES: usize = MAGIC.len() + 4;

/// The format of a segment that begins with these bytes, unless they are none of a segment.
pub fn format(bytes: &[u8]) -> Option<u32> {
    let version = bytes.strip_prefix(MAGIC)?.first_chunk()?;
    Some(u32::from_le_bytes(*version))
}

impl Header {
    /// Of a new segment. `seed` is random.
    #[must_use]
    pub fn new(number: u64, identity: Identity, blocks: u64, start: Tip, seed: &[u8; 32]) -> Self {
        let mut hasher = Hasher::new("log salt");
        hasher.bytes(seed).u64(number).digest(&start.chain);
        Self { number, identity, blocks, start, salt: hasher.finish(), life: Life(0) }
    }

    /// What the log keeps in mind of it.
    #[must_use]
    pub const fn listed(&self) -> Listed {
        Listed {
            number: self.number,
            first: self.start.record,
            blocks: self.blocks,
            life: self.life,
        }
    }

    /// What the checks of this segment's blocks rest on.
    #[must_use]
    pub const fn of(&self) -> (&Digest, Life) {
        (&self.salt, self.life)
    }

    fn block(&self) -> Vec<u8> {
        let mut payload = Writer::default();
        payload.array(MAGIC);
        payload.u32(VERSION);
        self.identity.encode(&mut payload);
        payload.u64(self.number);
        payload.u64(self.blocks);
        self.start.encode(&mut payload);
        self.salt.encode(&mut payload);
        payload.u64(self.life.0);
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block::put((&open_salt(), self.life), 0, Mark::Header, payload.as_slice(), &mut block);
        block
    }

    /// Makes the segment's file, so that it is there as a whole or not at all.
    pub fn create(&self, folder: &mut dyn Folder) -> Result<Box<dyn File>, DiskError> {
        write_whole(folder, &name(self.number), |file| {
            file.preallocate(self.blocks * BLOCK_BYTES as u64)?;
            file.write_at(&self.block(), 0)
        })
    }

    /// Makes the segment in the file of one that went, as [`Self::create`] does in a new one. Of
    /// that one every block was written, or is zeros.
    pub fn create_over(
        &mut self,
        folder: &mut dyn Folder,
        spare: &Spare,
    ) -> Result<Box<dyn File>, DiskError> {
        self.life = if mutant!("log.life-not-counted") { spare.life } else { spare.life.next() };
        let mut file = folder.open(&spare.name())?;
        file.write_at(&self.block(), 0)?;
        if !mutant!("log.reused-before-whole") {
            file.sync()?;
        }
        folder.rename(&spare.name(), &name(self.number))?;
        folder.sync()?;
        Ok(file)
    }

    /// Says that a segment of this size and number will be made.
    pub fn expect(folder: &mut dyn Folder, number: u64, blocks: u64) {
        expect_whole(folder, &name(number), blocks * BLOCK_BYTES as u64);
    }

    /// Writes the header once more, as it is: the system may have it in memory only.
    pub fn write_again(&self, file: &mut dyn File) -> Result<(), DiskError> {
        file.write_at(&self.block(), 0)
    }

    /// Reads the header of a segment's bytes and checks it against name and owner. It is of this
    /// format, or of an earlier one from `oldest` on.
    pub fn read(
        file: &str,
        bytes: &Bytes,
        owner: Option<&Identity>,
        oldest: u32,
    ) -> Result<Self, StorageError> {
        let corrupt = |offset, what: &str| StorageError::Corrupt {
            file: file.to_owned(),
            offset,
            what: what.to_owned(),
        };
        if bytes.len() < BLOCK_BYTES || &bytes[..MAGIC.len()] != MAGIC {
            return Err(corrupt(0, "it does not begin like a segment of a log"));
        }
        let mut from = Reader::new(bytes);
        let decoded: Result<(u32, Self), Malformed> = (|| {
            from.array::<8>()?;
            let version = from.u32()?;
            let identity = Identity::decode(&mut from)?;
            let (number, blocks) = (from.u64()?, from.u64()?);
            let (start, salt) = (Tip::decode(&mut from)?, Digest::decode(&mut from)?);
            let life = Life(from.u64()?);
            Ok((version, Self { number, identity, blocks, start, salt, life }))
        })();
        let (version, header) = decoded.map_err(|Malformed| corrupt(0, "its header is cut"))?;
        if !(oldest..=VERSION).contains(&version) {
            let (file, found, known) = (file.to_owned(), version, VERSION);
            return Err(StorageError::Version { file, found, known });
        }
        let found = block::look((&open_salt(), header.life), 0, &bytes[..BLOCK_BYTES]);
        if found != Found::Whole(Mark::Header) {
            return Err(corrupt(0, "its header has a wrong check"));
        }
        if let Some(what) = owner.and_then(|owner| header.identity.difference(owner)) {
            return Err(StorageError::Foreign { file: file.to_owned(), what });
        }
        if header.start.group.max(header.start.record).max(header.life.0) > COUNT_MAX {
            return Err(corrupt(0, "its header counts too far"));
        }
        if name(header.number) != file {
            let what = format!("it is segment {} under another's name", header.number);
            return Err(corrupt(0, &what));
        }
        if header.blocks.checked_mul(BLOCK_BYTES as u64) != Some(bytes.len() as u64) {
            let what = format!("it ends here, and not at its {} blocks", header.blocks);
            return Err(corrupt(bytes.len() as u64, &what));
        }
        Ok(header)
    }

    /// Ends this segment at a place, for another one to go on, durably. Behind that nothing is left
    /// of its file's life before: the life after could not tell it from its own.
    pub fn seal(&self, file: &mut dyn File, place: u64, tip: &Tip) -> Result<(), DiskError> {
        let behind = (place + 1) * BLOCK_BYTES as u64;
        if self.life != Life(0) {
            let zeros = vec![0; (self.blocks * BLOCK_BYTES as u64 - behind) as usize];
            file.write_at(&zeros, behind)?;
            file.sync()?;
        }
        let mut payload = Writer::default();
        tip.encode(&mut payload);
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block::put(self.of(), place, Mark::Seal, payload.as_slice(), &mut block);
        file.write_at(&block, place * BLOCK_BYTES as u64)?;
        file.sync()
    }

    /// Bytes of a group's encoding that the segment can take from this block on: the last block is
    /// kept for the seal.
    #[must_use]
    pub const fn room(&self, place: u64) -> u64 {
        self.blocks.saturating_sub(place + 1) * PAYLOAD_BYTES as u64
    }
}
