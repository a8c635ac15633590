//! One replica in virtual time: its parts, and what each does in a round.

use super::{Frame, Nanos, seal};
use crate::client::Client;
use crate::links::Queue;
use crate::ordering::{Heard, Recording};
use crate::parts::Whole;
use crate::{Channels, Node, Unwatched};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_machine::pillar::{FromPillar, ToPillar};
use std::collections::{BTreeMap, VecDeque};

/// A pillar's number, or behind all of them that of the part with everything else.
pub type UnitId = usize;

/// What one part of a replica says to another.
pub enum Letter {
    /// A pillar.
    Said(u8, FromPillar),
    /// To a pillar.
    Told(ToPillar),
}

/// Where a part of a replica stands.
#[derive(Default)]
struct Unit {
    inbox: Vec<Frame>,
    mail: Vec<Letter>,
    is_working: bool,
    is_waiting: bool,
    /// What leaves when it is done.
    leaving: Vec<Frame>,
    /// What other parts hear then.
    posting: Vec<(UnitId, Letter)>,
    busy: Nanos,
    /// What it has heard.
    heard: Vec<Heard>,
}

/// See the [module](self).
pub struct Replica {
    me: Node,
    parts: Whole,
    /// The pillars, and behind them the part with everything else.
    units: Vec<Unit>,
    /// Those that wait for a processor.
    ready: VecDeque<UnitId>,
    idle_cores: usize,
    is_recording: bool,
}

impl Replica {
    pub fn new(parts: Whole, me: ReplicaId, cores: usize) -> Self {
        let units = (0..=parts.pillar_cores.len()).map(|_| Unit::default()).collect();
        Self {
            me: Node::Replica(me),
            parts,
            units,
            ready: VecDeque::new(),
            idle_cores: cores,
            is_recording: false,
        }
    }

    /// Writes down from now on what it hears.
    pub const fn record(&mut self) {
        self.is_recording = true;
    }

    /// What was written down.
    pub fn take_recording(&mut self) -> Recording {
        let heard = |unit: &mut Unit| std::mem::take(&mut unit.heard);
        let mut pillar_cores: Vec<Vec<Heard>> = self.units.iter_mut().map(heard).collect();
        Recording {
            front: pillar_cores.pop().unwrap_or_default(),
            pillar_cores,
            requests: self.executed(),
        }
    }

    /// Requests that were executed.
    pub fn executed(&self) -> usize {
        self.parts.front.requests() as usize
    }

    /// How long each part has worked.
    pub fn busy(&self) -> Vec<Nanos> {
        self.units.iter().map(|unit| unit.busy).collect()
    }

    /// A part has worked so long.
    pub fn add_busy(&mut self, unit: UnitId, took: Nanos) {
        self.units[unit].busy += took;
    }

    /// A frame arrives.
    pub fn arrive(&mut self, frame: Frame) {
        self.units[frame.unit].inbox.push(frame);
    }

    /// A part hears another one.
    pub fn hear(&mut self, unit: UnitId, letter: Letter) {
        self.units[unit].mail.push(letter);
    }

    /// Something waits for a part.
    pub fn wake(&mut self, unit: UnitId) {
        if !self.units[unit].is_waiting {
            self.units[unit].is_waiting = true;
            self.ready.push_back(unit);
        }
    }

    /// A part that waits, if there is a processor for it.
    pub fn next_unit(&mut self) -> Option<UnitId> {
        let next = self.ready.iter().position(|unit| !self.units[*unit].is_working);
        let unit = next.filter(|_| self.idle_cores > 0).and_then(|at| self.ready.remove(at))?;
        self.idle_cores -= 1;
        self.units[unit].is_working = true;
        self.units[unit].is_waiting = false;
        Some(unit)
    }

    /// A part is done with its round: what leaves, and what others hear.
    pub fn done(&mut self, unit: UnitId) -> (Vec<Frame>, Vec<(UnitId, Letter)>) {
        self.idle_cores += 1;
        let unit = &mut self.units[unit];
        unit.is_working = false;
        (std::mem::take(&mut unit.leaving), std::mem::take(&mut unit.posting))
    }

    /// A round of a part. Gives the number of frames that came or leave.
    pub fn round(
        &mut self,
        unit: UnitId,
        now: Millis,
        clients: &BTreeMap<usize, Client>,
        by_id: &BTreeMap<ClientId, usize>,
        channels: &mut dyn Channels,
    ) -> u64 {
        let came = std::mem::take(&mut self.units[unit].inbox);
        let count = came.len() as u64;
        let mut messages = Vec::new();
        for Frame { from, to, wire, .. } in came {
            let mut plain = Vec::new();
            channels.open(from, to, wire, &mut plain);
            messages.extend(plain.into_iter().map(|message| match from {
                Node::Replica(peer) => Heard::Replica(peer, message),
                Node::Client(index) => Heard::Client(clients[&index].id, message),
            }));
        }
        if unit < self.parts.pillar_cores.len() {
            self.cell_round(unit, messages, now);
        } else {
            self.front_round(messages, now);
        }
        let me = self.me;
        let mut leaving = match self.parts.pillar_cores.get_mut(unit) {
            Some(cell) => seal(channels, unit, me, to_replicas(cell.to_peers())),
            None => seal(channels, unit, me, to_replicas(self.parts.front.to_peers())),
        };
        if unit == self.parts.pillar_cores.len() {
            let answers = self.parts.front.to_clients();
            let answers = answers.map(|(to, queue)| (Node::Client(by_id[&to]), queue));
            leaving.extend(seal(channels, unit, me, answers));
        }
        let frames = count + leaving.len() as u64;
        self.units[unit].leaving = leaving;
        frames
    }

    fn cell_round(&mut self, pillar: UnitId, messages: Vec<Heard>, now: Millis) {
        let (front, unit) = (self.parts.pillar_cores.len(), &mut self.units[pillar]);
        let cell = &mut self.parts.pillar_cores[pillar];
        for letter in std::mem::take(&mut unit.mail) {
            let Letter::Told(told) = letter else { continue };
            cell.hear(told);
            unit.heard.extend(self.is_recording.then_some(Heard::Told));
        }
        for heard in messages.into_iter().chain([Heard::Round(now)]) {
            heard.tell_cell(cell);
            unit.heard.extend(Some(heard).filter(|_| self.is_recording));
        }
        unit.posting.extend(cell.said().map(|it| (front, Letter::Said(pillar as u8, it))));
    }

    fn front_round(&mut self, messages: Vec<Heard>, now: Millis) {
        let (front, probe) = (self.parts.pillar_cores.len(), &mut Unwatched);
        self.parts.front.begin_round(now, probe);
        for letter in std::mem::take(&mut self.units[front].mail) {
            let Letter::Said(pillar, said) = letter else { continue };
            self.note(Heard::Said(pillar));
            self.parts.front.on_pillar(pillar, said, probe);
            self.note_snapshots();
        }
        for heard in messages {
            match &heard {
                Heard::Replica(peer, bytes) => self.parts.front.on_peer(*peer, bytes, probe),
                Heard::Client(client, bytes) => {
                    let is_new = self.parts.front.is_new(bytes);
                    self.parts.front.on_client(*client, bytes, probe);
                    if !is_new {
                        continue;
                    }
                }
                _ => {}
            }
            self.note(heard);
            self.note_snapshots();
        }
        self.note(Heard::Round(now));
        self.parts.front.admit(probe);
        self.parts.front.on_round(probe);
        self.note_snapshots();
        let told = self.parts.front.to_pillars();
        let told = told.map(|(pillar, told)| (pillar.into(), Letter::Told(told)));
        self.units[front].posting.extend(told);
    }

    /// Writes down the digests of the states that were just cut.
    fn note_snapshots(&mut self) {
        for (slot, state) in self.parts.front.take_snapshots() {
            self.note(Heard::Checkpointed(slot, state));
        }
    }

    fn note(&mut self, heard: Heard) {
        let front = self.units.last_mut().filter(|_| self.is_recording);
        front.into_iter().for_each(|unit| unit.heard.push(heard.clone()));
    }
}

fn to_replicas<'q>(
    queues: impl Iterator<Item = (ReplicaId, &'q mut Queue)>,
) -> impl Iterator<Item = (Node, &'q mut Queue)> {
    queues.map(|(to, queue)| (Node::Replica(to), queue))
}
