//! Remembers what was found genuine, so that the same nested certificate is not checked again.
//!
//! A PREPARE's certificate turns up in every COMMIT, and again in every VIEW-CHANGE that reports
//! it; an envelope comes from its client and again inside a proposal. A signature costs tens of
//! microseconds to check, a look in here well under one.

use pentarchy_core::digest::Digest;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries that are kept. Holds a full ordering window of the largest group:
/// 256 slots x 64 replicas, in half a megabyte.
pub const SEEN_MAX: usize = SETS * WAYS;

const SETS: usize = 4096;
const WAYS: usize = 4;

/// Parts of the table, each with a lock: threads that share it seldom wait for each other.
const PARTS: usize = 16;

/// No entry. That a claim hashes to this is as likely as any other collision.
const NONE: Digest = Digest([0; 32]);

/// A bounded set of digests, each naming one claim *with* its proof. Only what was proved goes in;
/// what was refuted is forgotten, so that a lie costs its teller nothing but also us no memory.
///
/// Each digest belongs to one of many small sets, in which the newest pushes out the oldest. Who
/// aims at one set can make us check again, never make us believe.
pub struct Seen {
    parts: [Mutex<Box<[[Digest; WAYS]]>>; PARTS],
}

impl Default for Seen {
    fn default() -> Self {
        let part = |_| Mutex::new(vec![[NONE; WAYS]; SETS / PARTS].into_boxed_slice());
        Self { parts: std::array::from_fn(part) }
    }
}

impl Seen {
    /// Whether this claim was proved before and is still remembered.
    #[must_use]
    pub fn contains(&self, claim: &Digest) -> bool {
        let (part, set) = Self::place(claim);
        *claim != NONE && self.part(part)[set].contains(claim)
    }

    /// Remembers proved claims.
    pub fn insert<'a>(&self, claims: impl IntoIterator<Item = &'a Digest>) {
        for claim in claims {
            let (part, set) = Self::place(claim);
            let set = &mut self.part(part)[set];
            if !set.contains(claim) {
                set.rotate_right(1);
                set[0] = *claim;
            }
        }
    }

    fn part(&self, part: usize) -> MutexGuard<'_, Box<[[Digest; WAYS]]>> {
        // A panic elsewhere cannot have left half an entry behind that anyone could forge.
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In which part, and which set of it.
    fn place(claim: &Digest) -> (usize, usize) {
        let set = usize::from(u16::from_le_bytes([claim.0[0], claim.0[1]])) % SETS;
        (set % PARTS, set / PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(number: u64) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn it_knows_what_was_put_in_and_nothing_else() {
        let seen = Seen::default();
        assert!(!seen.contains(&NONE));
        seen.insert(&[claim(1), claim(2)]);
        assert!(seen.contains(&claim(1)) && seen.contains(&claim(2)));
        assert!(!seen.contains(&claim(3)));
    }

    #[test]
    fn the_oldest_of_a_full_set_gives_way() {
        let seen = Seen::default();
        let in_one_set = |tail: u8| {
            let mut digest = [7; 32];
            digest[31] = tail;
            Digest(digest)
        };
        let all: Vec<Digest> = (0..=WAYS as u8).map(in_one_set).collect();
        seen.insert(&all);
        assert!(!seen.contains(&all[0]));
        assert!(all[1..].iter().all(|digest| seen.contains(digest)));
    }
}
