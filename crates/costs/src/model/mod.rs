//! A group on more cores than there are here, in virtual time. Each replica has `cores` processors
//! and runs the parts that a replica's threads run ([`crate::parts`]): one with clients and
//! execution, and each pillar beside it, if the order is split. The work is done, one piece after
//! the other, by the real code; how long each piece took is what its part's processor is busy for
//! in virtual time.
//!
//! What it leaves out: system calls, threads that wake each other, caches and memory that
//! processors share, and what clients do. So it says how much of the work can go on side by side,
//! and what the longest part of it is; no real group is as fast.

mod replica;

use crate::client::Client;
use crate::links::Queue;
use crate::ordering::Recording;
use crate::parts::Blueprint;
use crate::real::{Noise, sealer};
use crate::stand_in::Plain;
use crate::{Channels, Node};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use replica::{Letter, Replica, UnitId};
use std::collections::BTreeMap;

/// Nanoseconds of virtual time.
pub type Nanos = u64;

/// What is modelled. Nobody is faulty.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Processors of each replica.
    pub cores: usize,
    /// Clients of each pillar.
    pub clients: usize,
    /// Requests that each of them has outstanding.
    pub outstanding: usize,
    /// Bytes of each operation and of each result.
    pub bytes: usize,
    /// How long a frame is under way.
    pub link: Nanos,
    /// How long it takes until one part of a replica hears what another one says.
    pub mail: Nanos,
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
    /// How long each pillar of the busiest replica worked for that; none if the order is not split.
    pub pillars: Vec<Nanos>,
    /// How long all the rest of it did.
    pub rest: Nanos,
}

/// Runs a group and says what came of it. `clock` is the time that work here takes.
///
/// # Panics
/// If something goes wrong in the group, in which nothing may.
pub fn run(group: &Blueprint, plan: Plan, clock: &dyn Fn() -> Nanos) -> Outcome {
    let noise = |clients: &[usize]| -> Box<dyn Channels> {
        Box::new(Noise::new(&group.membership, clients.iter().copied()))
    };
    let mut model = Model::new(group, plan, clock, &noise);
    model.run_until(plan.warm_up);
    let (completed, busy) = (model.completed(), model.busy());
    model.run_until(plan.warm_up + plan.counted);
    let since = |(now, before): (Vec<Nanos>, &Vec<Nanos>)| -> Vec<Nanos> {
        now.iter().zip(before).map(|(now, before)| now - before).collect()
    };
    let spent = model.busy().into_iter().zip(&busy).map(since);
    let mut pillars = spent.max_by_key(|units| units.iter().sum::<Nanos>()).unwrap_or_default();
    let rest = pillars.pop().unwrap_or_default();
    Outcome { completed: model.completed() - completed, pillars, rest }
}

/// Runs a group in which every round of every part takes so long, without encryption, until
/// a replica has had so many requests executed; and gives what each of its parts heard.
///
/// # Panics
/// If something goes wrong in the group, in which nothing may.
#[must_use]
pub fn record(
    group: &Blueprint,
    plan: Plan,
    round: Nanos,
    replica: ReplicaId,
    requests: usize,
) -> Recording {
    let asked = std::cell::Cell::new(0);
    let clock = || {
        asked.set(asked.get() + round);
        asked.get()
    };
    let mut model = Model::new(group, plan, &clock, &|_| Box::new(Plain));
    let index = usize::from(replica.0);
    model.replicas[index].record();
    while model.replicas[index].executed() < requests {
        assert!(model.happen(), "clients always ask for more");
    }
    model.replicas[index].take_recording()
}

/// Something that happens at a time.
enum Happening {
    /// A frame arrives.
    Arrives(Frame),
    /// A part of a replica hears what another one of it said.
    Posted(usize, UnitId, Letter),
    /// A replica's part is done with what it works on.
    Done(usize, UnitId),
}

/// What goes over a wire.
struct Frame {
    /// Which part of a replica it is for, or comes from.
    unit: UnitId,
    from: Node,
    to: Node,
    wire: Vec<u8>,
}

struct Model<'a> {
    plan: Plan,
    clock: &'a dyn Fn() -> Nanos,
    now: Nanos,
    number: u64,
    events: BTreeMap<(Nanos, u64), Happening>,
    replicas: Vec<Replica>,
    /// By the index of its key.
    clients: BTreeMap<usize, Client>,
    by_id: BTreeMap<ClientId, usize>,
    /// Of each part: connections are between equal ones, and clients have theirs to the last.
    channels: Vec<Box<dyn Channels>>,
}

impl<'a> Model<'a> {
    fn new(
        group: &Blueprint,
        plan: Plan,
        clock: &'a dyn Fn() -> Nanos,
        channels: &dyn Fn(&[usize]) -> Box<dyn Channels>,
    ) -> Self {
        let clients = clients(group, plan.clients);
        let by_id = clients.iter().map(|(index, client)| (client.id, *index)).collect();
        let indexes: Vec<usize> = clients.keys().copied().collect();
        let of_pillar_cores = (0..group.pillar_cores()).map(|_| channels(&[]));
        let ids = || clients.values().map(|client| client.id);
        let replica = |me| Replica::new(group.whole(me, ids()), me, plan.cores);
        let replicas = group.membership.ids().map(replica).collect();
        let mut model = Self {
            plan,
            clock,
            now: 0,
            number: 0,
            events: BTreeMap::new(),
            replicas,
            clients,
            by_id,
            channels: of_pillar_cores.chain([channels(&indexes)]).collect(),
        };
        for index in indexes {
            model.submit(index, plan.outstanding);
        }
        model
    }

    fn completed(&self) -> u64 {
        self.clients.values().map(|it| it.completed() as u64).sum()
    }

    fn busy(&self) -> Vec<Vec<Nanos>> {
        self.replicas.iter().map(Replica::busy).collect()
    }

    fn run_until(&mut self, end: Nanos) {
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.happen();
        }
        self.now = end;
    }

    /// What is next; false if nothing is.
    fn happen(&mut self) -> bool {
        let Some(((at, _), happening)) = self.events.pop_first() else { return false };
        self.now = at;
        match happening {
            Happening::Arrives(frame) => match frame.to {
                Node::Replica(replica) => {
                    let (replica, unit) = (usize::from(replica.0), frame.unit);
                    self.replicas[replica].arrive(frame);
                    self.wake(replica, unit);
                }
                Node::Client(client) => self.client_turn(frame, client),
            },
            Happening::Posted(replica, unit, letter) => {
                self.replicas[replica].hear(unit, letter);
                self.wake(replica, unit);
            }
            Happening::Done(replica, unit) => self.done(replica, unit),
        }
        true
    }

    fn schedule(&mut self, after: Nanos, happening: Happening) {
        self.number += 1;
        self.events.insert((self.now + after, self.number), happening);
    }

    /// Clients take no time: they are other people's machines.
    fn client_turn(&mut self, frame: Frame, index: usize) {
        let mut messages = Vec::new();
        self.channels[frame.unit].open(frame.from, frame.to, frame.wire, &mut messages);
        let (Node::Replica(from), Some(client)) = (frame.from, self.clients.get_mut(&index)) else {
            return;
        };
        let before = client.completed();
        for message in &messages {
            client.on_replica(from, message);
        }
        let completed = client.completed() - before;
        self.submit(index, completed);
    }

    fn submit(&mut self, index: usize, requests: usize) {
        let (now, unit) = (Millis(self.now / 1_000_000), self.channels.len() - 1);
        let Some(client) = self.clients.get_mut(&index) else { return };
        (0..requests).for_each(|_| client.submit(self.plan.bytes, self.plan.bytes));
        client.on_round(now);
        let queues = client.to_replicas().map(|(to, queue)| (Node::Replica(to), queue));
        let frames = seal(&mut *self.channels[unit], unit, Node::Client(index), queues);
        frames.into_iter().for_each(|it| self.schedule(self.plan.link, Happening::Arrives(it)));
    }

    /// Something waits for a part.
    fn wake(&mut self, replica: usize, unit: UnitId) {
        self.replicas[replica].wake(unit);
        self.start(replica);
    }

    /// Gives idle processors to parts that wait.
    fn start(&mut self, replica: usize) {
        while let Some(unit) = self.replicas[replica].next_unit() {
            let begun = (self.clock)();
            let now = Millis(self.now / 1_000_000);
            let (clients, by_id) = (&self.clients, &self.by_id);
            let channels = &mut *self.channels[unit];
            let frames = self.replicas[replica].round(unit, now, clients, by_id, channels);
            let took = (self.clock)() - begun + frames * self.plan.per_frame;
            self.replicas[replica].add_busy(unit, took);
            self.schedule(took, Happening::Done(replica, unit));
        }
    }

    fn done(&mut self, replica: usize, unit: UnitId) {
        let (frames, letters) = self.replicas[replica].done(unit);
        for frame in frames {
            self.schedule(self.plan.link, Happening::Arrives(frame));
        }
        for (unit, letter) in letters {
            self.schedule(self.plan.mail, Happening::Posted(replica, unit, letter));
        }
        self.start(replica);
    }
}

/// So many clients for each pillar, by the index of their key: a client's name says which is its.
fn clients(group: &Blueprint, each: usize) -> BTreeMap<usize, Client> {
    let (membership, lane) = (&group.membership, group.membership.lane);
    let mut lacking = vec![each; lane.pillars.into()];
    let mut clients = BTreeMap::new();
    for index in 0.. {
        if lacking.iter().all(|lacks| *lacks == 0) {
            break;
        }
        let (id, sealer) = sealer(index, membership);
        let lacks = &mut lacking[usize::from(lane.of_client(&id))];
        if *lacks > 0 {
            *lacks -= 1;
            let client = Client::new(id, group.entry, membership.quorums(), sealer);
            clients.insert(index, client);
        }
    }
    clients
}

/// Closes what waits for each destination.
fn seal<'q>(
    channels: &mut dyn Channels,
    unit: UnitId,
    from: Node,
    queues: impl Iterator<Item = (Node, &'q mut Queue)>,
) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (to, queue) in queues {
        let (plain, messages) = queue.waiting();
        if !messages.is_empty() {
            frames.push(Frame { unit, from, to, wire: channels.seal(from, to, plain) });
            queue.clear();
        }
    }
    frames
}
