//! What leaves a replica that misbehaves on command.

use super::Network;
use crate::fault::{Fault, corrupted};
use bytes::Bytes;
use pentarchy_core::ids::MemberId;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::wire::Writer;
use pentarchy_machine::Kind;
use pentarchy_machine::fault::other_result;
use std::collections::VecDeque;

/// Messages of a slow replica that wait for their time; more are dropped, as on a full link.
const LATE_MAX: usize = 65_536;

/// A message of a slow replica.
pub enum Late {
    /// For a member.
    Peer(MemberId, Kind, Bytes),
    /// For a client's connection.
    Client(usize, ToClient),
}

/// The fault that is set, and what it holds back.
#[derive(Default)]
pub struct Faulty {
    pub fault: Fault,
    late: VecDeque<(u64, Late)>,
    now_ms: u64,
}

impl Faulty {
    fn hold(&mut self, ms: u32, late: Late) {
        if self.late.len() < LATE_MAX {
            self.late.push_back((self.now_ms + u64::from(ms), late));
        }
    }
}

impl Network {
    /// The fault of this round.
    pub fn set_fault(&mut self, fault: Fault, now_ms: u64) {
        self.faulty.fault = fault;
        self.faulty.now_ms = now_ms;
    }

    /// Sends what has waited long enough.
    pub fn send_late(&mut self, now_ms: u64) {
        while self.faulty.late.front().is_some_and(|(due, _)| *due <= now_ms) {
            match self.faulty.late.pop_front() {
                Some((_, Late::Peer(id, kind, bytes))) => {
                    self.send_peer_now(id, kind, |to| to.array(&bytes));
                }
                Some((_, Late::Client(token, message))) => {
                    self.send_client_now(token, now_ms, &message);
                }
                None => {}
            }
        }
    }

    /// When the next held message is due.
    pub fn late_ms(&self) -> Option<u64> {
        self.faulty.late.front().map(|(due, _)| *due)
    }

    /// What becomes of a message to a peer.
    pub fn send_peer_faultily(
        &mut self,
        id: MemberId,
        kind: Kind,
        encode: impl FnOnce(&mut Writer),
    ) {
        let mut to = Writer::default();
        encode(&mut to);
        let bytes = to.into_bytes();
        match self.faulty.fault {
            Fault::Silent => {}
            Fault::Slow(ms) => self.faulty.hold(ms, Late::Peer(id, kind, bytes)),
            Fault::Corrupt => self.send_peer_now(id, kind, |to| to.array(&corrupted(&bytes))),
            Fault::None | Fault::Equivocate => {
                self.send_peer_now(id, kind, |to| to.array(&bytes));
            }
        }
    }

    /// What becomes of a message to a client. True if it is not to be tried again.
    pub fn send_client_faultily(&mut self, token: usize, now_ms: u64, message: &ToClient) -> bool {
        match (self.faulty.fault, message) {
            // So that whoever gave the command can see what became of it.
            (_, ToClient::Status(_)) => self.send_client_now(token, now_ms, message),
            (Fault::Silent, _) => true,
            (Fault::Slow(ms), _) => {
                self.faulty.hold(ms, Late::Client(token, message.clone()));
                true
            }
            (Fault::Corrupt | Fault::Equivocate, ToClient::Answer { number, result }) => {
                let lie = ToClient::Answer { number: *number, result: other_result(result) };
                self.send_client_now(token, now_ms, &lie)
            }
            _ => self.send_client_now(token, now_ms, message),
        }
    }
}
