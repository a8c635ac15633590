//! The replica: its state, and where each event goes.

use super::certificate::{NewView, ViewChange, members_needed};
use super::message::{Locked, Message, Shared};
use super::record::Record;
use super::slot::SlotState;
use super::start::Start;
use super::statements::STATEMENTS;
use super::variant::{Crash, Serial, Variant, Windowed};
use super::writes::WRITES_MAX;
use crate::common::certificate::Check;
use crate::common::checks::batch;
use crate::common::frame::Frame;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Finality, Framed};
use crate::common::message::{Statements, in_bounds};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Protocol, Reject, Rules, Setup, Status, Tuning};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::window::Window;

/// Where the replica stands in a view change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// In the view; ordering.
    Entered,
    /// Sent VIEW-CHANGE; waits for NEW-VIEW.
    Changing,
    /// The new primary, which sent NEW-VIEW and waits for it to come back.
    Opening,
}

/// One replica of Mod-SMaRt.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModSmart<V: Variant = Windowed> {
    pub(super) frame: Frame<Self>,
    pub(super) phase: Phase,
    /// The NEW-VIEW by which the view that it entered last was opened, to pass on; none for view 0.
    pub(super) opening: Option<Verified<Message<V>>>,
    /// What that view started from.
    pub(super) start: Start,
    /// What it says about the current view.
    pub(super) own: OwnMessages<V::Seal>,
    /// What it knows of the slots in which it votes, and of those that follow up to the next
    /// checkpoint: others may be at them already, and nobody passes on what it does not hear.
    pub(super) window: Window<SlotState<V>>,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct OwnMessages<S> {
    /// What VIEW-CHANGE shows, also before it comes back.
    pub left: Option<Arc<ViewChange>>,
    /// The NEW-VIEW, until it comes back.
    pub opened: Option<Arc<NewView<S>>>,
}

impl<S> Default for OwnMessages<S> {
    fn default() -> Self {
        Self { left: None, opened: None }
    }
}

/// The same one slot at a time.
pub type SerialModSmart = ModSmart<Serial>;

/// Its crash mode.
pub type CrashModSmart = ModSmart<Crash>;

impl<V: Variant> Protocol for ModSmart<V> {
    type Message = Message<V>;
    type Timer = Timer;
    type Record = Record<V>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = V::RULES;
    const JUSTIFICATION: Justification = V::JUSTIFICATION;

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Message<V>,
    ) -> Result<(), Reject> {
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        let check = || Check::new(membership, verifier);
        match message {
            // Nobody writes in the crash mode.
            Message::Write { .. } | Message::Propose { signed: true, .. } if !V::WRITES => {
                Err(Reject::WrongRole)
            }
            Message::Propose { view, slot, proposal, .. } => {
                role(primary(view)).and_then(|()| in_bounds(*slot))?;
                batch(verifier, proposal)
            }
            Message::Write { slot, .. }
            | Message::Accept { slot, .. }
            | Message::Decided { slot, .. } => in_bounds(*slot),
            Message::ViewChange(change) => change.validate::<V>(check()),
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate::<V>(check())
            }
            Message::Shared(message) => {
                let vouching = Self::vouching(membership.quorums());
                message.validate(membership, verifier, &Self::STATEMENTS, vouching)
            }
        }
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Record<V>>,
        out: &mut Effects<Self>,
    ) -> Self {
        let slots = setup.tuning.window_slots + Self::slots_ahead(&setup.tuning);
        let mut replica = Self {
            frame: Frame::new(&setup),
            phase: Phase::Entered,
            opening: None,
            start: Start::default(),
            own: OwnMessages::default(),
            window: Window::new(setup.membership.base.slot, slots),
        };
        replica.begin(&setup, log, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(message) => self.on_message(message, out),
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
            // The ingress refuses it: clients of this protocol only ask.
            Event::Client(..) => {}
        }
    }

    fn is_redundant(&self, author: ReplicaId, message: &Message<V>) -> bool {
        self.says_nothing_new(author, message)
    }

    fn asks_to_leave(&self) -> alloc::vec::Vec<Self::Message> {
        self.frame.asks_to_leave()
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants(self.last_final());
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        assert_eq!(self.opening.is_some(), self.frame.entered > View(0));
        assert_eq!(self.window.low(), self.frame.stable.slot);
        for (slot, state) in self.window.iter() {
            let lock = state.lock.as_ref();
            let bottom = lock.map_or(View(0), |lock| lock.view);
            let written = state.writes.iter().all(|(_, view)| view >= bottom);
            assert!(written, "{slot} shows what it wrote below its lock");
            assert!(state.writes.len() <= WRITES_MAX, "{slot} has too many writes");
            assert!(bottom <= self.frame.entered, "{slot} has a lock of a view to come");
            assert!(state.decided.is_none() || state.decided == state.chosen);
            let here = lock.is_some_and(|lock| lock.view == self.frame.entered);
            assert!(!state.round.locked || here, "{slot} was accepted without a lock");
        }
    }

    fn status(&self) -> Status {
        self.frame.status("changing", self.last_final())
    }

    /// Everything that was ever locked here: locks outlast views and crashes, and what was locked
    /// below the window is in the stable checkpoint. See *Queries* on the protocol's page.
    fn reads_from(&self) -> Slot {
        let locked = self.window.iter().filter(|(_, state)| state.lock.is_some());
        let locked = locked.last().map(|(slot, _)| slot);
        let locked = locked.filter(|_| !mutant!("modsmart.reads-before-locked"));
        locked.unwrap_or_default().max(self.window.low())
    }
}

impl<V: Variant> ModSmart<V> {
    pub(super) fn on_message(&mut self, verified: Verified<Message<V>>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        match &*message {
            Message::Propose { view, slot, proposal, .. } => {
                self.on_propose(verified, *view, *slot, proposal, out);
            }
            Message::Write { view, slot, batch, .. } => {
                self.on_write(verified, *view, *slot, *batch, out);
            }
            Message::Accept { view, slot, batch } => {
                self.on_accept(verified, *view, *slot, *batch, out);
            }
            Message::ViewChange(change) => {
                self.on_view_change(verified, change, out);
            }
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Decided { slot, batch } => {
                self.on_decided(verified.author, *slot, *batch, out);
            }
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }
}

impl<V: Variant> Finality for ModSmart<V> {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }
}

impl<V: Variant> Framed for ModSmart<V> {
    type More = Locked;

    const STATEMENTS: Statements = STATEMENTS;
    /// PROPOSE, WRITE and ACCEPT.
    const KINDS_PER_SLOT: usize = 3;
    const KINDS_OF_NO_SLOT: usize = 0;
    /// Our PROPOSE or WRITE, our ACCEPT, and what is decided.
    const REPEATED_PER_SLOT: usize = 3;

    fn quorum(quorums: Quorums) -> usize {
        members_needed(quorums)
    }
    /// Up to the next checkpoint: others may be there, and each has to say its votes itself.
    fn slots_ahead(tuning: &Tuning) -> u64 {
        tuning.checkpoint_slots
    }
    /// Of a slot: what it wrote before and what it locked; in this view what was proposed, what it
    /// wrote and what a quorum wrote; what is decided; what others told or wrote alike; and what
    /// each replica may have shown for the next view.
    fn windows_held(quorums: Quorums) -> usize {
        WRITES_MAX + 5 + 3 * quorums.n
    }
    fn vouching(quorums: Quorums) -> usize {
        V::quorum(quorums)
    }
    fn shared(message: Shared) -> Message<V> {
        Message::Shared(message)
    }
    fn kept(record: Kept) -> Record<V> {
        Record::Kept(record)
    }
    fn frame(&self) -> &Frame<Self> {
        &self.frame
    }
    fn frame_mut(&mut self) -> &mut Frame<Self> {
        &mut self.frame
    }
}
