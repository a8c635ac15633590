//! Blocks: the unit in which files of the log are checked.
//!
//! A disk writes sectors, and an interrupted write leaves each of them as it was or as it was to
//! be; at worst a prefix of the new over the old. So everything is cut into blocks of a sector,
//! over zeros. Each ends in a byte that is not zero. If that byte is there, the block was written
//! to its end and its check must be right, or something damaged it. If that byte is zero, the block
//! may be what an interrupted write left. That is how recovery tells the one from the other in the
//! last write before a crash, where nothing else could.
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

/// What a block is, as its last byte. Any two differ in more than one bit, and from zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mark {
    /// Begins a segment.
    Header = 0x99,
    /// Begins a group.
    First = 0xa5,
    /// Goes on with a group.
    More = 0x5a,
    /// Ends a segment.
    Seal = 0x96,
}

impl Mark {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            0x99 => Some(Self::Header),
            0xa5 => Some(Self::First),
            0x5a => Some(Self::More),
            0x96 => Some(Self::Seal),
            _ => None,
        }
    }
}

/// What stands where a block may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing was ever written.
    Empty,
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
fn check(salt: &Digest, place: u64, mark: Mark, block: &mut [u8]) -> [u8; 16] {
    block[PAYLOAD_BYTES..PAYLOAD_BYTES + 8].copy_from_slice(&place.to_le_bytes());
    block[PAYLOAD_BYTES + 8..].copy_from_slice(&(mark as u64).to_le_bytes());
    let seed = salt.0.first_chunk().copied().map_or(0, u64::from_le_bytes);
    XxHash3_128::oneshot_with_seed(seed, block).to_le_bytes()
}

/// Appends a block; what is missing of its payload is zeros.
pub fn put(salt: &Digest, place: u64, mark: Mark, payload: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(payload);
    out.resize(start + BLOCK_BYTES, 0);
    let block = &mut out[start..];
    let check = check(salt, place, mark, block);
    block[PAYLOAD_BYTES..].copy_from_slice(&check);
    block[MARK_AT] = mark as u8;
}

/// Says what stands here. `block` has [`BLOCK_BYTES`].
#[must_use]
pub fn look(salt: &Digest, place: u64, block: &[u8]) -> Found {
    match block[MARK_AT] {
        0 if block.iter().all(|byte| *byte == 0) => Found::Empty,
        0 => Found::Torn,
        byte => match Mark::of(byte) {
            Some(mark) if is_whole(salt, place, mark, block) => Found::Whole(mark),
            _ => Found::Broken,
        },
    }
}

fn is_whole(salt: &Digest, place: u64, mark: Mark, block: &[u8]) -> bool {
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
        let salt = Digest::of(b"salt");
        let mut block = Vec::new();
        put(&salt, 7, Mark::More, &[1; PAYLOAD_BYTES], &mut block);
        assert_eq!(look(&salt, 7, &block), Found::Whole(Mark::More));
        assert_eq!(look(&salt, 8, &block), Found::Broken);
        assert_eq!(look(&Digest::of(b"other"), 7, &block), Found::Broken);
        for at in 0..BLOCK_BYTES {
            for mask in [1, 0x80, 0xff] {
                let mut damaged = block.clone();
                damaged[at] ^= mask;
                assert_eq!(look(&salt, 7, &damaged), Found::Broken, "byte {at}");
            }
            let mut torn = block.clone();
            torn[at..].fill(0);
            let expected = if at == 0 { Found::Empty } else { Found::Torn };
            assert_eq!(look(&salt, 7, &torn), expected, "prefix of {at}");
        }
    }
}
