//! Who tells a client a result: one replica tells it, all others tell its digest (Castro and
//! Liskov, *Practical Byzantine Fault Tolerance and Proactive Recovery*, section 5.1.1, digest
//! replies). Enough equal digests say what is true, and the result is known to be true by its own.
//!
//! Which replica it is follows from client and number, so nobody has to be asked, and takes turns.
//! A client that has the digests and not the result asks everyone again, and what replicas answer
//! from the client table they tell in full.

use crate::digest::Digest;
use crate::ids::{ClientId, ReplicaId};
use crate::ports::client::{Outcome, Reply};
use alloc::vec::Vec;

pub use crate::ports::client::ResultDigest;

/// The replica of `n` that tells a client the result of the request with this number.
#[must_use]
pub const fn teller(client: &ClientId, number: u64, n: usize) -> ReplicaId {
    let key = u16::from_le_bytes([client.0[0], client.0[1]]);
    ReplicaId((number.wrapping_add(key as u64) % n as u64) as u16)
}

/// How a replica tells results that it has just come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DesignatedReplier {
    /// Which replica this is.
    pub me: ReplicaId,
    /// Of how many.
    pub n: usize,
    /// Results of up to so many bytes every replica tells.
    pub whole_bytes: usize,
}

impl DesignatedReplier {
    /// Results for a client, apart: those that this replica tells it, and the others' digests.
    #[must_use]
    pub fn split(&self, client: &ClientId, replies: Vec<Reply>) -> (Vec<Reply>, Vec<ResultDigest>) {
        if replies.iter().all(|reply| self.is_told(client, reply)) {
            return (replies, Vec::new());
        }
        let (mut whole, mut digests) = (Vec::new(), Vec::new());
        for reply in replies {
            match self.digest(client, &reply) {
                Some(digest) => digests.push(digest),
                None => whole.push(reply),
            }
        }
        (whole, digests)
    }

    /// What to tell a client instead, if another replica tells it this.
    #[must_use]
    pub fn digest(&self, client: &ClientId, reply: &Reply) -> Option<ResultDigest> {
        let Reply { number, outcome: Outcome::Done(result) } = reply else { return None };
        let is_told = self.is_told(client, reply);
        (!is_told).then(|| ResultDigest { number: *number, digest: Digest::of(result) })
    }

    /// Whether this replica tells a client this as it is: it is short, or this replica's to tell.
    fn is_told(&self, client: &ClientId, reply: &Reply) -> bool {
        let Outcome::Done(result) = &reply.outcome else { return true };
        result.len() <= self.whole_bytes || teller(client, reply.number, self.n) == self.me
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use bytes::Bytes;

    #[test]
    fn of_each_long_result_one_replica_tells_all_and_they_take_turns() {
        let client = ClientId([7; 32]);
        let mut tellers = Vec::new();
        for number in 0..8 {
            let done = |bytes: usize| {
                let outcome = Outcome::Done(Bytes::from(vec![1; bytes]));
                Reply { number, outcome }
            };
            let telling = |me| DesignatedReplier { me: ReplicaId(me), n: 4, whole_bytes: 100 };
            let digest = Digest::of(&[1; 101]);
            let whole = (0..4).filter(|me| telling(*me).digest(&client, &done(101)).is_none());
            let whole: Vec<u16> = whole.collect();
            assert_eq!(whole, [teller(&client, number, 4).0]);
            let others = (0..4).filter_map(|me| telling(me).digest(&client, &done(101)));
            assert!(others.into_iter().all(|told| told == ResultDigest { number, digest }));
            assert!((0..4).all(|me| telling(me).digest(&client, &done(100)).is_none()));
            for me in 0..4 {
                let replies = vec![done(101), done(100)];
                let (told, digests) = telling(me).split(&client, replies);
                let mine = usize::from(me == whole[0]);
                assert_eq!((told.len(), digests.len()), (1 + mine, 1 - mine), "r{me}");
            }
            tellers.extend(whole);
        }
        tellers.sort_unstable();
        assert_eq!(tellers, [0, 0, 1, 1, 2, 2, 3, 3]);
        let forgotten = Reply { number: 1, outcome: Outcome::Forgotten };
        let telling = DesignatedReplier { me: ReplicaId(0), n: 4, whole_bytes: 0 };
        assert_eq!(telling.digest(&client, &forgotten), None);
    }
}
