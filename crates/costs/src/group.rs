//! A group and its clients in steps: whatever was sent in one step arrives, everywhere, at the
//! beginning of the next, and every node has one round in between. So the number of steps from a
//! request to a believed result is the length of the longest chain of messages that it needs.

use crate::client::{Client, Sealer};
use crate::host::{Host, Keys};
use crate::links::Queue;
use crate::{Channels, Node, Probe, steps};
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::{Delay, Tuning};
use pentarchy_protocols::Descriptor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Steps after which a group that still says something would never stop.
const STEPS_MAX: usize = 100;

/// Milliseconds for which clients may wait for who does not answer.
const IDLE_MAX: usize = 2;

/// Messages and their bytes, without lengths and frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sum {
    /// How many.
    pub messages: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// What one node received and sent, by kind of message.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// What came.
    pub came: BTreeMap<&'static str, Sum>,
    /// What left.
    pub left: BTreeMap<&'static str, Sum>,
}

/// One frame under way.
struct Flight {
    from: Node,
    to: Node,
    wire: Vec<u8>,
    messages: Vec<(&'static str, usize)>,
}

/// The group.
pub struct Group {
    hosts: Vec<Host>,
    clients: Vec<Client>,
    by_id: BTreeMap<ClientId, usize>,
    network: Network,
    /// Who does nothing any more.
    crashed: ReplicaSet,
    now: Millis,
}

/// What lies between the nodes.
struct Network {
    channels: Box<dyn Channels>,
    flights: Vec<Flight>,
    traffic: BTreeMap<Node, Traffic>,
}

impl Group {
    /// A fresh group. `keys` gives each replica its keys.
    pub fn new(
        protocol: &Descriptor,
        membership: &Arc<Membership>,
        keys: impl FnMut(ReplicaId) -> Keys,
        clients: Vec<(ClientId, Sealer)>,
        channels: Box<dyn Channels>,
    ) -> Self {
        Self::tuned(protocol, membership, keys, clients, channels, Tuning::default())
    }

    /// The same, of these sizes.
    pub fn tuned(
        protocol: &Descriptor,
        membership: &Arc<Membership>,
        mut keys: impl FnMut(ReplicaId) -> Keys,
        clients: Vec<(ClientId, Sealer)>,
        channels: Box<dyn Channels>,
        tuning: Tuning,
    ) -> Self {
        let host = |me| Host::new(me, membership, protocol, keys(me), tuning);
        let group = membership.quorums();
        let mut hosts: Vec<Host> = membership.ids().map(host).collect();
        for host in &mut hosts {
            clients.iter().for_each(|(client, _)| host.connect(*client));
        }
        let by_id = clients.iter().enumerate().map(|(index, (id, _))| (*id, index)).collect();
        let client = |(id, sealer)| Client::new(id, protocol, group, sealer);
        Self {
            hosts,
            clients: clients.into_iter().map(client).collect(),
            by_id,
            network: Network { channels, flights: Vec::new(), traffic: BTreeMap::new() },
            crashed: ReplicaSet::EMPTY,
            now: Millis(1),
        }
    }

    /// Has every client submit this many operations of so many bytes.
    pub fn submit(&mut self, each: usize, length: usize) {
        self.submit_for(each, length, length);
    }

    /// The same, with results of so many bytes.
    pub fn submit_for(&mut self, each: usize, length: usize, result: usize) {
        for client in &mut self.clients {
            (0..each).for_each(|_| client.submit(length, result));
        }
    }

    /// Results of up to so many bytes every replica tells; of longer ones all but one tell the
    /// digest.
    pub fn tell_whole(&mut self, bytes: usize) {
        self.hosts.iter_mut().for_each(|host| host.tell_whole(bytes));
    }

    /// A replica stops for good. What it is sent is lost.
    pub fn crash(&mut self, replica: ReplicaId) {
        self.crashed.insert(replica);
    }

    /// Works until nothing is under way, and for some milliseconds longer if clients wait for more
    /// than was answered. Gives the number of steps after which every client
    /// believed all its results; 0 if they did before.
    ///
    /// # Panics
    /// If the group does not stop talking.
    pub fn settle(&mut self, wanted: usize, probe: &mut dyn Probe) -> usize {
        let (mut believed, mut idle) = (0, 0);
        for step in 0..STEPS_MAX {
            self.step(probe);
            let is_done = self.clients.iter().all(|client| client.completed() >= wanted);
            if is_done && believed == 0 {
                believed = step - idle;
            }
            if self.network.flights.is_empty() {
                if !is_done && idle < IDLE_MAX {
                    // A client waits for replicas that do not answer.
                    (self.now, idle) = (Millis(self.now.0 + 1), idle + 1);
                    continue;
                }
                assert!(is_done, "every request is answered");
                self.hosts.iter().for_each(Host::assert_refused_nothing);
                return believed;
            }
        }
        panic!("the group talks for more than {STEPS_MAX} steps");
    }

    /// Lets the timers of retransmission run out that are armed. False if none is.
    pub fn resend(&mut self, probe: &mut dyn Probe) -> bool {
        let mut any = false;
        let running = |index: &usize| !self.crashed.contains(ReplicaId(*index as u16));
        for index in (0..self.hosts.len()).filter(running) {
            let (node, host) = (Node::Replica(ReplicaId(index as u16)), &mut self.hosts[index]);
            probe.around(node, steps::TIMER, &mut |probe| any |= host.on_resend(probe));
        }
        any
    }

    /// Lets them run out again and again until all replicas know that they are level. Gives how
    /// often that was.
    pub fn level(&mut self, probe: &mut dyn Probe) -> usize {
        let wanted = self.clients.iter().map(Client::completed).min().unwrap_or(0);
        (0..STEPS_MAX)
            .take_while(|_| {
                let any = self.resend(probe);
                self.settle(wanted, probe);
                any
            })
            .count()
    }

    /// The delays of a replica's armed timers.
    pub fn delays(&self, replica: ReplicaId) -> Vec<Delay> {
        self.hosts[usize::from(replica.0)].delays().collect()
    }

    /// What a node received and sent since the last call for all nodes' together.
    pub fn take_traffic(&mut self) -> BTreeMap<Node, Traffic> {
        std::mem::take(&mut self.network.traffic)
    }

    fn step(&mut self, probe: &mut dyn Probe) {
        let mut arrived: BTreeMap<Node, Vec<Flight>> = BTreeMap::new();
        for flight in std::mem::take(&mut self.network.flights) {
            arrived.entry(flight.to).or_default().push(flight);
        }
        for index in 0..self.hosts.len() {
            let me = ReplicaId(index as u16);
            let flights = arrived.remove(&Node::Replica(me)).unwrap_or_default();
            if self.crashed.contains(me) {
                continue;
            }
            self.replica_turn(me, flights, probe);
        }
        for index in 0..self.clients.len() {
            let flights = arrived.remove(&Node::Client(index)).unwrap_or_default();
            self.client_turn(index, flights, probe);
        }
    }

    fn replica_turn(&mut self, me: ReplicaId, flights: Vec<Flight>, probe: &mut dyn Probe) {
        let (node, now) = (Node::Replica(me), self.now);
        let host = &mut self.hosts[usize::from(me.0)];
        probe.around(node, steps::BEGIN, &mut |probe| host.begin_round(now, probe));
        for flight in flights {
            let (from, kinds, messages) = self.network.open(flight, probe);
            for (kind, bytes) in kinds.into_iter().zip(&messages) {
                probe.around(node, kind, &mut |probe| match from {
                    Node::Replica(peer) => host.on_peer(peer, bytes, probe),
                    Node::Client(index) => host.on_client(self.clients[index].id, bytes, probe),
                });
            }
        }
        probe.around(node, steps::ADMIT, &mut |probe| host.admit(probe));
        probe.around(node, steps::ROUND, &mut |probe| host.on_round(probe));
        for (peer, queue) in host.to_peers() {
            self.network.seal(node, Node::Replica(peer), queue, probe);
        }
        for (client, queue) in host.to_clients() {
            self.network.seal(node, Node::Client(self.by_id[&client]), queue, probe);
        }
    }

    fn client_turn(&mut self, index: usize, flights: Vec<Flight>, probe: &mut dyn Probe) {
        let node = Node::Client(index);
        for flight in flights {
            let (from, kinds, messages) = self.network.open(flight, probe);
            let Node::Replica(from) = from else { continue };
            let client = &mut self.clients[index];
            for (kind, bytes) in kinds.into_iter().zip(&messages) {
                probe.around(node, kind, &mut |_| client.on_replica(from, bytes));
            }
        }
        let (client, now) = (&mut self.clients[index], self.now);
        probe.around(node, steps::ROUND, &mut |_| client.on_round(now));
        for (replica, queue) in client.to_replicas() {
            self.network.seal(node, Node::Replica(replica), queue, probe);
        }
    }
}

impl Network {
    /// Who sent a frame, and the messages in it with their kinds.
    fn open(
        &mut self,
        flight: Flight,
        probe: &mut dyn Probe,
    ) -> (Node, Vec<&'static str>, Vec<Bytes>) {
        let Flight { from, to, wire, messages: sent } = flight;
        let traffic = self.traffic.entry(to).or_default();
        sent.iter().for_each(|(kind, bytes)| count(&mut traffic.came, kind, *bytes));
        let (channels, mut messages, mut wire) = (&mut self.channels, Vec::new(), Some(wire));
        probe.around(to, steps::OPEN, &mut |_| {
            channels.open(from, to, wire.take().unwrap_or_default(), &mut messages);
        });
        assert_eq!(messages.len(), sent.len(), "messages arrive as they were sent");
        (from, sent.into_iter().map(|(kind, _)| kind).collect(), messages)
    }

    fn seal(&mut self, from: Node, to: Node, queue: &mut Queue, probe: &mut dyn Probe) {
        let (plain, messages) = queue.waiting();
        if messages.is_empty() {
            return;
        }
        let traffic = self.traffic.entry(from).or_default();
        messages.iter().for_each(|(kind, bytes)| count(&mut traffic.left, kind, *bytes));
        let (channels, mut wire) = (&mut self.channels, Vec::new());
        probe.around(from, steps::SEAL, &mut |_| wire = channels.seal(from, to, plain));
        let messages = messages.to_vec();
        self.flights.push(Flight { from, to, wire, messages });
        queue.clear();
    }
}

fn count(sums: &mut BTreeMap<&'static str, Sum>, kind: &'static str, bytes: usize) {
    let sum = sums.entry(kind).or_default();
    sum.messages += 1;
    sum.bytes += bytes as u64;
}
