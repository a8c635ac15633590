//! Schedules by hand, each the smallest that needs its rule. Four replicas, of which 0 lies: it has
//! no core, and the test speaks for it. It is the primary of view 0; the primary of view 1 is
//! correct.

mod log;
mod normal;
mod views;

use super::replica::Phase;
use super::{Message, ModSmart, Record};
use crate::common::message::Shared;
use crate::common::timer::Timer;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Auth, AuthTag, Signature, Verified, Verifier};
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, Incarnation, Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Effect, Effects, Event, Memory, Message as _, Protocol as _, Setup, To, Tuning,
};
use pentarchy_core::request::Envelope;

const LIAR: ReplicaId = ReplicaId(0);
const S1: Slot = Slot(1);
const S2: Slot = Slot(2);
const V0: View = View(0);
const V1: View = View(1);

/// A signature is the digest and who made it.
fn sign(author: ReplicaId, digest: &Digest) -> [u8; 64] {
    let mut signature = [author.0 as u8; 64];
    signature[..32].copy_from_slice(&digest.0);
    signature
}

struct Seals;

impl Verifier for Seals {
    fn signature(&self, author: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        *signature == sign(author, digest)
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        false
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        false
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

fn membership() -> Arc<Membership> {
    let members = [([0; 32], Life::mac(Incarnation(0))); 4];
    Arc::new(Membership::of_keys(GroupId([7; 16]), 1, members))
}

/// A batch of no request, one of many.
fn batch(time: u64) -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(time), Vec::new()))
}

/// What one replica said and did.
#[derive(Clone, Default)]
struct Done {
    log: Vec<Record>,
    said: Vec<Message>,
    executed: BTreeMap<Slot, Digest>,
}

/// Replicas 1 to 3, and what is under way between all.
struct Group {
    membership: Arc<Membership>,
    cores: BTreeMap<ReplicaId, ModSmart>,
    done: BTreeMap<ReplicaId, Done>,
    under_way: VecDeque<(ReplicaId, Verified<Message>)>,
    /// What came to the liar.
    heard: Vec<Verified<Message>>,
}

/// Everything arrives.
fn all(_: ReplicaId, _: ReplicaId, _: &Message) -> bool {
    true
}

impl Group {
    fn new() -> Self {
        let mut group = Self {
            membership: membership(),
            cores: BTreeMap::new(),
            done: BTreeMap::new(),
            under_way: VecDeque::new(),
            heard: Vec::new(),
        };
        (1..4).map(ReplicaId).for_each(|id| group.start(id, Vec::new()));
        group
    }

    /// A replica begins with this log.
    fn start(&mut self, id: ReplicaId, log: Vec<Record>) {
        let base = self.membership.base;
        let memory = Memory::Durable { executed: base, records: Vec::new() };
        let (membership, tuning) = (self.membership.clone(), Tuning::default());
        let setup = Setup { me: id, membership, fetch: None, memory, tuning };
        let mut out = Effects::default();
        let core = ModSmart::start(setup, &mut log.clone().into_iter(), &mut out);
        core.assert_invariants();
        self.cores.insert(id, core);
        self.done.insert(id, Done { log, ..Done::default() });
        self.carry_out(id, &mut out);
    }

    /// It stops, and goes on from its log. What it had sent is lost.
    fn restart(&mut self, id: ReplicaId) {
        self.under_way.retain(|(_, verified)| verified.author != id);
        let log = self.done[&id].log.clone();
        self.start(id, log);
    }

    fn core(&mut self, id: u16) -> &mut ModSmart {
        self.cores.get_mut(&ReplicaId(id)).expect("it is correct")
    }

    fn authentic(&self, author: ReplicaId, message: Message) -> Verified<Message> {
        let domain = self.membership.domain();
        let tag = match message.auth() {
            Auth::Signature => AuthTag::Signature(sign(author, &message.statement(&domain))),
            _ => AuthTag::Channel,
        };
        Verified::recalled(author, tag, &domain, message)
    }

    /// The liar says something to some.
    fn say(&mut self, to: &[u16], message: &Message) {
        for id in to {
            let verified = self.authentic(LIAR, message.clone());
            self.under_way.push_back((ReplicaId(*id), verified));
        }
    }

    /// The primary of view 0 proposes a batch to some.
    fn propose(&mut self, to: &[u16], slot: Slot, proposal: &Arc<Proposal>) {
        let proposal = proposal.clone();
        self.say(to, &Message::Propose { view: V0, slot, proposal, signed: false });
    }

    /// The liar writes and accepts a batch.
    fn vote(&mut self, to: &[u16], view: View, slot: Slot, batch: Digest) {
        self.say(to, &Message::Write { view, slot, batch, signed: false });
        self.say(to, &Message::Accept { view, slot, batch });
    }

    /// These want another view, and say so.
    fn ask(&mut self, ids: &[u16], view: View) {
        for id in ids {
            let mut out = Effects::default();
            let frame = &mut self.core(*id).frame;
            // Nobody asks without a reason.
            frame.monitor.note_liar(frame.membership.primary(frame.view));
            frame.ask(view, "a test", &mut out);
            self.carry_out(ReplicaId(*id), &mut out);
        }
    }

    /// Everybody reports and repairs, as often as it takes to be answered.
    fn ticks(&mut self, arrives: impl Fn(ReplicaId, ReplicaId, &Message) -> bool) {
        for _ in 0..8 {
            for id in 1..4 {
                self.step(ReplicaId(id), Event::Timeout(Timer::Resend));
            }
            self.run(&arrives);
        }
    }

    /// The end of a round at this time.
    fn round(&mut self, id: u16, now: u64) {
        self.step(ReplicaId(id), Event::Input(Input::Round { now: Millis(now) }));
    }

    fn step(&mut self, id: ReplicaId, event: Event<ModSmart>) {
        let mut out = Effects::default();
        let core = self.cores.get_mut(&id).expect("it is correct");
        core.step(event, &mut out);
        core.assert_invariants();
        self.carry_out(id, &mut out);
    }

    /// Delivers what is under way, and what follows from it; what does not arrive is lost. Replicas
    /// hear themselves in any case.
    fn run(&mut self, arrives: impl Fn(ReplicaId, ReplicaId, &Message) -> bool) {
        while let Some((to, verified)) = self.under_way.pop_front() {
            let from = verified.author;
            if from != to && !arrives(from, to, &verified.message) {
                continue;
            }
            if to == LIAR {
                self.heard.push(verified);
                continue;
            }
            let Verified { author, tag, message, .. } = &verified;
            let valid = ModSmart::validate(&self.membership, &Seals, *author, tag, message);
            if *author != LIAR {
                assert_eq!(valid, Ok(()), "{author} says {message:?}");
            }
            if valid.is_ok() && !self.cores[&to].is_redundant(*author, message) {
                self.step(to, Event::Message(verified));
            }
        }
    }

    fn carry_out(&mut self, id: ReplicaId, out: &mut Effects<ModSmart>) {
        for effect in out.drain().collect::<Vec<_>>() {
            let (to, verified) = match effect {
                Effect::Send { to, message } => {
                    self.done.entry(id).or_default().said.push(message.clone());
                    (to, self.authentic(id, message))
                }
                Effect::Relay { to, message } => {
                    (to, Verified { is_direct: message.author == id, ..message })
                }
                Effect::Persist(record) => {
                    self.done.entry(id).or_default().log.push(record);
                    continue;
                }
                Effect::Output(Output::Execute { slot, batch }) => {
                    self.done.entry(id).or_default().executed.insert(slot, batch.digest);
                    continue;
                }
                _ => continue,
            };
            for other in self.membership.ids() {
                let gets = match to {
                    To::One(one) => other == one,
                    To::Others => other != id,
                    To::All => true,
                    To::Set(set) => set.contains(other),
                };
                if gets {
                    self.under_way.push_back((other, verified.clone()));
                }
            }
        }
    }

    /// What each correct replica executed in a slot.
    fn executed(&self, slot: Slot) -> [Option<Digest>; 3] {
        [1, 2, 3].map(|id| self.done[&ReplicaId(id)].executed.get(&slot).copied())
    }

    /// What a replica wrote in a slot and view.
    fn wrote(&self, id: u16, view: View, slot: Slot) -> Vec<Digest> {
        let written = |message: &Message| match message {
            Message::Write { view: of, slot: at, batch, .. } if (*of, *at) == (view, slot) => {
                Some(*batch)
            }
            _ => None,
        };
        self.done[&ReplicaId(id)].said.iter().filter_map(written).collect()
    }

    /// Which of the correct replicas are in a view.
    fn in_view(&mut self, view: View) -> Vec<u16> {
        let here = |core: &ModSmart| core.frame.view == view && core.phase == Phase::Entered;
        [1, 2, 3].into_iter().filter(|id| here(self.core(*id))).collect()
    }

    /// The liar leaves for view 1 by a VIEW-CHANGE that claims this.
    fn liar_leaves(&mut self, claims: super::Claims, proofs: Vec<super::SignedWrites>) {
        let asks = |verified: &Verified<Message>| match &*verified.message {
            Message::Shared(Shared::RequestViewChange { view }) if *view >= claims.view => {
                let signature = Signature(*verified.tag.signature()?);
                Some((verified.author, (*view, signature)))
            }
            _ => None,
        };
        let requests: BTreeMap<_, _> = self.heard.iter().filter_map(asks).collect();
        let requests = requests.into_iter().take(2).collect();
        let base = self.membership.base;
        let checkpoint = crate::common::certificate::CheckpointProof::initial(base);
        let change = super::ViewChange { claims, requests, checkpoint, proofs };
        self.say(&[1, 2, 3], &Message::ViewChange(Arc::new(change)));
    }
}
