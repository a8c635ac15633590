//! The way back: what the tail has ordered is done, and each replica hears so from its successor,
//! with the tags of all behind it. One set of tags is enough for many slots, as a history names
//! all of them.

use super::message::Message;
use super::mode::Mode;
use super::replica::Shuttle;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Reply;
use pentarchy_core::ports::replica::replying;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::request::Envelope;

impl<M: Mode> Shuttle<M> {
    pub(super) fn on_done(
        &mut self,
        author: ReplicaId,
        (upto, history): (Slot, Digest),
        tags: Vec<M::Tag>,
        out: &mut Effects<Self>,
    ) {
        if self.successor() != Some(author) || upto <= self.done {
            return;
        }
        if self.log.history_at(upto) != Some(history) {
            return self.accuse(author, "it ordered what it was not sent", out);
        }
        self.note_done(upto, tags, out);
    }

    /// All have ordered this; these are the tags of all behind this replica.
    pub(super) fn note_done(&mut self, upto: Slot, tags: Vec<M::Tag>, out: &mut Effects<Self>) {
        if upto <= self.done {
            return;
        }
        (self.done, self.done_tags) = (upto, Some(tags));
        self.say_done(out);
        self.mark(out);
    }

    pub(super) fn say_done(&self, out: &mut Effects<Self>) {
        let history = self.log.history_at(self.done);
        if let (Some(before), Some(history), Some(tags)) =
            (self.predecessor(), history, &self.done_tags)
        {
            let message = Message::Done { upto: self.done, history, tags: tags.clone() };
            out.send(To::One(before), message);
        }
    }

    /// A client asks again for what is settled here: a full replica says what is final, which is
    /// what all have ordered. Else a client could be told by `f + 1` of what the others never get.
    pub(super) fn on_asked(
        &self,
        client: ClientId,
        mut replies: Vec<Reply>,
        out: &mut Effects<Self>,
    ) {
        let open: Vec<&Envelope> = self
            .log
            .behind(self.done)
            .flat_map(|entry| &entry.batch.envelopes)
            .map(|envelope| &**envelope)
            .filter(|envelope| envelope.client == client)
            .collect();
        let is_open = |number: u64| open.iter().any(|envelope| envelope.asks(number));
        if !mutant!("shuttle.final-at-order-time") {
            replies.retain(|reply| !is_open(reply.number));
        }
        if self.is_full(self.me) && !replies.is_empty() {
            out.output(replying::Output::Reply { client, replies });
        }
    }
}
