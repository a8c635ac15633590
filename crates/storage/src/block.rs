//! Blocks: the unit in which files of the log are checked.
//!
//! A disk writes sectors, and an interrupted write leaves each of them as it was or as it was to
//! be; at worst a prefix of the new over the old. So everything is cut into blocks of a sector.
//! Each ends in a mark, which is not zero. A file is zeros at first, and when it is used again its
//! blocks have marks that those before did not have ([`Life`]). So if a mark of this life is there,
//! the block was written to its end and its check must be right, or something damaged it. If not,
//! the block may be what an interrupted write left, or was there before. That is how recovery tells
//! the one from the other in the last write before a crash, where nothing else could.
//!
//! The check covers the block's place, and is seeded with a salt of the segment, which nobody who
//! chooses a record's content knows. So no content can be taken for a block, nor a block for
//! another. It is there to find accidents, and is XXH3: a tenth of the work of a cryptographic hash
//! of so few bytes, which would say no more, as whoever can write the file can make that too. The
//! chain of groups has one (`log/group.rs`).

use pentarchy_core::digest::Digest;
use twox_hash::XxHash3_128;

/// Bytes of a block: the smallest unit that disks write as a whole.
pub const BLOCK_BYTES: usize = 512;
/// Of those, what they carry.
pub const PAYLOAD_BYTES: usize = 496;
const MARK_AT: usize = BLOCK_BYTES - 1;

/// What a block is, as its last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Begins a segment.
    Header,
    /// Begins a group.
    First,
    /// Goes on with a group.
    More,
    /// Ends a segment.
    Seal,
}

/// How often a file has been used before: what is left of the life before is not of this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life(pub u64);

impl Life {
    /// The marks of even and of odd lives. Any two differ in more than one bit, and from zero.
    const MARKS: [[u8; 4]; 2] = [[0x99, 0xa5, 0x5a, 0x96], [0x33, 0xcc, 0x55, 0xaa]];

    const fn marks(self) -> [u8; 4] {
        Self::MARKS[(self.0 % 2) as usize]
    }

    const fn byte(self, mark: Mark) -> u8 {
        self.marks()[mark as usize]
    }

    fn mark(self, byte: u8) -> Option<Mark> {
        let at = self.marks().iter().position(|mark| *mark == byte)?;
        Some([Mark::Header, Mark::First, Mark::More, Mark::Seal][at])
    }

    /// That of a file which is used once more. No file gets to the last one, but a header may name
    /// it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What stands where a block may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing was ever written.
    Empty,
    /// What the life before left, perhaps behind a prefix of an interrupted write.
    Former,
    /// Perhaps an interrupted write.
    Torn,
    /// A block, intact and in its place.
    Whole(Mark),
    /// A block that was written to its end, and is damaged or not from here.
    Broken,
}

/// How many blocks it takes to carry this many bytes.
#[must_use]
pub const fn blocks(bytes: usize) -> usize {
    bytes.div_ceil(PAYLOAD_BYTES)
}

/// The check of a payload, which stands where it belongs in a block. What stands behind it is lost.
fn check(salt: &Digest, place: u64, mark: u8, block: &mut [u8]) -> [u8; 16] {
    block[PAYLOAD_BYTES..PAYLOAD_BYTES + 8].copy_from_slice(&place.to_le_bytes());
    block[PAYLOAD_BYTES + 8..].copy_from_slice(&u64::from(mark).to_le_bytes());
    let seed = salt.0.first_chunk().copied().map_or(0, u64::from_le_bytes);
    XxHash3_128::oneshot_with_seed(seed, block).to_le_bytes()
}

/// Appends a block; what is missing of its payload is zeros.
pub fn put(
    (salt, life): (&Digest, Life),
    place: u64,
    mark: Mark,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let (start, mark) = (out.len(), life.byte(mark));
    out.extend_from_slice(payload);
    out.resize(start + BLOCK_BYTES, 0);
    let block = &mut out[start..];
    let check = check(salt, place, mark, block);
    block[PAYLOAD_BYTES..].copy_from_slice(&check);
    block[MARK_AT] = mark;
}

/// Says what stands here. `block` has [`BLOCK_BYTES`].
#[must_use]
pub fn look((salt, life): (&Digest, Life), place: u64, block: &[u8]) -> Found {
    match block[MARK_AT] {
        0 if block.iter().all(|byte| *byte == 0) => Found::Empty,
        0 => Found::Torn,
        byte => match life.mark(byte) {
            Some(mark) if is_whole(salt, place, byte, block) => Found::Whole(mark),
            None if life != Life(0) && life.next().mark(byte).is_some() => Found::Former,
            _ => Found::Broken,
        },
    }
}

fn is_whole(salt: &Digest, place: u64, mark: u8, block: &[u8]) -> bool {
    let mut copy = [0; BLOCK_BYTES];
    copy.copy_from_slice(block);
    let check = check(salt, place, mark, &mut copy);
    check[..MARK_AT - PAYLOAD_BYTES] == block[PAYLOAD_BYTES..MARK_AT]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_shows_and_every_torn_prefix_looks_torn() {
        let (salt, other) = (Digest::of(b"salt"), Digest::of(b"other"));
        for life in [Life(0), Life(1), Life(2), Life(u64::MAX)] {
            let of = (&salt, life);
            let mut block = Vec::new();
            put(of, 7, Mark::More, &[1; PAYLOAD_BYTES], &mut block);
            assert_eq!(look(of, 7, &block), Found::Whole(Mark::More));
            assert_eq!(look(of, 8, &block), Found::Broken);
            assert_eq!(look((&other, life), 7, &block), Found::Broken);
            for at in 0..BLOCK_BYTES {
                for mask in [1, 0x80, 0xff] {
                    let mut damaged = block.clone();
                    damaged[at] ^= mask;
                    assert_eq!(look(of, 7, &damaged), Found::Broken, "byte {at}");
                }
                let mut torn = block.clone();
                torn[at..].fill(0);
                let expected = if at == 0 { Found::Empty } else { Found::Torn };
                assert_eq!(look(of, 7, &torn), expected, "prefix of {at}");
            }
        }
    }

    #[test]
    fn what_a_life_before_left_is_told_from_this_one_also_behind_a_torn_prefix() {
        let (before, now) = (Digest::of(b"before"), Digest::of(b"now"));
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for mark in [Mark::Header, Mark::First, Mark::More, Mark::Seal] {
            old.clear();
            put((&before, Life(4)), 7, mark, &[1; PAYLOAD_BYTES], &mut old);
            new.clear();
            put((&now, Life(5)), 7, mark, &[2; PAYLOAD_BYTES], &mut new);
            for at in 0..BLOCK_BYTES {
                let torn = [&new[..at], &old[at..]].concat();
                assert_eq!(look((&now, Life(5)), 7, &torn), Found::Former, "prefix of {at}");
            }
            assert_eq!(look((&now, Life(5)), 7, &new), Found::Whole(mark));
            // Nothing was there before the first life.
            assert_eq!(look((&before, Life(0)), 7, &new), Found::Broken);
        }
    }

    #[test]
    fn marks_are_further_apart_than_a_bit() {
        let marks = [&Life::MARKS[0][..], &Life::MARKS[1][..], &[0]].concat();
        for (at, one) in marks.iter().enumerate() {
            assert!(marks[at + 1..].iter().all(|other| (one ^ other).count_ones() > 1), "{one:x}");
        }
    }
}
