//! Clients' messages on their way to the core.

use crate::checking::{Checked, UnderCheck};
use crate::error::Fatal;
use crate::network::Network;
use crate::pillars::pillar::Told;
use crate::queries::QueryTime;
use crate::unit::Unit;
use bytes::Bytes;
use pentarchy_core::erased::{CoreEvent, Incoming};
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::{PENDING_CLIENT_ENVELOPES_MAX, RESULT_BYTES_MAX};
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::ports::replica::Input;
use pentarchy_core::reads::Query;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The envelopes of a round, which are checked together, and who asked for the status.
#[derive(Default)]
pub struct Admission {
    fresh: Vec<Arc<Envelope>>,
    /// What pillars are checking, and what they have checked since the last round.
    under_check: UnderCheck,
    checked: Vec<Checked>,
    /// What they are to check.
    telling: Vec<(u8, Told)>,
    /// Messages of the protocol that clients sent in this round.
    said: Vec<(ClientId, Incoming)>,
    /// Requests that each client sent in this round, taken or not.
    sent: BTreeMap<ClientId, usize>,
    /// Envelopes that wait in the core, as of the first envelope of the round.
    waiting: Option<usize>,
    asked_status: BTreeSet<ClientId>,
    /// How long queries, and questions for events, took lately.
    query_time: QueryTime,
}

impl Admission {
    /// Takes a client's message.
    pub fn on_client(
        &mut self,
        client: ClientId,
        bytes: &Bytes,
        now_ms: u64,
        unit: &mut Unit,
        network: &mut Network,
    ) {
        if ToReplica::is_request(bytes) && self.is_excess(client, now_ms, network) {
            network.messages.came("excess", bytes.len());
            return;
        }
        let message = ToReplica::from_bytes(bytes);
        let kind = message.as_ref().map_or("refused", ToReplica::kind);
        network.messages.came(kind, bytes.len());
        match message {
            Ok(ToReplica::Request(envelope)) => {
                self.on_request(client, envelope, now_ms, unit, network);
            }
            Ok(ToReplica::Query { number, operation }) => {
                self.on_query(Query { client, number, operation }, unit, network);
            }
            Ok(ToReplica::Status) => {
                self.asked_status.insert(client);
            }
            Ok(ToReplica::Protocol(message)) => self.on_protocol(client, &message, unit),
            Ok(ToReplica::Resume { from }) => self.on_resume(client, from, now_ms, unit, network),
            Err(_) => {
                network.counters.client_malformed += 1;
                disconnect(&client, now_ms, "malformed message", network);
            }
        }
    }

    /// Counts a request, and says whether its client has sent so many in this round that it is not
    /// even decoded. The first that the core would not take still is, so that it can be answered;
    /// who sends more than that keeps to no limit, and is read seldom from then on.
    fn is_excess(&mut self, client: ClientId, now_ms: u64, network: &mut Network) -> bool {
        let sent = self.sent.entry(client).or_default();
        *sent += 1;
        if *sent > PENDING_CLIENT_ENVELOPES_MAX {
            network.pause_flooder(&client, now_ms);
        }
        let is_excess = *sent > PENDING_CLIENT_ENVELOPES_MAX + 1;
        network.counters.client_busy += u64::from(is_excess);
        is_excess
    }

    fn on_request(
        &mut self,
        client: ClientId,
        envelope: Arc<Envelope>,
        now_ms: u64,
        unit: &mut Unit,
        network: &mut Network,
    ) {
        if envelope.client != client {
            network.counters.client_wrong_author += 1;
            return disconnect(&client, now_ms, "not its own request", network);
        }
        if unit.is_settled(&envelope) {
            unit.answer_settled(envelope, network);
            return;
        }
        let waiting = *self.waiting.get_or_insert_with(|| unit.speaker.core.status().waiting);
        let new = self.fresh.len() + self.under_check.all();
        if waiting + new >= network.limits().waiting_max {
            return unit.refuse(&envelope, network);
        }
        let sent = self.sent.get(&client).copied().unwrap_or_default();
        if sent + self.under_check.of(&client) > PENDING_CLIENT_ENVELOPES_MAX {
            // The core would not take it, so it is not worth a check.
            return unit.refuse(&envelope, network);
        }
        self.fresh.push(envelope);
    }

    /// A message of the protocol: no more of them in a round than envelopes.
    fn on_protocol(&mut self, client: ClientId, message: &Bytes, unit: &mut Unit) {
        let sent = self.sent.entry(client).or_default();
        *sent += 1;
        if *sent > PENDING_CLIENT_ENVELOPES_MAX {
            return;
        }
        match unit.speaker.core.open_client(&*unit.speaker.verifier, message) {
            Ok(incoming) => self.said.push((client, incoming)),
            Err(why) => unit.speaker.rejects.add(why),
        }
    }

    /// Answers a query, or has it wait until this replica has executed what the answer must not
    /// miss, and what it executed cannot be taken back.
    fn on_query(&mut self, query: Query<ClientId>, unit: &mut Unit, network: &mut Network) {
        if unit.is_resuming() {
            network.counters.client_queries_dropped += 1;
            return;
        }
        let (must_have, state) = (unit.reads_from(), unit.executor.readable());
        if let Some(query) = unit.reads.ask(query, must_have, state) {
            self.answer_query(&query, unit, network);
        }
    }

    /// Answers the queries for which enough is executed by now.
    pub fn answer_waiting(&mut self, unit: &mut Unit, network: &mut Network) {
        for query in unit.reads.take(unit.executor.readable()) {
            self.answer_query(&query, unit, network);
        }
    }

    /// Answers a query from the state as it is now, unless so much waits for the client or for the
    /// disk that it would not be read soon, queries have taken enough of this round, or the result
    /// is larger than an ordered one may be.
    fn answer_query(&mut self, query: &Query<ClientId>, unit: &mut Unit, network: &mut Network) {
        let Query { client, number, operation } = query;
        let (client, number) = (*client, *number);
        let waiting = network.client_queued_bytes(&client) + unit.held_answer_bytes(&client);
        let crowded = waiting >= network.limits().query_queue_bytes || unit.waits_for_disk(network);
        let result = match crowded {
            true => None,
            false => self.query_time.spend(client, || unit.executor.query(operation)),
        };
        // What a service says that has failed is not told; the round ends the replica.
        let is_told =
            |result: &Bytes| result.len() <= RESULT_BYTES_MAX && unit.executor.failure().is_none();
        let Some(result) = result.filter(is_told) else {
            network.counters.client_queries_dropped += 1;
            return;
        };
        network.counters.client_queries += 1;
        unit.answer_query(client, ToClient::Answer { number, result }, network);
    }

    /// Sends a client the events that it misses, unless so much waits for it that it would not read
    /// them soon, or it asked for much lately; it asks again.
    fn on_resume(
        &mut self,
        client: ClientId,
        from: u64,
        now_ms: u64,
        unit: &Unit,
        network: &mut Network,
    ) {
        let crowded = network.client_queued_bytes(&client) >= network.limits().query_queue_bytes;
        let answered = !crowded && !unit.executor.withholds_events(&client) && {
            let send = || answer(&client, &unit.executor.events(&client, from), now_ms, network);
            self.query_time.spend(client, send).is_some()
        };
        if answered {
            network.counters.client_resumes += 1;
        } else {
            network.counters.client_resumes_dropped += 1;
        }
    }

    /// Hands the round's authentic envelopes to the core, and what clients said otherwise.
    pub fn deliver(
        &mut self,
        now_ms: u64,
        unit: &mut Unit,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        self.waiting = None;
        self.sent.clear();
        self.query_time.begin_round(now_ms);
        for (client, incoming) in std::mem::take(&mut self.said) {
            unit.step(CoreEvent::Client(client, incoming), network)?;
        }
        // What one client sent stays in its order.
        for checked in std::mem::take(&mut self.checked) {
            self.admit(checked, now_ms, unit, network)?;
        }
        let here = self.share_out(unit);
        let checked = Checked::by(&*unit.speaker.verifier, unit.speaker.epoch, here);
        self.admit(checked, now_ms, unit, network)
    }

    /// A pillar has checked these.
    pub fn on_checked(&mut self, checked: Checked) {
        checked.envelopes.iter().for_each(|envelope| self.under_check.end(envelope.client));
        self.checked.push(checked);
    }

    /// Hands the round's envelopes over to pillars that have threads, to be checked by that of each
    /// client. Gives those that are to be checked here: all, where there are none of these; or the
    /// only one if no other is under check, as that takes less time than to wait for a thread.
    fn share_out(&mut self, unit: &Unit) -> Vec<Arc<Envelope>> {
        let fresh = std::mem::take(&mut self.fresh);
        if !unit.is_split || fresh.len() == 1 && self.under_check.all() == 0 {
            return fresh;
        }
        let lane = unit.succession.epochs.membership().lane;
        let mut shares = vec![Vec::new(); lane.pillars.into()];
        for envelope in fresh {
            self.under_check.begin(envelope.client);
            shares[usize::from(lane.of_client(&envelope.client))].push(envelope);
        }
        let shares = (0..).zip(shares).filter(|(_, share)| !share.is_empty());
        self.telling.extend(shares.map(|(pillar, share)| (pillar, Told::Check(share))));
        Vec::new()
    }

    /// What pillars are to be told at the end of the round, whatever happens to their epoch.
    pub fn telling(&mut self) -> impl Iterator<Item = (u8, Told)> {
        self.telling.drain(..)
    }

    /// Hands what is authentic to the core, and disconnects whoever sent what is not. Others may be
    /// clients in another epoch: then it is checked anew, before what came later.
    fn admit(
        &mut self,
        checked: Checked,
        now_ms: u64,
        unit: &mut Unit,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        let Checked { epoch, mut envelopes, bad } = checked;
        if epoch != unit.speaker.epoch {
            self.fresh.splice(0..0, envelopes);
            return Ok(());
        }
        for client in &bad {
            if network.clients.contains(client) {
                network.counters.client_bad_auth += 1;
                disconnect(client, now_ms, "request not authentic", network);
            }
        }
        envelopes.retain(|envelope| bad.binary_search(&envelope.client).is_err());
        for envelope in envelopes {
            if let Some(request) = unit.answer_settled(envelope, network) {
                if let Input::Request { envelope, .. } = &request {
                    unit.meter.admitted(envelope);
                }
                unit.step(CoreEvent::Input(request), network)?;
            }
        }
        Ok(())
    }

    /// How many envelopes pillars are checking.
    pub fn under_check(&self) -> usize {
        self.under_check.all()
    }

    /// Who asked for the status since the last call.
    pub fn take_asked_status(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.asked_status)
    }

    /// Has a client answered in the next round.
    pub fn ask_status_again(&mut self, client: ClientId) {
        self.asked_status.insert(client);
    }
}

/// Sends a message to a client, if it is connected. False if it is and cannot take it.
pub fn answer(client: &ClientId, message: &ToClient, now_ms: u64, network: &mut Network) -> bool {
    network.clients.token(client).is_none_or(|token| network.send_client(token, now_ms, message))
}

fn disconnect(client: &ClientId, now_ms: u64, reason: &'static str, network: &mut Network) {
    if let Some(token) = network.clients.token(client) {
        network.close(token, now_ms, reason);
    }
}
