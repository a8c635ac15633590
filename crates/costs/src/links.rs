//! What drives a machine in here: queues in the place of sockets, and no clock.

use crate::{Node, Probe, steps};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::protocol::{Delay, TimerKey};
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_machine::report::LinkReport;
use pentarchy_machine::{Driver, HangUp, Kind, Observed, Pause, Work};
use std::collections::BTreeMap;
use std::time::Duration;

/// Messages for one destination, behind their lengths. Keeps its buffer, as a connection does.
#[derive(Default)]
pub struct Queue {
    plain: Vec<u8>,
    messages: Vec<(&'static str, usize)>,
}

impl Queue {
    /// Appends one message in place.
    pub fn push(&mut self, kind: &'static str, encode: impl FnOnce(&mut Writer)) {
        let start = self.plain.len();
        let mut writer = Writer::onto(std::mem::take(&mut self.plain));
        writer.u32(0);
        encode(&mut writer);
        self.plain = writer.into_vec();
        let length = self.plain.len() - start - 4;
        self.plain[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        self.messages.push((kind, length));
    }

    /// The bytes of all, and the kind and the length of each.
    #[must_use]
    pub fn waiting(&self) -> (&[u8], &[(&'static str, usize)]) {
        (&self.plain, &self.messages)
    }

    /// Everything was sent.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.messages.clear();
    }
}

/// Messages that wait for their receivers, and armed timers.
#[derive(Default)]
pub struct Links {
    to_peers: BTreeMap<ReplicaId, Queue>,
    to_clients: BTreeMap<ClientId, Queue>,
    timers: BTreeMap<TimerKey, Delay>,
    now: Millis,
    /// Snapshots that were taken, by their digests.
    snapshots: Vec<(Slot, Digest)>,
}

impl Links {
    /// Has a node's machine driven over these at a time, with all work seen by a probe.
    pub fn driver<'a>(
        &'a mut self,
        node: Node,
        now: Millis,
        probe: &'a mut dyn Probe,
    ) -> LinksDriver<'a> {
        self.now = now;
        LinksDriver { links: self, node, probe }
    }

    /// Messages of this replica to other replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.to_peers.iter_mut().map(|(id, queue)| (*id, queue))
    }

    /// Messages of this replica to clients.
    pub fn to_clients(&mut self) -> impl Iterator<Item = (ClientId, &mut Queue)> {
        self.to_clients.iter_mut().map(|(id, queue)| (*id, queue))
    }

    /// Takes out the timer that retransmission waits for, if one is armed.
    pub fn take_resend(&mut self) -> Option<TimerKey> {
        let (timer, _) = self.timers.iter().find(|(_, after)| **after == Delay::Resend)?;
        let timer = *timer;
        self.timers.remove(&timer);
        Some(timer)
    }

    /// The delays of all armed timers.
    pub fn delays(&self) -> impl Iterator<Item = Delay> {
        self.timers.values().copied()
    }

    /// Snapshots that were taken since the last call, by their digests.
    pub fn take_snapshots(&mut self) -> Vec<(Slot, Digest)> {
        std::mem::take(&mut self.snapshots)
    }

    /// The links count nothing that a probe reads.
    #[must_use]
    pub fn report(&self) -> LinkReport {
        LinkReport::default()
    }
}

/// See [`Links::driver`].
pub struct LinksDriver<'a> {
    links: &'a mut Links,
    node: Node,
    probe: &'a mut dyn Probe,
}

impl Driver for LinksDriver<'_> {
    type Notices = ();

    fn send_peer(&mut self, peer: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer)) {
        self.links.to_peers.entry(ReplicaId(peer.0 as u16)).or_default().push(kind, encode);
    }
    fn send_client(&mut self, client: &ClientId, message: &ToClient) -> bool {
        let queue = self.links.to_clients.entry(*client).or_default();
        self.probe.around(self.node, steps::REPLY, &mut |_| {
            queue.push(message.kind(), |to| message.encode(to));
        });
        true
    }
    fn hang_up(&mut self, client: &ClientId, why: HangUp) {
        panic!("all clients in here are correct: {client}, {}", why.text());
    }
    fn pause_client(&mut self, client: &ClientId, _: Pause) {
        panic!("no client in here sends more than there is room for: {client}");
    }
    fn pause_peer(&mut self, peer: MemberId) {
        panic!("all replicas in here are correct: {peer}");
    }
    fn on_members(&mut self, membership: &Membership) {
        panic!("no group in here changes: {:?}", membership.members);
    }
    fn peer_queued_bytes(&self, _: MemberId) -> usize {
        0
    }
    fn client_queued_bytes(&self, _: &ClientId) -> usize {
        0
    }
    fn arm(&mut self, timer: TimerKey, after: Delay) {
        self.links.timers.insert(timer, after);
    }
    fn disarm(&mut self, timer: TimerKey) {
        self.links.timers.remove(&timer);
    }
    fn disarm_all(&mut self) {
        self.links.timers.clear();
    }
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.links.now.0)
    }
    fn around<T>(&mut self, work: Work, act: impl FnOnce() -> T) -> T {
        let step = match work {
            Work::Execute => steps::EXECUTE,
            Work::Snapshot => steps::SNAPSHOT,
        };
        let (mut act, mut done) = (Some(act), None);
        self.probe.around(self.node, step, &mut |_| done = act.take().map(|act| act()));
        done.expect("a probe runs the work")
    }
    fn observe(&mut self, seen: Observed<'_>) {
        if let Observed::Checkpointed(slot, state) = seen {
            self.links.snapshots.push((slot, state));
        }
    }
}
