//! Results and their digests. One replica tells a result, all others tell its digest
//! ([`pentarchy_core::telling`]); that it is the one that was agreed on its digest says. If enough
//! digests have come and the result has not, it is asked for from everyone, and whoever is asked
//! again tells it.

use super::{
    Bytes, Digest, Effect, Fingerprint, Millis, Outcome, Pending, Quorums, ReplicaId, Reply, Vec,
    VotingClient, mutant,
};
use pentarchy_core::limits::CLIENT_REPLIES_BYTES_MAX;
use pentarchy_core::telling::{ResultDigest, teller};

/// How long the result may be on its way when enough digests of it have come.
pub const TELL_WAIT_MS: u64 = 10;

/// Bytes of results that are held until enough digests have come.
#[derive(Default)]
pub struct Told(usize);

impl Told {
    /// A copy to hold, if there is room. A copy, because the result is part of a frame.
    fn hold(&mut self, result: &Bytes) -> Option<Bytes> {
        let fits = self.0 + result.len() <= CLIENT_REPLIES_BYTES_MAX;
        self.0 += if fits { result.len() } else { 0 };
        fits.then(|| Bytes::copy_from_slice(result))
    }

    /// It is not held any more.
    pub fn forget(&mut self, result: Option<&Bytes>) {
        self.0 -= result.map_or(0, Bytes::len);
    }
}

impl VotingClient {
    fn enough_replies(&self) -> usize {
        let group = Quorums { n: self.n, f: self.f };
        if mutant!("client.believes-f") { self.f } else { group.replies() }
    }

    /// Enough equal outcomes, told or confirmed by their digest: one of them is a correct
    /// replica's.
    pub(super) fn on_reply(&mut self, from: ReplicaId, reply: Reply, out: &mut Vec<Effect>) {
        let enough = self.enough_replies();
        let Some(Pending::Sent { ballot, told, .. }) = self.pending.get_mut(&reply.number) else {
            return;
        };
        let fingerprint = Fingerprint::of(&reply.outcome);
        if ballot.cast(from, fingerprint) >= enough {
            self.complete(reply.number, reply.outcome, out);
        } else if let (Outcome::Done(result), Fingerprint::Long(_)) = (reply.outcome, fingerprint)
            && told.is_none()
            && teller(&self.client, reply.number, self.n) == from
        {
            *told = self.told.hold(&result);
        }
    }

    /// A result by its digest: if it is here, and this makes enough, it is believed.
    pub(super) fn on_digest(&mut self, from: ReplicaId, by: ResultDigest, out: &mut Vec<Effect>) {
        let enough = self.enough_replies();
        let Some(Pending::Sent { draft, ballot, told }) = self.pending.get_mut(&by.number) else {
            return;
        };
        if ballot.cast(from, Fingerprint::Long(by.digest)) < enough {
            return;
        }
        let any = mutant!("client.takes-any-result");
        if let Some(result) = told.as_ref().filter(|it| any || Digest::of(it) == by.digest) {
            let result = result.clone();
            self.complete(by.number, Outcome::Done(result), out);
        } else if let Some(sent) = self.drafts.get_mut(draft) {
            sent.deadline = sent.deadline.min(Millis(self.now.0 + TELL_WAIT_MS));
            self.next_deadline = self.next_deadline.min(sent.deadline);
        }
    }
}
