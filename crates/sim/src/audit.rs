//! A running hash of all that happens. Equal seeds must give equal hashes: a difference means that
//! a core, a service or the world itself reads something beside its inputs.

use core::fmt;

/// The hash so far: two lanes of multiply and fold over words of eight bytes. Nobody tries to find
/// a collision here, and a cryptographic hash over every packet would take longer than the
/// protocol.
#[derive(Clone, Debug)]
pub struct Audit {
    lanes: [u64; 2],
    entries: u64,
}

/// The hash of one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(pub [u64; 2]);

impl Fingerprint {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }

    /// From these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
        Self([word(0), word(8)])
    }

    /// Both together, in no order: the hash of many runs that end in any order.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self([self.0[0].wrapping_add(other.0[0]), self.0[1].wrapping_add(other.0[1])])
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// Bytes that [`condensed`] takes at a time.
const STRIPE: usize = 8 * KEYS.len();

fn fold(word: u64, key: u64) -> u64 {
    let product = u128::from(word) * u128::from(key);
    (product as u64) ^ (product >> 64) as u64
}

/// The hash of whole stripes. Its lanes do not wait for each other, unlike those of
/// [`Audit::word`], of which each multiplication needs the last one's result: packets are long and
/// this is where the simulator spent a fifth of its time.
fn condensed(stripes: &[[u8; STRIPE]]) -> [u64; 4] {
    let mut lanes = KEYS;
    for stripe in stripes {
        let (words, _) = stripe.as_chunks::<8>();
        for ((lane, key), word) in lanes.iter_mut().zip(KEYS).zip(words) {
            let word = u64::from_le_bytes(*word);
            *lane = fold(*lane ^ word, key).wrapping_add(word);
        }
    }
    lanes
}

impl Default for Audit {
    fn default() -> Self {
        Self { lanes: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], entries: 0 }
    }
}

impl Audit {
    fn word(&mut self, word: u64) {
        self.lanes[0] = fold(self.lanes[0] ^ word, KEYS[0]).wrapping_add(word);
        self.lanes[1] = fold(self.lanes[1] ^ word, KEYS[1]).rotate_left(23) ^ word;
    }

    /// Adds an entry: when, what kind, which nodes, what bytes.
    pub fn note(&mut self, time: u64, kind: u8, nodes: u64, bytes: &[u8]) {
        self.entries += 1;
        self.word(time);
        // Not `|`: MACs are made of this too, and each bit of what they are over has to count.
        self.word((u64::from(kind) << 56) ^ nodes);
        self.word(bytes.len() as u64);
        let (stripes, rest) = bytes.as_chunks::<STRIPE>();
        if !stripes.is_empty() {
            condensed(stripes).into_iter().for_each(|word| self.word(word));
        }
        let (words, rest) = rest.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    /// The hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Fingerprint {
        let mut audit = Self::default();
        audit.note(0, 0, 0, bytes);
        audit.digest()
    }

    /// Entries so far.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The hash of all entries so far.
    #[must_use]
    pub const fn digest(&self) -> Fingerprint {
        Fingerprint(self.lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::Audit;

    #[test]
    fn order_and_content_matter() {
        let digest = |entries: &[(u64, &[u8])]| {
            let mut audit = Audit::default();
            entries.iter().for_each(|(time, bytes)| audit.note(*time, 1, 2, bytes));
            audit.digest()
        };
        assert_eq!(digest(&[(1, b"a"), (1, b"b")]), digest(&[(1, b"a"), (1, b"b")]));
        assert_ne!(digest(&[(1, b"a"), (1, b"b")]), digest(&[(1, b"b"), (1, b"a")]));
        assert_ne!(digest(&[(1, b"ab")]), digest(&[(1, b"a"), (1, b"b")]));
        assert_ne!(digest(&[(1, b"")]), digest(&[(1, b"\0")]));
        let long = |at: usize| {
            let mut bytes = [7; 99];
            bytes[at] ^= 1;
            digest(&[(1, &bytes)])
        };
        let all: std::collections::BTreeSet<_> = (0..99).map(long).collect();
        assert_eq!(all.len(), 99, "each byte counts");
    }

    #[test]
    fn each_bit_of_the_numbers_matters_whatever_the_kind() {
        let digest = |time, kind, nodes| {
            let mut audit = Audit::default();
            audit.note(time, kind, nodes, b"");
            audit.digest()
        };
        for (kind, bit) in (0..8).flat_map(|kind| (0..64).map(move |bit| (kind, 1 << bit))) {
            assert_ne!(digest(5, kind, 437), digest(5, kind, 437 ^ bit), "nodes: {bit:x}");
            assert_ne!(digest(5, kind, 437), digest(5 ^ bit, kind, 437), "time: {bit:x}");
        }
    }
}
