//! Inputs of this target that honest replicas made: the liar's part is played by an honest one, and
//! what it says is written down as deeds.

use super::{
    Act, Address, Bytes, Group, N, Packet, ReplicaId, ReplicaNode, STARTED, arrive, deed, node,
};
use crate::input::{Input, put_bytes};
use pentarchy_core::auth::AuthTag;
use pentarchy_core::authored;
use pentarchy_core::ids::Millis;
use pentarchy_core::protocol::TimerKey;
use pentarchy_core::wire::Wire;
use pentarchy_sim::service::{Action, Operation};
use std::collections::BTreeSet;

/// The longest packet that seeds have.
const PACKET_BYTES_MAX: usize = 4096;

struct Recorder {
    deeds: Vec<u8>,
    group: Group,
    actor: ReplicaNode<'static>,
    timers: BTreeSet<TimerKey>,
    /// Packets in `group.heard` that the actor has seen.
    seen: usize,
    now: Millis,
    requests: u8,
    packets: Vec<Packet>,
}

/// Tag and body of a message on the wire.
///
/// # Panics
/// If no correct replica sent it.
pub fn divide(wire: &Bytes) -> (AuthTag, Bytes) {
    let (_, tag, mut body) = authored::divide(wire).expect("a correct message");
    (tag, body.rest())
}

impl Recorder {
    fn new(liar: u16) -> Self {
        let mut acts = Vec::new();
        let actor = node(ReplicaId(liar), &mut acts);
        let mut recorder = Self {
            deeds: vec![liar as u8],
            group: Group::new(ReplicaId(liar)),
            actor,
            timers: BTreeSet::new(),
            seen: 0,
            now: STARTED,
            requests: 0,
            packets: Vec::new(),
        };
        recorder.carry_out(acts);
        recorder
    }

    fn act(&mut self, deed: &[u8]) {
        self.deeds.extend_from_slice(deed);
        self.group.act(&mut Input::new(deed));
        self.hear();
    }

    /// The actor gets what the group sent it.
    fn hear(&mut self) {
        while let Some((from, packet)) = self.group.heard.get(self.seen).cloned() {
            self.seen += 1;
            self.packets.push(packet.clone());
            let from = match packet {
                Packet::ToReplica(_) => Address::Client(0),
                _ => Address::Replica(from),
            };
            let mut acts = Vec::new();
            arrive(&mut self.actor, from, &packet, &mut acts);
            self.carry_out(acts);
        }
    }

    fn carry_out(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send { to: Address::Replica(to), packet } => self.say(to, &packet),
                Act::Send { packet, .. } => self.packets.push(packet),
                Act::Arm { timer, .. } => {
                    self.timers.insert(timer);
                }
                Act::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                Act::DisarmAll => self.timers.clear(),
                Act::Pause { .. } | Act::Saw(_) => {}
            }
        }
    }

    fn say(&mut self, to: ReplicaId, packet: &Packet) {
        self.packets.push(packet.clone());
        let liar = self.group.liar.0 as u8;
        let (kind, bytes) = match packet {
            Packet::Protocol(_, wire) if wire[0] == liar => (deed::SAY, divide(wire).1),
            Packet::Protocol(_, wire) => (deed::RAW, wire.clone()),
            Packet::Transfer(wire) => (deed::TRANSFER, wire.clone()),
            Packet::Epochs(_)
            | Packet::Resuming(_)
            | Packet::ToReplica(_)
            | Packet::ToClient(..) => return,
        };
        if bytes.len() <= PACKET_BYTES_MAX {
            let mut deed = vec![kind, 1 << to.0];
            put_bytes(&bytes, &mut deed);
            self.act(&deed);
        }
    }

    /// Some client asks all replicas in the mask.
    fn request(&mut self, to: u8) {
        self.requests += 1;
        let number = u64::from(self.requests);
        let action = match self.requests % 3 {
            0 => Action::Get,
            1 => Action::Put(Bytes::from_static(b"value")),
            _ => Action::Add(number),
        };
        let operation = Operation { number, key: self.requests.into(), action }.to_bytes();
        let mut deed = vec![deed::REQUEST, 0, to, self.requests];
        put_bytes(&operation, &mut deed);
        self.act(&deed);
    }

    fn round(&mut self, millis: u16) {
        self.now.0 += u64::from(millis);
        let [low, high] = millis.to_le_bytes();
        self.act(&[deed::ROUND, low, high]);
        let mut acts = Vec::new();
        self.actor.on_clock(self.now.0, self.now);
        self.actor.on_round(&mut acts);
        self.carry_out(acts);
        self.hear();
    }

    /// Delivers all and ends rounds until nothing is under way.
    fn settle(&mut self) {
        for _ in 0..40 {
            self.round(1);
            if self.group.flights.is_empty() {
                break;
            }
            while !self.group.flights.is_empty() {
                self.act(&[deed::DELIVER, 0]);
            }
        }
    }

    /// Loses all that is under way between the two correct replicas.
    fn lose(&mut self) {
        while !self.group.flights.is_empty() {
            self.act(&[deed::DROP, 0]);
        }
    }

    /// All timers of all replicas run out, lowest first.
    fn fire_all(&mut self) {
        for whose in 0..2 {
            self.act(&[deed::FIRE, whose, 0]);
        }
        if let Some(timer) = self.timers.pop_first() {
            let mut acts = Vec::new();
            self.actor.on_timeout(timer, &mut acts);
            self.carry_out(acts);
            self.hear();
        }
    }

    /// Requests until the window has moved.
    fn normal_case(mut self) -> Self {
        for _ in 0..5 {
            self.request(0b111);
            self.settle();
        }
        self
    }

    /// The primary does not hear of requests, and the backups leave its view.
    fn view_change(mut self) -> Self {
        let primary = 0;
        self.request(0b111);
        self.settle();
        self.request(0b111 & !(1 << primary));
        for _ in 0..4 {
            self.lose();
            self.fire_all();
            self.settle();
        }
        self.request(0b111);
        self.settle();
        self
    }

    /// The correct replicas do not hear each other until the one that is behind needs a transfer.
    fn falls_behind(mut self) -> Self {
        for _ in 0..8 {
            self.request(0b111);
            for _ in 0..3 {
                self.round(1);
                self.lose();
            }
        }
        for _ in 0..4 {
            self.fire_all();
            self.settle();
            self.round(500);
        }
        self
    }
}

fn recordings() -> impl Iterator<Item = Recorder> {
    let scenes = [Recorder::normal_case, Recorder::view_change, Recorder::falls_behind];
    (0..N).flat_map(move |liar| scenes.map(|scene| scene(Recorder::new(liar))))
}

/// Honest runs as deeds.
pub fn seeds() -> Vec<Vec<u8>> {
    recordings().map(|recorder| recorder.deeds).collect()
}

/// What crossed channels in honest runs, one packet of each kind and size.
pub fn recorded_packets() -> Vec<Packet> {
    let mut known = BTreeSet::new();
    let mut packets: Vec<Packet> = recordings().flat_map(|recorder| recorder.packets).collect();
    packets.retain(|packet| {
        let bytes = packet.bytes();
        let body = match packet {
            Packet::Protocol(_, wire) => divide(wire).1,
            _ => bytes.clone(),
        };
        bytes.len() <= PACKET_BYTES_MAX && known.insert((packet.kind(), body[0], bytes.len()))
    });
    packets
}
