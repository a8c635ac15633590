//! Reads a log: every group of every segment, in order, and what stands behind the last one.
//!
//! A group is written only when the one before it is durable. So whatever is not intact lies in the
//! last write before the end, or it was damaged later. If it can be the first, it is dropped;
//! everything else is reported, with the place. Nothing here writes.

use super::group::{Opening, Record};
use super::segment::{self, Header, Listed, SEGMENT_BYTES_MAX, Tip};
use crate::block::{self, BLOCK_BYTES, Found, Mark, PAYLOAD_BYTES};
use crate::disk::{Folder, read_all};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use pentarchy_core::mutant;
use pentarchy_core::wire::{Reader, Wire as _};
use std::ops::Range;

/// What was read of a segment.
pub struct Segment {
    pub header: Header,
    /// Behind its last group.
    pub tip: Tip,
    /// The blocks of its last group; those of its header if there is none.
    pub last: Range<u64>,
    /// The bytes of those blocks.
    pub last_bytes: Bytes,
    pub end: End,
}

/// How a segment ends, behind its last group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Another segment goes on.
    Sealed,
    /// With nothing, or with what an interrupted write left in so many blocks up to some block.
    Open { torn: u64, upto: u64 },
}

/// A whole log that was read.
pub struct Scan {
    /// Every segment, oldest first; not empty.
    pub segments: Vec<Listed>,
    /// The last one.
    pub last: Segment,
    /// The one before, if the last one has no group yet: its end may not be durable either.
    pub before: Option<Segment>,
    /// Bytes that an interrupted write left.
    pub torn_bytes: u64,
    pub groups: u64,
    pub bytes: u64,
}

/// Reads the whole log and shows each record. `first` is the lowest number that must be there, or
/// the next one. `format` is the oldest one that is read.
pub fn scan(
    folder: &dyn Folder,
    owner: Option<&Identity>,
    (first, format): (Option<u64>, u32),
    show: &mut dyn FnMut(Record),
) -> Result<Scan, StorageError> {
    let names = folder.list()?;
    let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    let lacking = |number: u64| StorageError::Missing {
        what: format!("segment {} of the log", segment::name(number)),
    };
    let Some(oldest) = numbers.first().copied() else { return Err(lacking(1)) };
    let mut segments = Vec::new();
    let (mut previous, mut bytes, mut torn_bytes) = (None::<Segment>, 0, 0);
    for (expected, number) in (oldest..).zip(&numbers) {
        if *number != expected {
            return Err(lacking(expected));
        }
        let read = read_segment(folder, owner, (*number, format), previous.as_ref(), show)?;
        let start = read.header.start.record;
        if let Some(first) = first.filter(|first| previous.is_none() && start > *first) {
            let what = format!("the part of the log with records {first} to {}", start - 1);
            return Err(StorageError::Missing { what });
        }
        segments.push(read.header.listed());
        bytes += read.header.blocks * BLOCK_BYTES as u64;
        if let End::Open { torn, .. } = read.end {
            torn_bytes += torn * BLOCK_BYTES as u64;
        }
        if previous.as_ref().is_some_and(|before| before.end != End::Sealed) && !read.is_fresh() {
            return Err(corrupt(previous.as_ref().expect("just seen"), "its seal is missing"));
        }
        let before = previous.replace(read);
        if *number == numbers[numbers.len() - 1] {
            let last = previous.take().expect("just read");
            if last.end == End::Sealed {
                return Err(lacking(number.saturating_add(1)));
            }
            if first.is_some_and(|first| last.tip.record < first) {
                let what = format!("the part of the log from record {} on", last.tip.record);
                return Err(StorageError::Missing { what });
            }
            let groups = last.tip.group;
            let before = before.filter(|_| last.has_no_group());
            return Ok(Scan { segments, last, before, torn_bytes, groups, bytes });
        }
    }
    Err(lacking(oldest))
}

fn corrupt(segment: &Segment, what: &str) -> StorageError {
    let offset = segment.last.end * BLOCK_BYTES as u64;
    StorageError::Corrupt { file: segment::name(segment.header.number), offset, what: what.into() }
}

impl Segment {
    const fn has_no_group(&self) -> bool {
        self.last.start == 0
    }

    /// Whether it is as it was made: no group, and no sign of one.
    fn is_fresh(&self) -> bool {
        self.has_no_group() && self.end == End::Open { torn: 0, upto: 1 }
    }
}

fn read_segment(
    folder: &dyn Folder,
    owner: Option<&Identity>,
    (number, format): (u64, u32),
    previous: Option<&Segment>,
    show: &mut dyn FnMut(Record),
) -> Result<Segment, StorageError> {
    let file = segment::name(number);
    let bytes = Bytes::from(read_all(folder, &file, SEGMENT_BYTES_MAX)?);
    let header = Header::read(&file, &bytes, owner, format)?;
    if previous.is_some_and(|previous| previous.tip != header.start) {
        let what = "it does not continue the segment before it".to_owned();
        return Err(StorageError::Corrupt { file, offset: 0, what });
    }
    let mut walk = Walk { file, bytes, header, place: 1, tip: header.start, last: 0..1 };
    while let Some(blocks) = walk.group(show)? {
        walk.last = walk.place..walk.place + blocks;
        walk.place += blocks;
    }
    let end = walk.end()?;
    let last_bytes = walk.slice(walk.last.clone());
    Ok(Segment { header, tip: walk.tip, last: walk.last, last_bytes, end })
}

/// On the way through a segment.
struct Walk {
    file: String,
    bytes: Bytes,
    header: Header,
    /// The block where the next group is expected.
    place: u64,
    tip: Tip,
    last: Range<u64>,
}

impl Walk {
    fn slice(&self, blocks: Range<u64>) -> Bytes {
        let at = |block: u64| block as usize * BLOCK_BYTES;
        self.bytes.slice(at(blocks.start)..at(blocks.end))
    }

    fn look(&self, place: u64) -> Found {
        block::look(self.header.of(), place, &self.slice(place..place + 1))
    }

    fn corrupt<T>(&self, place: u64, what: &str) -> Result<T, StorageError> {
        let offset = place * BLOCK_BYTES as u64;
        Err(StorageError::Corrupt { file: self.file.clone(), offset, what: what.to_owned() })
    }

    /// Reads the group that begins here and gives its blocks; none if it is not there as a whole.
    fn group(&mut self, show: &mut dyn FnMut(Record)) -> Result<Option<u64>, StorageError> {
        if self.place >= self.header.blocks || self.look(self.place) != Found::Whole(Mark::First) {
            return Ok(None);
        }
        let payload = self.slice(self.place..self.place + 1).slice(..PAYLOAD_BYTES);
        let Ok(opening) = Opening::read(&payload) else {
            return self.corrupt(self.place, "no group begins like this");
        };
        if opening.tip != self.tip {
            return self.corrupt(self.place, "this group does not continue the one before it");
        }
        let blocks = opening.blocks();
        if blocks > self.header.blocks - self.place - 1 {
            return self.corrupt(self.place, "this group is larger than its segment");
        }
        let mut behind = self.place + 1..self.place + blocks;
        let torn = mutant!("log.torn-taken-for-whole");
        if !torn && !behind.all(|place| self.look(place) == Found::Whole(Mark::More)) {
            return Ok(None);
        }
        let group = self.slice(self.place..self.place + blocks);
        let Ok(records) = opening.records(&group) else {
            return self.corrupt(self.place, "the records of this group are malformed");
        };
        self.tip = self.tip.behind(records.len() as u64, &group);
        records.into_iter().for_each(show);
        Ok(Some(blocks))
    }

    /// Judges all that stands behind the last whole group.
    fn end(&self) -> Result<End, StorageError> {
        if self.place >= self.header.blocks {
            return self.corrupt(self.place, "there is no room left for the seal");
        }
        let (mut torn, mut upto) = (0, self.place);
        let sealed = self.look(self.place) == Found::Whole(Mark::Seal);
        if sealed {
            let payload = self.slice(self.place..self.place + 1).slice(..PAYLOAD_BYTES);
            if Tip::decode(&mut Reader::new(&payload)) != Ok(self.tip) {
                return self.corrupt(self.place, "this seal is of another end");
            }
        }
        for place in self.place + u64::from(sealed)..self.header.blocks {
            match self.look(place) {
                Found::Empty => {}
                Found::Former if !sealed => {}
                Found::Broken if mutant!("log.corrupt-taken-for-torn") => {
                    (torn, upto) = (torn + 1, place + 1);
                }
                Found::Broken => return self.corrupt(place, "this block has a wrong check"),
                _ if sealed => return self.corrupt(place, "there is something behind the seal"),
                // The group that was being written: its first block alone, or blocks of it.
                Found::Whole(Mark::First) if place == self.place => {
                    (torn, upto) = (torn + 1, place + 1);
                }
                Found::Torn | Found::Former | Found::Whole(Mark::More) => {
                    (torn, upto) = (torn + 1, place + 1)
                }
                Found::Whole(_) if mutant!("log.gap-taken-for-end") => {
                    (torn, upto) = (torn + 1, place + 1);
                }
                Found::Whole(_) => {
                    return self.corrupt(self.place, "something is missing that was durable");
                }
            }
        }
        Ok(if sealed { End::Sealed } else { End::Open { torn, upto } })
    }
}
