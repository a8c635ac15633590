//! What drives a machine: its sockets, its timers and its clock.

use crate::fault::Fault;
use crate::network::Network;
use crate::timers::Timers;
use pentarchy_core::ids::{ClientId, MemberId};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::protocol::{Delay, Timeouts, TimerKey};
use pentarchy_core::wire::Writer;
use pentarchy_io::clock::Clock;
use pentarchy_machine::report::LinkReport;
use pentarchy_machine::{Driver, HangUp, Kind, Pause};
use std::collections::BTreeSet;
use std::time::Duration;

/// Of one thread.
pub struct SocketDriver {
    pub network: Network,
    pub timers: Timers,
    /// The numbers behind symbolic delays.
    timeouts: Timeouts,
    pub clock: Clock,
    /// The clock at the start of the round.
    now_ms: u64,
}

impl SocketDriver {
    pub fn new(network: Network, timeouts: Timeouts) -> Self {
        let (timers, clock) = Default::default();
        Self { network, timers, timeouts, clock, now_ms: 0 }
    }

    /// A round begins: gives its time. What leaves is changed as this fault has it, if there is a
    /// switch for faults.
    pub fn begin_round(&mut self, fault: Option<Fault>) -> u64 {
        self.now_ms = self.clock.elapsed_ms();
        if let Some(fault) = fault {
            self.network.set_fault(fault, self.now_ms);
            self.network.send_late(self.now_ms);
        }
        self.now_ms
    }

    /// When it has something to do.
    pub fn next_ms(&self) -> Option<u64> {
        let Self { network, timers, .. } = self;
        let deadlines = [timers.next_ms(), network.next_ms(), network.late_ms()];
        deadlines.into_iter().flatten().min()
    }

    /// A newer member has shown what it had to show.
    pub fn hang_up_on_newer(&mut self, token: usize) {
        self.network.close(token, self.now_ms, "has shown how the group went on");
    }

    /// What it has counted.
    pub fn report(&self) -> LinkReport {
        self.network.report(self.timers.len())
    }
}

impl Driver for SocketDriver {
    type Notices = ();

    fn send_peer(&mut self, peer: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer)) {
        self.network.send_peer(peer, kind, encode);
    }
    fn send_client(&mut self, client: &ClientId, message: &ToClient) -> bool {
        let Some(token) = self.network.clients.token(client) else { return true };
        self.network.send_client(token, self.now_ms, message)
    }
    fn on_begun(&mut self, number: u64) {
        self.network.begun = number;
    }
    fn hang_up(&mut self, client: &ClientId, why: HangUp) {
        if let Some(token) = self.network.clients.token(client) {
            // It may have asked how the group has changed, and is wrong because it does not know.
            self.network.flush_link(token, self.now_ms);
            self.network.close(token, self.now_ms, why.text());
        }
    }
    fn pause_client(&mut self, client: &ClientId, pause: Pause) {
        self.network.pause_client(client, pause, self.now_ms);
    }
    fn pause_peer(&mut self, peer: MemberId) {
        self.network.pause_peer(peer, self.now_ms);
    }
    fn on_members(&mut self, membership: &Membership) {
        self.network.begin_configuration(membership, self.now_ms);
    }
    fn is_convinced_by(&self, peer: MemberId) -> bool {
        self.network.is_convinced_by(peer)
    }
    fn on_governing(&mut self, clients: BTreeSet<ClientId>) {
        self.network.let_in(clients, self.now_ms);
    }
    fn peer_queued_bytes(&self, peer: MemberId) -> usize {
        self.network.peer_queued_bytes(peer)
    }
    fn client_queued_bytes(&self, client: &ClientId) -> usize {
        self.network.client_queued_bytes(client)
    }
    fn arm(&mut self, timer: TimerKey, after: Delay) {
        self.timers.arm(timer, self.now_ms + self.timeouts.millis(after));
    }
    fn disarm(&mut self, timer: TimerKey) {
        self.timers.disarm(timer);
    }
    fn disarm_all(&mut self) {
        self.timers.clear();
    }
    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }
}
