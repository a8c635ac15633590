//! What speaks with replicas: a core with its keys, and what it has to say. It agrees on the whole
//! order, or is one pillar.

use crate::host::{Keys, Queue};
use crate::parts::{Said, Told};
use pentarchy_core::Bytes;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Delay, TimerKey, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire;
use pentarchy_protocols::pillars::Part;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// First byte of a message between replicas, as in `pentarchy-replica`.
const PROTOCOL: u8 = 0;

/// See the [module](self).
pub struct Speaker {
    core: Box<dyn ReplicaCore>,
    keys: Keys,
    me: ReplicaId,
    others: ReplicaSet,
    epoch: Epoch,
    inward: VecDeque<CoreEvent>,
    effects: Vec<CoreEffect>,
    outputs: VecDeque<Output>,
    timers: BTreeMap<TimerKey, Delay>,
    to_peers: BTreeMap<ReplicaId, Queue>,
}

impl Speaker {
    /// Of a core that was brought up at a replica of this group.
    #[must_use]
    pub fn new(part: Part, me: ReplicaId, membership: &Membership, keys: Keys) -> Self {
        let mut others: ReplicaSet = membership.ids().collect();
        others.remove(me);
        let mut speaker = Self {
            core: part.core,
            keys,
            me,
            others,
            epoch: membership.epoch,
            inward: VecDeque::new(),
            effects: part.effects,
            outputs: VecDeque::new(),
            timers: BTreeMap::new(),
            to_peers: BTreeMap::new(),
        };
        speaker.carry_out();
        speaker
    }

    /// Takes a replica's message.
    ///
    /// # Panics
    /// If it is refused, as all in here are correct.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) {
        let opened = self.core.open_new(&*self.keys.verifier, peer, &bytes.slice(9..));
        let opened = opened.unwrap_or_else(|why| panic!("refused as {}", why.name()));
        if let Some(incoming) = opened {
            self.step(CoreEvent::Message(incoming));
        }
    }

    /// Takes what a client says to the protocol.
    ///
    /// # Panics
    /// If it is refused.
    pub fn on_client(&mut self, client: ClientId, message: &Bytes) {
        let opened = self.core.open_client(&*self.keys.verifier, message);
        let opened = opened.unwrap_or_else(|why| panic!("refused as {}", why.name()));
        self.step(CoreEvent::Client(client, opened));
    }

    /// Tells its core something.
    pub fn tell(&mut self, input: Input) {
        self.step(CoreEvent::Input(input));
    }

    /// Checks what clients sent.
    ///
    /// # Panics
    /// If one is not authentic, as all in here are correct.
    pub fn check(&self, envelopes: &[Arc<Envelope>]) {
        let envelopes: Vec<&Envelope> = envelopes.iter().map(AsRef::as_ref).collect();
        assert!(envelopes.is_empty() || self.keys.verifier.envelopes(&envelopes));
    }

    /// A pillar hears the rest of its replica. What it checked it says at once.
    pub fn hear(&mut self, told: Told, saying: &mut Vec<Said>) {
        match told {
            Told::Input(input) => self.tell(*input),
            Told::Check(envelopes) => {
                self.check(&envelopes);
                saying.push(Said::Checked(envelopes));
            }
        }
    }

    /// Says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        self.tell(Input::Round { now });
    }

    /// Lets the timer run out that retransmission waits for; false if none is armed.
    pub fn on_resend(&mut self) -> bool {
        let armed = self.timers.iter().find(|(_, after)| **after == Delay::Resend);
        let Some((timer, _)) = armed.map(|(timer, after)| (*timer, *after)) else { return false };
        self.timers.remove(&timer);
        self.step(CoreEvent::Timeout(timer));
        true
    }

    /// The delays of all armed timers.
    pub fn delays(&self) -> impl Iterator<Item = Delay> {
        self.timers.values().copied()
    }

    /// The next thing that its core wants of its host.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What a pillar says to the rest of its replica.
    pub fn said(&mut self) -> impl Iterator<Item = Said> {
        self.outputs.drain(..).map(|output| Said::Output(output.into()))
    }

    /// What is to be sent to replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.to_peers.iter_mut().map(|(id, queue)| (*id, queue))
    }

    fn step(&mut self, event: CoreEvent) {
        self.core.step(event, &mut self.effects);
        self.carry_out();
        while let Some(event) = self.inward.pop_front() {
            self.core.step(event, &mut self.effects);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                CoreEffect::Send { to, outgoing } => self.send(to, &outgoing),
                CoreEffect::Relay { to, wire, kind } => self.queue(self.receivers(to), kind, &wire),
                CoreEffect::Arm { timer, after } => {
                    self.timers.insert(timer, after);
                }
                CoreEffect::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                CoreEffect::Output(output) => self.outputs.push_back(output),
                CoreEffect::Report(evidence) => panic!("all in here are correct: {evidence:?}"),
                CoreEffect::Persist(_) => {}
            }
        }
        self.effects = effects;
    }

    fn receivers(&self, to: To) -> ReplicaSet {
        match to {
            To::One(id) => ReplicaSet::from_iter([id]),
            To::Others => self.others,
            To::All => {
                let mut all = self.others;
                all.insert(self.me);
                all
            }
            To::Set(set) => set,
        }
    }

    fn send(&mut self, to: To, outgoing: &Outgoing) {
        let tag = self.keys.tagger.tag(&outgoing.auth, &outgoing.digest);
        let (wire, incoming) = self.core.seal(outgoing, tag);
        let receivers = self.receivers(to);
        if receivers.contains(self.me) {
            self.inward.push_back(CoreEvent::Message(incoming));
        }
        self.queue(receivers, outgoing.kind, &wire);
    }

    fn queue(&mut self, mut receivers: ReplicaSet, kind: &'static str, wire: &Bytes) {
        receivers.remove(self.me);
        for peer in receivers.iter() {
            self.to_peers.entry(peer).or_default().push(kind, |to| {
                to.u8(PROTOCOL);
                self.epoch.encode(to);
                to.array(wire);
            });
        }
    }
}
