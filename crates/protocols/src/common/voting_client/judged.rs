//! Numbers of which the host judges the replies, as where each replica replies with something of
//! its own: a share, or a signature. The client sends them, again and again, and hands on what each
//! replica tells, once. A digest is no reply: the client asks again, and then each replica tells
//! its whole result.

use super::{
    Bytes, Effect, Outcome, Pending, ReplicaId, ReplicaSet, Reply, Vec, VotingClient, mutant,
};

impl VotingClient {
    pub(super) fn on_submit_judged(
        &mut self,
        number: u64,
        operation: Bytes,
        fast: bool,
        out: &mut Vec<Effect>,
    ) {
        self.judged.insert(number, ReplicaSet::EMPTY);
        if fast {
            self.on_query(number, operation, out);
        } else {
            self.on_submit(number, operation, out);
        }
        if !self.pending.contains_key(&number) {
            self.judged.remove(&number);
        }
    }

    /// The host needs no more replies to a number.
    pub(super) fn on_settled(&mut self, number: u64) {
        if self.judged.remove(&number).is_some() && !self.settle(number) {
            self.pending.remove(&number);
        }
    }

    /// The host dropped what a replica said. It is asked again with everyone.
    pub(super) fn on_unheard(&mut self, number: u64, from: ReplicaId) {
        if let Some(told) = self.judged.get_mut(&number)
            && !mutant!("client.unheard-stays")
        {
            told.remove(from);
        }
    }

    /// A fast read is ordered after all.
    pub(super) fn judge_anew(&mut self, number: u64) {
        if let Some(told) = self.judged.get_mut(&number)
            && !mutant!("client.answers-count-as-replies")
        {
            *told = ReplicaSet::EMPTY;
        }
    }

    /// Hands a reply on, if the host judges it. False if it does not.
    pub(super) fn hand_reply_on(
        &mut self,
        from: ReplicaId,
        reply: &Reply,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Some(told) = self.judged.get_mut(&reply.number) else { return false };
        if matches!(self.pending.get(&reply.number), Some(Pending::Sent { .. }))
            && (told.insert(from) || mutant!("client.hands-on-again"))
        {
            let (number, outcome) = (reply.number, reply.outcome.clone());
            out.push(Effect::Told { number, from, outcome, ordered: true, needed: self.replies });
        }
        true
    }

    /// A replica told a digest. False if the client judges replies to that number.
    pub(super) fn ask_for_whole(&mut self, number: u64) -> bool {
        if !self.judged.contains_key(&number) {
            return false;
        }
        if let Some(Pending::Sent { draft, .. }) = self.pending.get(&number) {
            self.ask_again_soon(*draft);
        }
        true
    }

    /// Hands on the answer to a fast read that the host judges.
    pub(super) fn hand_answer_on(
        &mut self,
        from: ReplicaId,
        number: u64,
        result: Bytes,
        out: &mut Vec<Effect>,
    ) {
        let Some(told) = self.judged.get_mut(&number) else { return };
        if matches!(self.pending.get(&number), Some(Pending::Asked { .. })) && told.insert(from) {
            let (outcome, needed) = (Outcome::Done(result), self.answers);
            out.push(Effect::Told { number, from, outcome, ordered: false, needed });
        }
    }
}
