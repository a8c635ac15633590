//! Clients' messages on their way to the core.

use crate::checking::Checked;
use crate::driver::{Driver, HangUp, Pause};
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::pillar::ToPillar;
use crate::store::Disk;
use bytes::Bytes;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ClientId, View};
use pentarchy_core::limits::{LINKS_TOLD_MAX, PENDING_CLIENT_ENVELOPES_MAX, RESULT_BYTES_MAX};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Reply, ToClient, ToReplica};
use pentarchy_core::ports::replica::Input;
use pentarchy_core::reads::Query;
use pentarchy_core::request::Envelope;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::standing::Standing;
use pentarchy_core::wire::Wire;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<D: Disk> Machine<'_, D> {
    /// A client's message came.
    pub fn on_client(&mut self, client: ClientId, bytes: &Bytes, driver: &mut impl Driver) {
        if ToReplica::is_request(bytes) && self.is_excess(client, driver) {
            self.engine.messages.came("excess", bytes.len());
            return;
        }
        let message = ToReplica::from_bytes(bytes);
        let kind = message.as_ref().map_or("refused", ToReplica::kind);
        self.engine.messages.came(kind, bytes.len());
        match message {
            Ok(ToReplica::Request(envelope)) => self.on_request(client, envelope, driver),
            Ok(ToReplica::Query { number, operation }) => {
                self.on_query(Query { client, number, operation }, driver);
            }
            Ok(ToReplica::Status) => {
                self.admission.asked_status.insert(client);
            }
            Ok(ToReplica::Protocol(message)) => self.on_protocol(client, &message),
            Ok(ToReplica::Resume { from }) => self.on_resume(client, from, driver),
            Ok(ToReplica::Standing { from }) => self.on_standing(client, from, driver),
            Ok(ToReplica::State(question)) if question.is_question() => {
                self.on_learner(client, &question, driver);
            }
            Ok(ToReplica::State(_)) | Err(_) => {
                self.engine.counters.client_malformed += 1;
                driver.hang_up(&client, HangUp::Malformed);
            }
        }
    }

    /// Counts a request, and says whether its client has sent so many in this round that it is not
    /// even decoded. The first that the core would not take still is, so that it can be answered;
    /// a client that sends more than that keeps to no limit, and is read seldom from then on.
    fn is_excess(&mut self, client: ClientId, driver: &mut impl Driver) -> bool {
        let sent = self.admission.sent.entry(client).or_default();
        *sent += 1;
        if *sent > PENDING_CLIENT_ENVELOPES_MAX {
            driver.pause_client(&client, Pause::Flood);
        }
        let is_excess = *sent > PENDING_CLIENT_ENVELOPES_MAX + 1;
        self.engine.counters.client_busy += u64::from(is_excess);
        is_excess
    }

    fn on_request(&mut self, client: ClientId, envelope: Arc<Envelope>, driver: &mut impl Driver) {
        if envelope.client != client {
            self.engine.counters.client_wrong_author += 1;
            return driver.hang_up(&client, HangUp::NotItsOwn);
        }
        if self.is_settled(&envelope) {
            self.answer_settled(envelope, driver);
            return;
        }
        let core = &self.engine.core;
        let waiting = *self.admission.waiting.get_or_insert_with(|| core.status().waiting);
        let new = self.admission.fresh.len() + self.admission.under_check.all();
        if waiting + new >= self.limits.waiting_max {
            return self.refuse(&envelope, driver);
        }
        let sent = self.admission.sent.get(&client).copied().unwrap_or_default();
        let under_check = self.admission.under_check.of(&client);
        let is_beyond = sent + under_check > PENDING_CLIENT_ENVELOPES_MAX;
        if is_beyond && !mutant!("admission.share-not-kept") {
            // The core would not take it, so it is not worth a check.
            return self.refuse(&envelope, driver);
        }
        self.admission.fresh.push(envelope);
    }

    /// Tells a client that there is no room for its envelope now, and does not listen to it for a
    /// moment.
    pub(crate) fn refuse(&mut self, envelope: &Envelope, driver: &mut impl Driver) {
        self.engine.counters.client_busy += 1;
        let busy = ToClient::Busy { number: envelope.range().0 };
        driver.send_client(&envelope.client, &busy);
        driver.pause_client(&envelope.client, Pause::Busy);
    }

    /// Whether nothing in the envelope is left to be ordered.
    #[must_use]
    pub fn is_settled(&self, envelope: &Envelope) -> bool {
        self.executor.lookups(envelope).all(|known| known != Lookup::New)
    }

    /// What this replica knows of an envelope's requests that are settled.
    pub(crate) fn settled<'a>(
        &'a self,
        envelope: &'a Envelope,
    ) -> impl Iterator<Item = Reply> + 'a {
        let known = envelope.requests.iter().zip(self.executor.lookups(envelope));
        known.filter_map(|(request, known)| match known {
            Lookup::New => None,
            Lookup::Settled(outcome) => Some(Reply { number: request.number, outcome }),
        })
    }

    /// A message of the protocol: no more of them in a round than envelopes.
    fn on_protocol(&mut self, client: ClientId, message: &Bytes) {
        let sent = self.admission.sent.entry(client).or_default();
        *sent += 1;
        if *sent > PENDING_CLIENT_ENVELOPES_MAX {
            return;
        }
        self.admission.said.push((client, message.clone()));
    }

    /// Answers a query, or has it wait until this replica has executed what the answer must not
    /// miss, and what it executed cannot be taken back.
    fn on_query(&mut self, query: Query<ClientId>, driver: &mut impl Driver) {
        if self.is_resuming() || self.others_may_be_ahead() {
            self.engine.counters.client_queries_dropped += 1;
            return;
        }
        driver.observe(Observed::Query(&query.client, query.number));
        let (must_have, state) = (self.reads_from(), self.executor.readable());
        if let Some(query) = self.reads.ask(query, must_have, state) {
            self.run_query(&query, driver);
        }
    }

    /// Whether other replicas may be in a later epoch that this one has not begun, with quorums in
    /// which no replica is that a client of this epoch asks. This replica does not know what the
    /// others told clients there. So it is where an authority outside stops cores, and where the
    /// executed slots end with another configuration: see `docs/reads.md`.
    fn others_may_be_ahead(&self) -> bool {
        let is_last = self.executor.next_configuration().is_some();
        let ends = is_last || self.is_leaving();
        self.wedging.is_wedged || (ends && !mutant!("epochs.reads-behind-the-end"))
    }

    /// Answers the queries for which enough is executed by now.
    pub(crate) fn answer_waiting(&mut self, driver: &mut impl Driver) {
        if self.others_may_be_ahead() {
            return;
        }
        for query in self.reads.take(self.executor.readable()) {
            self.run_query(&query, driver);
        }
    }

    /// Answers a query from the state as it is now, unless so much waits for the client or for the
    /// disk that it would not be read soon, queries have taken enough of this round, or the result
    /// is larger than an ordered one may be.
    fn run_query(&mut self, query: &Query<ClientId>, driver: &mut impl Driver) {
        let Query { client, number, operation } = query;
        let (client, number) = (*client, *number);
        let waiting = driver.client_queued_bytes(&client) + self.held_answer_bytes(&client);
        let crowded = waiting >= self.limits.query_queue_bytes || self.waits_for_disk();
        if crowded || !self.admission.query_time.may_spend(&client) {
            self.engine.counters.client_queries_dropped += 1;
            return;
        }
        let begun = driver.elapsed();
        let result = self.executor.query(operation);
        self.admission.query_time.spent(client, driver.elapsed().saturating_sub(begun));
        // What a service says that has failed is not told; the round ends the replica.
        if result.len() > RESULT_BYTES_MAX || self.executor.failure().is_some() {
            self.engine.counters.client_queries_dropped += 1;
            return;
        }
        self.engine.counters.client_queries += 1;
        let state = (self.executor.executed(), self.executor.is_speculative());
        driver.observe(Observed::Answer(&client, number, state));
        let result = self.replies.own(&client, number, result);
        self.answer_query(client, ToClient::Answer { number, result }, driver);
    }

    /// Sends a client the events that it misses, unless so much waits for it that it would not read
    /// them soon, or it asked for much lately; it asks again.
    fn on_resume(&mut self, client: ClientId, from: u64, driver: &mut impl Driver) {
        let crowded = driver.client_queued_bytes(&client) >= self.limits.query_queue_bytes;
        let withholds = self.executor.withholds_events(&client);
        if crowded || withholds || !self.admission.query_time.may_spend(&client) {
            self.engine.counters.client_resumes_dropped += 1;
            return;
        }
        let begun = driver.elapsed();
        driver.send_client(&client, &self.executor.events(&client, from));
        self.admission.query_time.spent(client, driver.elapsed().saturating_sub(begun));
        self.engine.counters.client_resumes += 1;
    }

    /// Tells a client how the group stands, under the same conditions. Only what cannot be taken
    /// back any more counts as pending.
    fn on_standing(&mut self, client: ClientId, from: u64, driver: &mut impl Driver) {
        let states = self.states_for(&client);
        // Parts of the state that a machine learns may wait before the answer.
        let waiting_max = match states.is_empty() {
            true => self.limits.query_queue_bytes,
            false => self.limits.transfer_queue_bytes,
        };
        let crowded = driver.client_queued_bytes(&client) >= waiting_max;
        if crowded || !self.admission.query_time.may_spend(&client) {
            return;
        }
        let begun = driver.elapsed();
        let known = usize::try_from(from).unwrap_or(usize::MAX);
        let links = self.epoch_manager.epochs.links().iter().skip(known).take(LINKS_TOLD_MAX);
        let pending = self.executor.settled_change();
        let standing = Standing {
            epoch: self.epoch(),
            links: links.cloned().collect(),
            pending: pending.map(|(change, _)| change.clone()),
            states,
        };
        driver.send_client(&client, &ToClient::Standing(standing.to_bytes()));
        self.admission.query_time.spent(client, driver.elapsed().saturating_sub(begun));
    }

    /// Tells clients how the last configuration ended, so that they go on with the next one.
    pub(crate) fn tell_configuration(&self, driver: &mut impl Driver) {
        let links: Vec<_> = self.epoch_manager.epochs.links().last().cloned().into_iter().collect();
        let standing = Standing { epoch: self.epoch(), links, pending: None, states: Vec::new() };
        let Some(number) = standing.begun() else { return };
        let message = ToClient::Standing(standing.to_bytes());
        driver.on_begun(number);
        for client in self.replies.clients() {
            driver.send_client(&client, &message);
        }
    }

    /// Hands the round's authentic envelopes to the core, and what clients said otherwise.
    pub(crate) fn admit_round(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        self.admission.waiting = None;
        self.admission.sent.clear();
        self.admission.query_time.begin_round(self.engine.now_ms);
        for (client, message) in std::mem::take(&mut self.admission.said) {
            // Another epoch may have begun since the message came, by another protocol or with
            // other members: only the core that takes a message can open it.
            if let Some(event) = self.engine.open_client(client, &message) {
                self.step(event, driver)?;
            }
        }
        // What one client sent stays in its order, unless threads of pillars check a part of it
        // once more.
        let mut again = Vec::new();
        for checked in std::mem::take(&mut self.admission.checked) {
            again.append(&mut self.admit(checked, driver)?);
        }
        loop {
            self.admission.fresh.splice(0..0, again);
            let here = self.share_out();
            driver.observe(Observed::Checks(&here));
            let checked = Checked::by(&*self.engine.verifier, self.engine.epoch, here);
            again = self.admit(checked, driver)?;
            if again.is_empty() {
                break;
            }
        }
        self.ask_core(driver)
    }

    /// Hands the round's envelopes over to pillars that have threads, to be checked by that of each
    /// client. Gives those that are to be checked here: all, where there are none of these; or the
    /// only one if no other is under check, as that takes less time than to wait for a thread.
    fn share_out(&mut self) -> Vec<Arc<Envelope>> {
        let lane = self.membership().lane;
        let admission = &mut self.admission;
        let fresh = std::mem::take(&mut admission.fresh);
        if !self.is_split || fresh.len() == 1 && admission.under_check.all() == 0 {
            return fresh;
        }
        let mut shares = vec![Vec::new(); lane.pillars.into()];
        for envelope in fresh {
            admission.under_check.begin(envelope.client);
            shares[usize::from(lane.of_client(&envelope.client))].push(envelope);
        }
        let shares = (0..).zip(shares).filter(|(_, share)| !share.is_empty());
        admission.to_pillars.extend(shares.map(|(pillar, share)| (pillar, ToPillar::Check(share))));
        Vec::new()
    }

    /// Hands what is authentic to the core, and disconnects each client that sent something else.
    /// If this replica checks requests in another way since a moment ago, a client may not have
    /// heard that yet: then the replica only drops what that client sent, and the client asks again
    /// when it has followed.
    ///
    /// Gives what has to be checked anew, as it was checked in another epoch than this: with one of
    /// the envelopes the next epoch may begin, which may list other clients or have other keys.
    fn admit(
        &mut self,
        checked: Checked,
        driver: &mut impl Driver,
    ) -> Result<Vec<Arc<Envelope>>, Halt> {
        let Checked { epoch, mut envelopes, bad } = checked;
        if epoch != self.engine.epoch {
            return Ok(envelopes);
        }
        let is_strict = self.engine.now_ms >= self.admission.strict_from_ms;
        for client in &bad {
            if is_strict && self.replies.contains(client) {
                self.engine.counters.client_bad_auth += 1;
                driver.hang_up(client, HangUp::NotAuthentic);
            }
        }
        envelopes.retain(|envelope| bad.binary_search(&envelope.client).is_err());
        let mut envelopes = envelopes.into_iter();
        while let Some(envelope) = envelopes.next() {
            if let Some(request) = self.answer_settled(envelope, driver) {
                if let Input::Request { envelope, .. } = &request {
                    self.meter.admitted(envelope, || driver.elapsed());
                }
                self.step(CoreEvent::Input(request), driver)?;
            }
            if epoch != self.engine.epoch && !mutant!("epochs.checked-in-the-one-before") {
                return Ok(envelopes.collect());
            }
        }
        Ok(Vec::new())
    }

    /// Sends what was collected for clients.
    pub(crate) fn send_replies(&mut self, driver: &mut impl Driver) {
        // Each client takes it modulo the group's size.
        let core = &self.engine.core;
        let (is_split, primary) = (core.rules().pillars, core.status().primary);
        let hint = |client: &ClientId| match is_split {
            true => core.hint(client),
            false => View(u64::from(primary.0)),
        };
        while let Some((client, message)) = self.replies.next_message(hint) {
            driver.send_client(&client, &message);
        }
    }

    /// The clients that asked for the status since the last call.
    pub fn take_status_questions(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.admission.asked_status)
    }

    /// Tells a client the status; if it cannot take it, it is told again.
    pub fn answer_status(&mut self, client: ClientId, json: Bytes, driver: &mut impl Driver) {
        if !driver.send_client(&client, &ToClient::Status(json)) {
            self.admission.asked_status.insert(client);
        }
    }
}
