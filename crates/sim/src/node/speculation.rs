//! What a replica does with what may be taken back: executes it, tells clients what that rests on,
//! and takes it back or has it count when its core says so.

use super::{Act, Address, CoreEvent, Input, Kept, Observation, ReplicaNode, Reply, ToClient};
use pentarchy_core::batch::Batch;
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, Slot, View};
use pentarchy_core::ports::client::Place;
use pentarchy_core::request::Envelope;
use std::collections::BTreeMap;
use std::sync::Arc;

impl ReplicaNode {
    pub(super) fn speculate(
        &mut self,
        place: Place,
        batch: Arc<Batch>,
        answers_now: bool,
        out: &mut Vec<Act>,
    ) {
        if self.executor.is_ending() {
            // Nothing comes behind the end of an epoch, unless that is taken back.
            return;
        }
        let mut answers: Vec<(ClientId, Vec<Reply>)> = Vec::new();
        let wanted = self.executor.speculate(place, &batch, answers_now, |client, reply| {
            match answers.last_mut() {
                Some((last, replies)) if last == client => replies.push(reply),
                _ => answers.push((*client, vec![reply])),
            }
        });
        let ran = self.drain_journal().into_iter().map(|(_, client, number)| (client, number));
        let (ran, slot, history) = (ran.collect(), place.slot, place.history);
        let told = answers.clone();
        self.kept.iter_mut().for_each(Kept::executed_something);
        out.push(Act::Saw(Observation::Speculated { slot, batch, history, ran, told }));
        for (client, replies) in answers.into_iter().filter(|_| answers_now) {
            self.answer_speculatively(client, place, replies, out);
        }
        if wanted {
            self.queue(CoreEvent::Input(Input::Wanted { slot }));
        }
    }

    /// Says on what results rest, of some of them by their digests.
    fn answer_speculatively(
        &mut self,
        client: ClientId,
        place: Place,
        replies: Vec<Reply>,
        out: &mut Vec<Act>,
    ) {
        let primary = self.keys.membership.primary(place.view);
        let (replies, digests) = self.telling().split(&client, replies);
        if !replies.is_empty() {
            self.tell(client, ToClient::Speculative { primary, place, replies }, out);
        }
        if !digests.is_empty() {
            self.tell(client, ToClient::SpeculativeDigests { primary, place, digests }, out);
        }
    }

    /// What was speculated stands in another view.
    pub(super) fn restate(&mut self, view: View, out: &mut Vec<Act>) {
        for (client, place, replies) in self.executor.restate(view) {
            self.answer_speculatively(client, place, replies, out);
        }
    }

    /// Clients of this slot were not told when it was executed, or it stands in another view now.
    pub(super) fn answer_late(&mut self, slot: Slot, view: View, out: &mut Vec<Act>) {
        for (client, place, replies) in self.executor.answers(slot, view) {
            self.answer_speculatively(client, place, replies, out);
        }
    }

    pub(super) fn commit(&mut self, upto: Slot, out: &mut Vec<Act>) {
        let upto = upto.min(self.executor.executed());
        let mut notices = Vec::new();
        self.executor.commit(upto, |client, notice| notices.push((*client, notice)));
        out.push(Act::Saw(Observation::Committed { upto }));
        let mut replies: BTreeMap<ClientId, Vec<Reply>> = BTreeMap::new();
        for (client, notice) in notices {
            match notice {
                Notice::Reply(reply) => replies.entry(client).or_default().push(reply),
                Notice::Event { number, body } => self.inform(client, number, body, out),
            }
        }
        replies.into_iter().for_each(|(client, replies)| self.reply(client, replies, out));
        if self.executor.is_ending() && !self.executor.is_speculative() {
            self.on_ended(out);
        }
    }

    pub(super) fn roll_back(&mut self, after: Slot, out: &mut Vec<Act>) {
        if after < self.executor.executed() {
            self.executor.rollback(after);
            // What stays ran before.
            self.drain_journal();
            out.push(Act::Saw(Observation::RolledBack { after }));
        }
    }

    /// Tells a client something that rests on what was written before.
    pub(super) fn tell(&mut self, client: ClientId, message: ToClient, out: &mut Vec<Act>) {
        self.kept.iter_mut().for_each(Kept::executed_something);
        if let ToClient::Committed(place) = &message
            && place.slot <= self.executor.executed()
        {
            out.push(Act::Saw(Observation::Confirmed { place: *place }));
        }
        if let Some(index) = self.clients.iter().position(|known| *known == client) {
            self.answer(Address::Client(index as u16), message, out);
        }
    }

    /// Answers what is settled: what is final as such, and the rest with what it rests on.
    pub(super) fn answer_settled(
        &mut self,
        envelope: &Arc<Envelope>,
        settled: Vec<Reply>,
        out: &mut Vec<Act>,
    ) {
        let place = self.executor.places(&envelope.client);
        let mut open: BTreeMap<Place, Vec<Reply>> = BTreeMap::new();
        let mut sure = Vec::new();
        for reply in settled {
            match place(reply.number) {
                Some(place) => open.entry(place).or_default().push(reply),
                None => sure.push(reply),
            }
        }
        drop(place);
        if !sure.is_empty() {
            self.reply(envelope.client, sure, out);
        }
        for (place, replies) in open {
            self.executor.ask(place.slot, envelope);
            let primary = self.keys.membership.primary(place.view);
            let told = ToClient::Speculative { primary, place, replies };
            self.tell(envelope.client, told, out);
            self.queue(CoreEvent::Input(Input::Wanted { slot: place.slot }));
        }
    }
}
