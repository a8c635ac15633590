//! Clients' messages on their way to the core.

use crate::error::Fatal;
use crate::network::Network;
use crate::unit::Unit;
use bytes::Bytes;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire;
use std::sync::Arc;

/// The envelopes of a round, which are checked together, and who asked for the status.
#[derive(Default)]
pub struct Admission {
    fresh: Vec<Arc<Envelope>>,
    /// Envelopes that wait in the core, as of the first envelope of the round.
    waiting: Option<usize>,
    asked_status: Vec<ClientId>,
}

impl Admission {
    /// Takes a client's message.
    pub fn on_client(
        &mut self,
        client: ClientId,
        bytes: &Bytes,
        now_ms: u64,
        unit: &Unit,
        network: &mut Network,
    ) {
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => {
                self.on_request(client, envelope, now_ms, unit, network);
            }
            Ok(ToReplica::Query { number, operation }) => {
                let result = unit.executor.query(&operation);
                answer(&client, &ToClient::Answer { number, result }, now_ms, network);
            }
            Ok(ToReplica::Status) if self.asked_status.contains(&client) => {}
            Ok(ToReplica::Status) => self.asked_status.push(client),
            Err(_) => {
                network.counters.client_malformed += 1;
                disconnect(&client, now_ms, "malformed message", network);
            }
        }
    }

    fn on_request(
        &mut self,
        client: ClientId,
        envelope: Arc<Envelope>,
        now_ms: u64,
        unit: &Unit,
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
        let waiting = *self.waiting.get_or_insert_with(|| unit.core.status().waiting);
        if waiting + self.fresh.len() >= network.limits().waiting_max {
            network.counters.client_busy += 1;
            let number = envelope.requests.iter().map(|request| request.number).min();
            let busy = ToClient::Busy { number: number.unwrap_or_default() };
            return answer(&client, &busy, now_ms, network);
        }
        self.fresh.push(envelope);
    }

    /// Hands the round's authentic envelopes to the core.
    pub fn deliver(
        &mut self,
        now_ms: u64,
        unit: &mut Unit,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        self.waiting = None;
        let all_good = {
            let envelopes: Vec<&Envelope> = self.fresh.iter().map(AsRef::as_ref).collect();
            envelopes.is_empty() || unit.verifier.envelopes(&envelopes)
        };
        for envelope in self.fresh.drain(..) {
            if all_good || unit.verifier.envelope(&envelope) {
                if let Some(request) = unit.answer_settled(envelope, network) {
                    unit.step(CoreEvent::Input(request), network)?;
                }
            } else {
                network.counters.client_bad_auth += 1;
                disconnect(&envelope.client, now_ms, "request not authentic", network);
            }
        }
        Ok(())
    }

    /// Whether someone asked for the status since the last call, and who.
    pub fn take_asked_status(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.asked_status)
    }
}

/// Sends a message to a client that is connected.
pub fn answer(client: &ClientId, message: &ToClient, now_ms: u64, network: &mut Network) {
    if let Some(token) = network.clients.token(client) {
        network.send_client(token, now_ms, message);
    }
}

fn disconnect(client: &ClientId, now_ms: u64, reason: &'static str, network: &mut Network) {
    if let Some(token) = network.clients.token(client) {
        network.close(token, now_ms, reason);
    }
}
