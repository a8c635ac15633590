//! A group on more cores than there are here, in virtual time. Each replica has `cores` processors
//! and runs `pillars` cores of the protocol, each with its own counter, channels and clients,
//! beside one execution of all that they order. The work is done, one piece after the other, by the
//! real code; how long each piece took is what its unit's processor is busy for in virtual time.
//!
//! What it leaves out: system calls, threads that wake each other, caches and memory that
//! processors share, and what clients do. So it says how much of the work can go on side by side,
//! and what the longest part of it is; no real group is as fast.

use crate::client::Client;
use crate::host::{Host, Queue};
use crate::real::{Noise, keys, membership, sealer};
use crate::{Channels, Node};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::Entry;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Nanoseconds of virtual time.
pub type Nanos = u64;

/// What is modelled.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Faults that are tolerated; nobody is faulty.
    pub f: usize,
    /// Cores of the protocol in each replica.
    pub pillars: usize,
    /// Processors of each replica.
    pub cores: usize,
    /// Clients of each pillar.
    pub clients: usize,
    /// Requests that each of them has outstanding.
    pub outstanding: usize,
    /// Bytes of each operation and of each result.
    pub bytes: usize,
    /// Sizes.
    pub tuning: Tuning,
    /// How long a frame is under way.
    pub link: Nanos,
    /// What each frame costs who sends it and who gets it, beside the work that is done here.
    pub per_frame: Nanos,
    /// How long it runs before anything is counted.
    pub warm_up: Nanos,
    /// How long it is counted.
    pub counted: Nanos,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Requests whose clients believed a result while it was counted.
    pub completed: u64,
    /// How long each unit of the busiest replica worked for that: the pillars, then execution.
    pub busy: Vec<Nanos>,
    /// The time that was counted.
    pub counted: Nanos,
}

/// Runs a group and says what came of it. `clock` is the time that work here takes.
///
/// # Panics
/// If something goes wrong in the group, in which nothing may.
pub fn run(protocol: &Entry, plan: Plan, clock: &dyn Fn() -> Nanos) -> Outcome {
    let mut model = Model::new(protocol, plan, clock);
    model.run_until(plan.warm_up);
    let (completed, busy) = (model.completed(), model.busy());
    model.run_until(plan.warm_up + plan.counted);
    let since = |(now, before): (Vec<Nanos>, &Vec<Nanos>)| -> Vec<Nanos> {
        now.iter().zip(before).map(|(now, before)| now - before).collect()
    };
    let spent = model.busy().into_iter().zip(&busy).map(since);
    Outcome {
        completed: model.completed() - completed,
        busy: spent.max_by_key(|units| units.iter().sum::<Nanos>()).unwrap_or_default(),
        counted: plan.counted,
    }
}

/// A pillar's number, or that of execution: the number of pillars.
type UnitId = usize;

/// Something that happens at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A frame arrives in a pillar.
    Arrives(Frame),
    /// A replica's unit is done with what it works on.
    Done(usize, UnitId),
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    pillar: usize,
    from: Node,
    to: Node,
    wire: Vec<u8>,
}

/// One pillar everywhere: a group of its own.
struct Pillar {
    hosts: Vec<Host>,
    clients: Vec<Client>,
    by_id: BTreeMap<ClientId, usize>,
    noise: Noise,
}

/// Where a unit of a replica stands.
#[derive(Default)]
struct Unit {
    inbox: Vec<Frame>,
    /// There are results to be told.
    has_answers: bool,
    is_working: bool,
    is_waiting: bool,
    /// What leaves when it is done.
    leaving: Vec<Frame>,
    /// What goes to execution then.
    decided: Vec<Output>,
    busy: Nanos,
}

/// One replica.
struct Replica {
    units: Vec<Unit>,
    /// Units that wait for a processor.
    ready: VecDeque<UnitId>,
    idle_cores: usize,
    /// What each pillar wants executed, in its order.
    decided: Vec<VecDeque<Output>>,
    /// The pillar whose slot is executed next.
    turn: usize,
}

struct Model<'a> {
    plan: Plan,
    clock: &'a dyn Fn() -> Nanos,
    now: Nanos,
    number: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Happening)>>,
    pillars: Vec<Pillar>,
    replicas: Vec<Replica>,
}

impl<'a> Model<'a> {
    fn new(protocol: &Entry, plan: Plan, clock: &'a dyn Fn() -> Nanos) -> Self {
        let membership = membership(protocol, plan.f);
        let pillar = |pillar: usize| {
            let first = pillar * plan.clients;
            let sealers = (0..plan.clients).map(|index| sealer(first + index, &membership));
            let clients: Vec<Client> = sealers
                .map(|(id, sealer)| Client::new(id, protocol, membership.quorums(), sealer))
                .collect();
            let host = |me| {
                Host::new(me, &membership, protocol, keys(protocol, me, &membership), plan.tuning)
            };
            Pillar {
                hosts: membership.ids().map(host).collect(),
                by_id: clients.iter().enumerate().map(|(index, it)| (it.id, index)).collect(),
                clients,
                noise: Noise::new(&membership, plan.clients),
            }
        };
        let replica = |_| Replica {
            units: (0..=plan.pillars).map(|_| Unit::default()).collect(),
            ready: VecDeque::new(),
            idle_cores: plan.cores,
            decided: (0..plan.pillars).map(|_| VecDeque::new()).collect(),
            turn: 0,
        };
        let mut model = Self {
            plan,
            clock,
            now: 0,
            number: 0,
            events: BinaryHeap::new(),
            pillars: (0..plan.pillars).map(pillar).collect(),
            replicas: membership.ids().map(replica).collect(),
        };
        for pillar in 0..plan.pillars {
            for client in 0..plan.clients {
                model.submit(pillar, client, plan.outstanding);
            }
        }
        model
    }

    fn completed(&self) -> u64 {
        let of =
            |pillar: &Pillar| pillar.clients.iter().map(|it| it.completed() as u64).sum::<u64>();
        self.pillars.iter().map(of).sum()
    }

    fn busy(&self) -> Vec<Vec<Nanos>> {
        let of = |replica: &Replica| replica.units.iter().map(|unit| unit.busy).collect();
        self.replicas.iter().map(of).collect()
    }

    fn run_until(&mut self, end: Nanos) {
        while let Some(Reverse((at, _, _))) = self.events.peek()
            && *at <= end
            && let Some(Reverse((at, _, happening))) = self.events.pop()
        {
            self.now = at;
            match happening {
                Happening::Arrives(frame) => self.arrive(frame),
                Happening::Done(replica, unit) => self.done(replica, unit),
            }
        }
        self.now = end;
    }

    fn schedule(&mut self, after: Nanos, happening: Happening) {
        self.number += 1;
        self.events.push(Reverse((self.now + after, self.number, happening)));
    }

    fn arrive(&mut self, frame: Frame) {
        match frame.to {
            Node::Replica(replica) => {
                let (replica, unit) = (usize::from(replica.0), frame.pillar);
                self.replicas[replica].units[unit].inbox.push(frame);
                self.wake(replica, unit);
            }
            Node::Client(client) => self.client_turn(frame, client),
        }
    }

    /// Clients take no time: they are other people's machines.
    fn client_turn(&mut self, frame: Frame, index: usize) {
        let pillar = &mut self.pillars[frame.pillar];
        let (client, mut messages) = (&mut pillar.clients[index], Vec::new());
        pillar.noise.open(frame.from, frame.to, frame.wire, &mut messages);
        let (Node::Replica(from), before) = (frame.from, client.completed()) else { return };
        for message in &messages {
            client.on_replica(from, message);
        }
        let completed = client.completed() - before;
        self.submit(frame.pillar, index, completed);
    }

    fn submit(&mut self, pillar: usize, index: usize, requests: usize) {
        let now = Millis(self.now / 1_000_000);
        let Pillar { clients, noise, .. } = &mut self.pillars[pillar];
        let client = &mut clients[index];
        (0..requests).for_each(|_| client.submit(self.plan.bytes, self.plan.bytes));
        client.on_round(now);
        let node = Node::Client(index);
        let queues = client.to_replicas().map(|(to, queue)| (Node::Replica(to), queue));
        let frames = seal(noise, pillar, node, queues);
        frames.into_iter().for_each(|it| self.schedule(self.plan.link, Happening::Arrives(it)));
    }

    /// Something waits for a unit.
    fn wake(&mut self, replica: usize, unit: UnitId) {
        let it = &mut self.replicas[replica];
        if !it.units[unit].is_waiting {
            it.units[unit].is_waiting = true;
            it.ready.push_back(unit);
        }
        self.start(replica);
    }

    /// Gives idle processors to units that wait.
    fn start(&mut self, replica: usize) {
        loop {
            let it = &mut self.replicas[replica];
            let next = it.ready.iter().position(|unit| !it.units[*unit].is_working);
            let Some(unit) = next.filter(|_| it.idle_cores > 0).and_then(|at| it.ready.remove(at))
            else {
                return;
            };
            it.idle_cores -= 1;
            it.units[unit].is_working = true;
            it.units[unit].is_waiting = false;
            let begun = (self.clock)();
            let frames = if unit == self.plan.pillars {
                self.execute(replica)
            } else {
                self.order(replica, unit)
            };
            let took = (self.clock)() - begun + frames * self.plan.per_frame;
            self.replicas[replica].units[unit].busy += took;
            self.schedule(took, Happening::Done(replica, unit));
        }
    }

    /// A round of a pillar. Gives the number of frames that came or leave.
    fn order(&mut self, replica: usize, pillar: usize) -> u64 {
        let now = Millis(self.now / 1_000_000);
        let unit = &mut self.replicas[replica].units[pillar];
        let Pillar { hosts, clients, by_id, noise } = &mut self.pillars[pillar];
        let (host, node) = (&mut hosts[replica], Node::Replica(ReplicaId(replica as u16)));
        let came = std::mem::take(&mut unit.inbox);
        let mut frames = came.len() as u64;
        for Frame { from, to, wire, .. } in came {
            let mut messages = Vec::new();
            noise.open(from, to, wire, &mut messages);
            for message in &messages {
                match from {
                    Node::Replica(peer) => host.on_peer(peer, message),
                    Node::Client(index) => host.on_client(clients[index].id, message),
                }
            }
        }
        host.admit();
        host.on_round(now);
        unit.decided.extend(std::iter::from_fn(|| host.next_output()));
        if std::mem::take(&mut unit.has_answers) {
            host.reply();
        }
        let to_peers = host.to_peers().map(|(to, queue)| (Node::Replica(to), queue));
        unit.leaving.extend(seal(noise, pillar, node, to_peers));
        let to_clients = host.to_clients().map(|(to, queue)| (Node::Client(by_id[&to]), queue));
        unit.leaving.extend(seal(noise, pillar, node, to_clients));
        frames += unit.leaving.len() as u64;
        frames
    }

    /// Executes what is next, row by row, and in a row pillar by pillar. No frames come or leave.
    fn execute(&mut self, replica: usize) -> u64 {
        let Replica { decided, turn, units, .. } = &mut self.replicas[replica];
        loop {
            // What is said of slots that were executed waits for no other pillar.
            let next = |(pillar, queue): (usize, &VecDeque<Output>)| {
                let waits = is_slot(queue.front()?) && pillar != *turn;
                (!waits).then_some(pillar)
            };
            let Some(pillar) = decided.iter().enumerate().find_map(next) else { return 0 };
            let output = decided[pillar].pop_front().expect("it was looked at");
            if is_slot(&output) {
                *turn = (pillar + 1) % self.plan.pillars;
            }
            self.pillars[pillar].hosts[replica].execute(output);
            units[pillar].has_answers = true;
        }
    }

    fn done(&mut self, replica: usize, unit: UnitId) {
        let execution = self.plan.pillars;
        let it = &mut self.replicas[replica];
        it.idle_cores += 1;
        it.units[unit].is_working = false;
        let leaving = std::mem::take(&mut it.units[unit].leaving);
        let mut decided = std::mem::take(&mut it.units[unit].decided);
        let mut woken = Vec::new();
        if unit == execution {
            let answering = (0..execution).filter(|pillar| it.units[*pillar].has_answers);
            woken.extend(answering);
        } else if !decided.is_empty() {
            woken.push(execution);
        }
        it.decided.get_mut(unit).into_iter().for_each(|all| all.extend(decided.drain(..)));
        for frame in leaving {
            self.schedule(self.plan.link, Happening::Arrives(frame));
        }
        woken.into_iter().for_each(|unit| self.wake(replica, unit));
        self.start(replica);
    }
}

/// Whether this executes a slot.
const fn is_slot(output: &Output) -> bool {
    matches!(output, Output::Execute { .. } | Output::Speculate { .. })
}

/// Closes what waits for each destination.
fn seal<'q>(
    noise: &mut Noise,
    pillar: usize,
    from: Node,
    queues: impl Iterator<Item = (Node, &'q mut Queue)>,
) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (to, queue) in queues {
        let (plain, messages) = queue.waiting();
        if !messages.is_empty() {
            frames.push(Frame { pillar, from, to, wire: noise.seal(from, to, plain) });
            queue.clear();
        }
    }
    frames
}
