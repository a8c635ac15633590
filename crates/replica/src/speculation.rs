//! What clients are told of what was executed, whether it may be taken back or not.

use crate::error::Fatal;
use crate::network::Network;
use crate::unit::{Unit, request};
use pentarchy_core::batch::Batch;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, Slot, View};
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::ports::replica::Input;
use pentarchy_core::request::Envelope;
use pentarchy_core::telling::Telling;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

impl Unit {
    /// Executes what may be taken back, and tells clients so if it `answers`.
    pub fn speculate(
        &mut self,
        place: Place,
        batch: &Arc<Batch>,
        answers: bool,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        if self.executor.is_ending() {
            // Nothing comes behind the end of an epoch, unless that is taken back.
            return Ok(());
        }
        let begun = Instant::now();
        let mut told: Vec<(ClientId, Vec<Reply>)> = Vec::new();
        let is_wanted =
            self.executor.speculate(place, batch, answers, |client, reply| match told.last_mut() {
                _ if !answers => {}
                Some((last, replies)) if last == client => replies.push(reply),
                _ => told.push((*client, vec![reply])),
            });
        self.check_service()?;
        self.meter.executed(batch, begun);
        if let Some(keeper) = &mut self.keeper {
            keeper.executed();
        }
        let telling = self.telling(network);
        for (client, replies) in told {
            self.answer_speculatively(client, place, replies, Some(telling), network);
        }
        if is_wanted {
            self.want(place.slot);
        }
        Ok(())
    }

    /// How this replica tells results that it has just come by.
    pub fn telling(&self, network: &Network) -> Telling {
        let (me, n) = (self.speaker.me, self.executor.members());
        Telling { me, n, whole_bytes: network.limits().whole_result_bytes }
    }

    /// What was speculated stands in another view: who waits for answers alike of all would wait
    /// until it asks again.
    pub fn restate(&mut self, view: View, network: &mut Network) {
        let told = self.executor.restate(view);
        self.answer_all(told, network);
    }

    /// Clients of this slot were not told when it was executed, or it stands in another view now.
    pub fn answer_late(&mut self, slot: Slot, view: View, network: &mut Network) {
        let told = self.executor.answers(slot, view);
        self.answer_all(told, network);
    }

    fn answer_all(&mut self, told: Vec<(ClientId, Place, Vec<Reply>)>, network: &mut Network) {
        let telling = self.telling(network);
        for (client, place, replies) in told {
            self.answer_speculatively(client, place, replies, Some(telling), network);
        }
    }

    /// Somebody waits until this slot is final.
    fn want(&mut self, slot: Slot) {
        self.speaker.inward.push_back(CoreEvent::Input(Input::Wanted { slot }));
    }

    /// Says on what results rest: if `telling` says so, some of them by their digests.
    fn answer_speculatively(
        &mut self,
        client: ClientId,
        place: Place,
        replies: Vec<Reply>,
        telling: Option<Telling>,
        network: &mut Network,
    ) {
        if network.clients.contains(&client) {
            let told = |reply| match network.told(Notice::Reply(reply)) {
                Notice::Reply(reply) => Some(reply),
                Notice::Event { .. } => None,
            };
            let replies: Vec<Reply> = replies.into_iter().filter_map(told).collect();
            let (replies, digests) = match telling {
                Some(telling) => telling.split(&client, replies),
                None => (replies, Vec::new()),
            };
            let primary = self.succession.epochs.membership().primary(place.view);
            if !replies.is_empty() {
                let told = ToClient::Speculative { primary, place, replies };
                self.tell_client(client, told, network);
            }
            if !digests.is_empty() {
                let told = ToClient::SpeculativeDigests { primary, place, digests };
                self.tell_client(client, told, network);
            }
        }
    }

    /// Tells a client something that rests on what was written before.
    pub fn tell_client(&mut self, client: ClientId, message: ToClient, network: &mut Network) {
        if let Some(keeper) = &mut self.keeper {
            keeper.executed();
        }
        self.answer_query(client, message, network);
    }

    /// What was speculated up to this slot is final.
    pub fn commit(&mut self, upto: Slot, network: &mut Network) -> Result<(), Fatal> {
        let upto = upto.min(self.executor.executed());
        self.executor.commit(upto, |client, notice| network.notify(client, notice));
        if self.executor.is_ending() && !self.executor.is_speculative() {
            self.on_ended(network)?;
        }
        Ok(())
    }

    /// Takes back what was speculated behind this slot.
    pub fn roll_back(&mut self, after: Slot) -> Result<(), Fatal> {
        if after < self.executor.executed() {
            tracing::info!(%after, "taking back what was executed behind a slot");
            self.executor.rollback(after);
        }
        self.check_service()
    }

    /// Answers from the client table what is settled, and gives the core what is left to be
    /// ordered.
    pub fn answer_settled(
        &mut self,
        envelope: Arc<Envelope>,
        network: &mut Network,
    ) -> Option<Input> {
        let replies: Vec<Reply> = self.settled(&envelope).collect();
        let settled = replies.iter().map(|reply| reply.number).collect();
        if self.executor.is_speculative() {
            self.answer_open(&envelope, replies, network);
        } else {
            for reply in replies {
                network.notify(&envelope.client, Notice::Reply(reply));
            }
        }
        request(envelope, settled, false)
    }

    /// Tells a client what is final as such, and the rest with what it rests on.
    fn answer_open(&mut self, envelope: &Arc<Envelope>, all: Vec<Reply>, network: &mut Network) {
        let mut open: BTreeMap<Place, Vec<Reply>> = BTreeMap::new();
        {
            let place = self.executor.places(&envelope.client);
            for reply in all {
                match place(reply.number) {
                    Some(place) => open.entry(place).or_default().push(reply),
                    None => network.notify(&envelope.client, Notice::Reply(reply)),
                }
            }
        }
        for (place, replies) in open {
            self.executor.ask(place.slot, envelope);
            self.answer_speculatively(envelope.client, place, replies, None, network);
            self.want(place.slot);
        }
    }
}
