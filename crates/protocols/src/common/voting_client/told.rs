//! Results and their digests. One replica tells a result, all others tell its digest
//! ([`pentarchy_core::telling`]); that it is the one that was agreed on its digest says. If enough
//! digests have come and the result has not, it is asked for from everyone, and whoever is asked
//! again tells it.

use super::{
    Bytes, Digest, Effect, Fingerprint, Millis, Outcome, Pending, Quorums, ReplicaId, Reply, Vec,
    VotingClient, mutant,
};
use pentarchy_core::limits::CLIENT_HELD_BYTES_MAX;
use pentarchy_core::telling::{ResultDigest, teller};

/// How long the result may be on its way when enough digests of it have come, at least; longer
/// where answers took longer lately.
pub const TELL_WAIT_MS: u64 = 10;

/// That a result was forgotten is believed from others than its teller when the request was sent
/// so often.
pub const TELLER_ATTEMPTS: u32 = 3;

impl VotingClient {
    fn enough_replies(&self) -> usize {
        let group = Quorums { n: self.n, f: self.f };
        if mutant!("client.believes-f") { self.f } else { group.replies() }
    }

    /// Enough equal outcomes, told or confirmed by their digest: one of them is a correct
    /// replica's.
    pub(super) fn on_reply(&mut self, from: ReplicaId, reply: Reply, out: &mut Vec<Effect>) {
        let enough = self.enough_replies();
        let tells = teller(&self.client, reply.number, self.n);
        let Some(Pending::Sent { draft, ballot, told }) = self.pending.get_mut(&reply.number)
        else {
            return;
        };
        let fingerprint = Fingerprint::of(&reply.outcome);
        if ballot.cast(from, fingerprint) >= enough {
            // A teller that has said nothing may have sent it before it forgot it.
            let may_come = fingerprint == Fingerprint::Forgotten
                && !ballot.has(tells)
                && self.drafts.get(draft).is_none_or(|sent| sent.attempts < TELLER_ATTEMPTS);
            if !may_come {
                self.complete(reply.number, reply.outcome, out);
            }
        } else if let (Outcome::Done(result), Fingerprint::Long(_)) = (reply.outcome, fingerprint)
            && told.is_none()
            && tells == from
        {
            self.hold(reply.number, &result);
        }
    }

    /// Holds a result until enough digests have come. When there is too much, those of the highest
    /// numbers give way: of these the replicas forget their own last.
    fn hold(&mut self, number: u64, result: &Bytes) {
        while self.held_bytes + result.len() > CLIENT_HELD_BYTES_MAX {
            let mut above = self.pending.range_mut(number + 1..).rev();
            let held = |(_, pending): (_, &'_ mut Pending)| match pending {
                Pending::Sent { told, .. } => told.take(),
                _ => None,
            };
            let Some(given_up) = above.find_map(held) else { return };
            self.held_bytes -= given_up.len();
        }
        if let Some(Pending::Sent { told, .. }) = self.pending.get_mut(&number) {
            self.held_bytes += result.len();
            // A copy, because the result is part of a frame.
            *told = Some(Bytes::copy_from_slice(result));
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
            let wait_ms = TELL_WAIT_MS.max(self.latency / 8);
            sent.deadline = sent.deadline.min(Millis(self.now.0 + wait_ms));
            self.next_deadline = self.next_deadline.min(sent.deadline);
        }
    }
}
