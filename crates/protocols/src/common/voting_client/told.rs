//! Results and their digests. One replica sends a result, and all others send its digest
//! ([`pentarchy_core::designated_replier`]). The client compares the two. If enough digests have
//! come and the result has not, the client asks all replicas for it, and each of them sends it.

use super::{
    Bytes, Digest, Effect, Fingerprint, Millis, Outcome, Pending, ReplicaId, Reply, Vec,
    VotingClient, mutant,
};
use pentarchy_core::designated_replier::{ResultDigest, teller};
use pentarchy_core::limits::CLIENT_HELD_BYTES_MAX;

/// How long the result may be on its way when enough digests of it have come, at least; longer
/// where answers took longer lately.
pub const TELL_WAIT_MS: u64 = 10;

/// That a result was forgotten is believed from others than its teller when the request was sent
/// so often.
pub const TELLER_ATTEMPTS: u32 = 3;

impl VotingClient {
    fn enough_replies(&self) -> usize {
        if mutant!("client.believes-f") { self.f } else { self.replies }
    }

    /// Enough equal outcomes, told or confirmed by their digest: one of them is a correct
    /// replica's.
    pub(super) fn on_reply(&mut self, from: ReplicaId, reply: Reply, out: &mut Vec<Effect>) {
        if self.hand_reply_on(from, &reply, out) {
            return;
        }
        let enough = self.enough_replies();
        let tells = teller(&self.client, reply.number, self.n);
        let Some(Pending::Sent { draft, ballot, told, known, .. }) =
            self.pending.get_mut(&reply.number)
        else {
            return;
        };
        let fingerprint = Fingerprint::of(&reply.outcome);
        if *known == Some(fingerprint) {
            self.complete(reply.number, reply.outcome, out);
            return;
        }
        if ballot.cast(from, fingerprint) >= enough {
            // A teller that has said nothing may have sent it before it forgot it.
            let may_come = fingerprint == Fingerprint::Forgotten
                && !ballot.has(tells)
                && self.drafts.get(draft).is_none_or(|sent| sent.attempts < TELLER_ATTEMPTS);
            if !may_come {
                self.complete(reply.number, reply.outcome, out);
            }
        } else if let (Outcome::Done(result), Fingerprint::Long(digest)) =
            (reply.outcome, fingerprint)
            && told.is_none()
            && tells == from
        {
            self.hold(reply.number, digest, &result);
        }
    }

    /// Holds a result until enough digests have come. When there is too much, those of the highest
    /// numbers give way: of these the replicas forget their own last.
    fn hold(&mut self, number: u64, digest: Digest, result: &Bytes) {
        while self.held_bytes + result.len() > CLIENT_HELD_BYTES_MAX {
            let mut above = self.pending.range_mut(number + 1..).rev();
            let held = |(_, pending): (_, &'_ mut Pending)| match pending {
                Pending::Sent { told, .. } => told.take(),
                _ => None,
            };
            let Some((_, given_up)) = above.find_map(held) else { return };
            self.held_bytes -= given_up.len();
        }
        if let Some(Pending::Sent { told, .. }) = self.pending.get_mut(&number) {
            self.held_bytes += result.len();
            // A copy, because the result is part of a frame.
            *told = Some((digest, Bytes::copy_from_slice(result)));
        }
    }

    /// A result by its digest: if it is here, and this makes enough, it is believed.
    pub(super) fn on_digest(&mut self, from: ReplicaId, by: ResultDigest, out: &mut Vec<Effect>) {
        if self.ask_for_whole(by.number) {
            return;
        }
        let enough = self.enough_replies();
        let Some(Pending::Sent { ballot, .. }) = self.pending.get_mut(&by.number) else { return };
        let fingerprint = Fingerprint::Long(by.digest);
        if ballot.cast(from, fingerprint) >= enough {
            self.establish(by.number, fingerprint, out);
        }
    }

    /// What came of a number is known by its fingerprint: it is complete, if the result is here. If
    /// not, it is asked for from everyone, and whoever tells it first is believed.
    pub fn establish(&mut self, number: u64, by: Fingerprint, out: &mut Vec<Effect>) {
        let Some(Pending::Sent { draft, told, known, .. }) = self.pending.get_mut(&number) else {
            return;
        };
        let any = mutant!("client.takes-any-result");
        let is_it = |(digest, _): &&(Digest, Bytes)| any || by == Fingerprint::Long(*digest);
        let held = told.as_ref().filter(is_it).map(|(_, result)| Outcome::Done(result.clone()));
        if let Some(outcome) = by.outcome().or(held) {
            self.complete(number, outcome, out);
            return;
        }
        *known = Some(by);
        let draft = *draft;
        self.ask_again_soon(draft);
    }

    /// Everyone is asked for what came of a draft, unless its results come soon.
    pub(super) fn ask_again_soon(&mut self, draft: u64) {
        if let Some(sent) = self.drafts.get_mut(&draft) {
            let wait_ms = TELL_WAIT_MS.max(self.latency / 8);
            sent.deadline = sent.deadline.min(Millis(self.now.0 + wait_ms));
            self.next_deadline = self.next_deadline.min(sent.deadline);
        }
    }

    /// Whether what came of a number is [known](Self::establish), and only the result is not here.
    #[must_use]
    pub fn is_established(&self, number: u64) -> bool {
        matches!(self.pending.get(&number), Some(Pending::Sent { known: Some(_), .. }))
    }

    /// A replica tells what came of a number, and nothing can be concluded from that but that it is
    /// what was [established](Self::establish), if it is.
    pub fn offer(&mut self, print: Fingerprint, reply: Reply, out: &mut Vec<Effect>) {
        if let Some(Pending::Sent { known, .. }) = self.pending.get(&reply.number)
            && *known == Some(print)
        {
            self.complete(reply.number, reply.outcome, out);
        }
    }

    /// A replica tells a result that is not known to be true: it is held if that is the replica
    /// that is to tell it, or if enough others have confirmed it.
    pub fn note_result(
        &mut self,
        from: ReplicaId,
        reply: &Reply,
        print: Fingerprint,
        is_confirmed: bool,
    ) {
        let (Outcome::Done(result), Fingerprint::Long(digest)) = (&reply.outcome, print) else {
            return;
        };
        let Some(Pending::Sent { told, .. }) = self.pending.get_mut(&reply.number) else { return };
        let tells = teller(&self.client, reply.number, self.n) == from && told.is_none();
        let lies = |(held, _): &(Digest, Bytes)| is_confirmed && *held != digest;
        if told.as_ref().is_some_and(lies)
            && let Some((_, lie)) = told.take()
        {
            self.held_bytes -= lie.len();
        }
        if tells || is_confirmed && told.is_none() {
            self.hold(reply.number, digest, result);
        }
    }
}
