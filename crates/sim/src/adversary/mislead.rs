use super::{Address, Adversary, Departure, Packet, Rng};
use crate::service::{Action, Operation};
use pentarchy_core::Bytes;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::wire::Wire;
use std::collections::{BTreeMap, VecDeque};

/// Values of a register that it remembers.
const VALUES_MAX: usize = 4;

/// Queries whose answers it expects.
const ASKED_MAX: usize = 256;

/// In which time it gives one answer after the other.
const SPREAD_US: u64 = 400;

/// Takes part in the protocol as it should, and answers queries with what may well be true: the
/// values that the register had or is to have, one after the other, because of several answers of
/// one replica the last counts. A client that hears a replica which lags needs one more such answer
/// to believe it; a lie that no other replica could tell does no harm.
#[derive(Default)]
pub struct Mislead {
    /// Of each register, the values that it heard of, the latest last.
    values: BTreeMap<u16, VecDeque<Bytes>>,
    /// Which register who asks for under which number.
    asked: BTreeMap<(Address, u64), u16>,
}

impl Mislead {
    fn note(&mut self, key: u16, value: Bytes) {
        let known = self.values.entry(key).or_default();
        known.retain(|it| *it != value);
        known.push_back(value);
        if known.len() > VALUES_MAX {
            known.pop_front();
        }
    }

    fn note_asked(&mut self, from: Address, number: u64, key: u16) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_first();
        }
        self.asked.insert((from, number), key);
    }
}

impl Adversary for Mislead {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        match ToClient::from_bytes(packet.bytes()) {
            Ok(ToClient::Answer { number, result }) if matches!(to, Address::Client(_)) => {
                let known = self.asked.remove(&(to, number));
                if let Some(key) = known {
                    self.note(key, result.clone());
                }
                let values = known.and_then(|key| self.values.get(&key).cloned());
                for result in values.unwrap_or_else(|| VecDeque::from([result])) {
                    let answer = ToClient::Answer { number, result };
                    let packet = Packet::ToClient(0, answer.to_bytes());
                    let after = rng.below(SPREAD_US);
                    out.push(Departure { after, to, packet });
                }
            }
            _ => out.push(Departure { after: 0, to, packet }),
        }
    }

    fn hears(&mut self, from: Address, packet: &Packet, _rng: &mut Rng) -> bool {
        let (Address::Client(_), Packet::ToReplica(bytes)) = (from, packet) else { return true };
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Query { number, operation }) => {
                if let Ok(operation) = Operation::from_bytes(&operation) {
                    self.note_asked(from, number, operation.key);
                }
            }
            Ok(ToReplica::Request(envelope)) => {
                for request in &envelope.requests {
                    if let Ok(Operation { key, action: Action::Put(value), .. }) =
                        Operation::from_bytes(&request.operation)
                    {
                        self.note(key, value);
                    }
                }
            }
            _ => {}
        }
        true
    }
}
