//! What a replica does when its disk has come far enough. Where nothing is kept, it waits for
//! nothing.

use super::{Act, Address, CoreEvent, Input, Kept, Packet, ReplicaNode};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::reads::Query;
use pentarchy_core::wire::Wire;
use pentarchy_storage::kept::Then;

impl ReplicaNode {
    /// Carries out what waited for the disk, as far as it has come.
    pub(super) fn release(&mut self, out: &mut Vec<Act>) {
        if !self.kept.as_mut().is_some_and(Kept::look) {
            return;
        }
        if let Some(kept) = &mut self.kept {
            kept.mend(&mut self.executor);
        }
        while let Some(effect) = self.kept.as_mut().and_then(Kept::next_message) {
            self.carry(effect, out);
            self.run(out);
        }
        while let Some((client, answer)) = self.kept.as_mut().and_then(Kept::next_answer) {
            self.answered(out);
            self.tell_client(&client, &answer, out);
        }
        while let Some(then) = self.kept.as_mut().and_then(Kept::next_saved) {
            self.on_saved(then, out);
            self.run(out);
        }
        self.keep_again(out);
    }

    /// The log fills up: the core keeps again what it needs.
    fn keep_again(&mut self, out: &mut Vec<Act>) {
        let may = !self.is_over() && self.inbox.is_empty();
        let Some(kept) = self.kept.as_mut().filter(|_| may) else { return };
        let Some(slot) = kept.asks_again() else { return };
        self.cut_at(slot);
        self.inbox.push_back(CoreEvent::Input(Input::KeepAgain));
        self.run(out);
    }

    fn answered(&mut self, out: &mut Vec<Act>) {
        out.extend(self.kept.as_mut().map(|kept| Act::Saw(kept.answers())));
    }

    /// Does something once the executor's newest state is durable: at once if nothing is kept.
    pub(super) fn when_saved(&mut self, then: Then, out: &mut Vec<Act>) {
        match (&mut self.kept, self.executor.latest()) {
            (Some(kept), Some(snapshot)) => kept.save(snapshot, then),
            _ => self.on_saved(then, out),
        }
    }

    fn on_saved(&mut self, then: Then, out: &mut Vec<Act>) {
        let rests_on = |slot| self.kept.as_ref().map(|kept| Act::Saw(kept.rests_on(slot)));
        match then {
            Then::Checkpointed { slot, state } => {
                out.extend(rests_on(slot));
                self.inbox.push_back(CoreEvent::Input(Input::Checkpointed { slot, state }));
            }
            Then::Installed { slot } => {
                out.extend(rests_on(slot));
                self.inbox.push_back(CoreEvent::Input(Input::Installed { slot }));
            }
            Then::Ended(handover) => {
                out.extend(rests_on(handover.base.slot));
                self.vote_for(handover, out);
            }
        }
    }

    /// A quorum vouches for a state. If this replica has it, what came before it may go.
    pub(super) fn on_stable(&mut self, slot: Slot, state: Digest) {
        let mine = self.executor.snapshot(slot).map(|snapshot| snapshot.digest);
        self.executor.stable(slot);
        let pillars = self.succession.epochs.membership().lane.pillars;
        match (&mut self.kept, mine.filter(|mine| *mine == state)) {
            (_, Some(_)) => self.cut_at(slot),
            (Some(kept), None) if self.core.rules().pillars => kept.stable_in_parts(None, pillars),
            _ => {}
        }
    }

    /// What the core does not keep again from here on may go.
    fn cut_at(&mut self, slot: Slot) {
        let lane = self.succession.epochs.membership().lane;
        let Some(kept) = &mut self.kept else { return };
        if self.core.rules().pillars {
            kept.stable_in_parts(Some(slot), lane.pillars);
        } else {
            let devices = self.device.lock().expect("a device does not panic").memories();
            kept.stable(slot, devices, self.taken);
        }
    }

    /// A pillar writes again what it needs, or has done so.
    pub(super) fn on_keeping(&mut self, pillar: u8, is_done: bool) {
        if let Some(kept) = &mut self.kept {
            let devices = self.device.lock().expect("a device does not panic").memories();
            kept.keeps_again(pillar, is_done, devices, self.taken);
        }
    }

    /// Answers a query from the state as it is now.
    pub(super) fn answer_query(&mut self, query: Query<Address>, out: &mut Vec<Act>) {
        let Query { client, number, operation } = query;
        let result = self.executor.query(&operation);
        self.answer(client, ToClient::Answer { number, result }, out);
    }

    /// Answers the queries for which enough is executed by now.
    pub(super) fn answer_waiting(&mut self, out: &mut Vec<Act>) {
        for query in self.reads.take(self.executor.readable()) {
            self.answer_query(query, out);
        }
    }

    /// Tells a client something, or has that wait for the disk.
    pub(super) fn answer(&mut self, from: Address, answer: ToClient, out: &mut Vec<Act>) {
        let client = match from {
            Address::Client(index) => self.clients.get(usize::from(index)).copied(),
            Address::Replica(_) => None,
        };
        let answer = match (&mut self.kept, client) {
            (Some(kept), Some(client)) => kept.hold_answer(client, answer),
            (Some(_), None) => return,
            (None, _) => Some(answer),
        };
        if let Some(answer) = answer {
            self.answered(out);
            out.push(Act::Send { to: from, packet: Packet::ToClient(answer.to_bytes()) });
        }
    }
}
