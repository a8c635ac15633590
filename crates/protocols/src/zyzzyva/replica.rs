//! The replica: its state, and where each event goes.

use super::certificate::{Committed, Confirmed, NewView, Stable, ViewChange};
use super::message::{Message, Report};
use super::record::Record;
use super::start::Start;
use super::table::{FIVE, THREE, Table, factor};
use crate::common::asks::Asks;
use crate::common::bodies::Bodies;
use crate::common::certificate::Check;
use crate::common::checkpoint::Checkpoints;
use crate::common::checks::{batch, requests, vouched};
use crate::common::clock::ClockWait;
use crate::common::pace::Pace;
use crate::common::pending::{Added, Pending};
use crate::common::showing::Showing;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature, Verified, Verifier};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::mark;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Delay, Effects, Event, Memory, Protocol, Reject, Rules, Setup, Status, TimerKey, TimerName,
    Tuning,
};
use pentarchy_core::request::Envelope;
use pentarchy_core::votes::Votes;
use pentarchy_core::window::Window;

/// Messages of one author about one slot that come before their view: order, vote and COMMIT.
pub(super) const EARLY_PER_SLOT: usize = 3;

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The oldest waiting envelope, by its arrival number, to execute.
    Request(u64),
    /// This view to be entered.
    ViewChange(View),
    /// The next report to peers.
    Resend,
    /// Our clock to reach an order's time.
    Clock,
    /// An order that others have followed.
    Gap,
    /// Envelopes that an order names.
    Fetch,
    /// The next look at what the primary has not ordered.
    Look,
    /// This slot to become final.
    Final(Slot),
}

impl TimerName for Timer {
    fn to_key(self) -> TimerKey {
        match self {
            Self::Request(arrival) => (0, arrival),
            Self::ViewChange(view) => (1, view.0),
            Self::Resend => (2, 0),
            Self::Clock => (3, 0),
            Self::Gap => (4, 0),
            Self::Fetch => (5, 0),
            Self::Look => (6, 0),
            Self::Final(slot) => (7, slot.0),
        }
    }
    fn from_key((kind, subject): TimerKey) -> Self {
        match kind {
            0 => Self::Request(subject),
            1 => Self::ViewChange(View(subject)),
            2 => Self::Resend,
            3 => Self::Clock,
            4 => Self::Gap,
            5 => Self::Fetch,
            7 => Self::Final(Slot(subject)),
            _ => Self::Look,
        }
    }
}

/// What is known of a slot, in the view that was entered last.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SlotState {
    /// The batch it orders: by the primary's order, or taken over by the view.
    pub batch: Option<Digest>,
    /// The order.
    pub order: Option<Verified<Message>>,
    /// The history up to here, once it is executed.
    pub history: Option<Digest>,
    /// Who says to have executed which history; the first vote of each stands.
    pub votes: BTreeMap<ReplicaId, (Digest, Signature)>,
    /// Whether this replica has told the others.
    pub voted: bool,
    /// This replica's own vote, to send again.
    pub own_vote: Option<Verified<Message>>,
    /// COMMITs.
    pub commits: Votes<Digest>,
    /// Whether this replica has sent COMMIT.
    pub committed: bool,
}

/// Where the replica stands in a view change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// In the view; ordering.
    Entered,
    /// Sent VIEW-CHANGE; waits for NEW-VIEW.
    Changing,
    /// The new primary, which sent NEW-VIEW and waits for it to come back.
    Opening,
    /// Has a NEW-VIEW; waits until a quorum agrees on what follows from it.
    Confirming,
}

/// One replica of Zyzzyva, `KIND` being [`THREE`], of Zyzzyva5, or of what was printed in 2009.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Zyzzyva<const KIND: usize> {
    pub(super) me: ReplicaId,
    pub(super) membership: Arc<Membership>,
    pub(super) table: Table,
    pub(super) tuning: Tuning,
    /// Whether its records outlive a crash.
    pub(super) is_durable: bool,
    pub(super) now: Millis,

    /// The view it is in or wants to enter.
    pub(super) view: View,
    pub(super) phase: Phase,
    /// The view it entered last; `<= view`. Its orders fill the window.
    pub(super) entered: View,
    /// The NEW-VIEW by which `entered` was opened, and the proof that a quorum agreed on what
    /// follows; none for view 0.
    pub(super) opening: Option<(Verified<Message>, Arc<Confirmed>)>,
    /// What `entered` began with.
    pub(super) start: Start,
    /// VIEW-CHANGEs for `view`.
    pub(super) view_changes: BTreeMap<ReplicaId, Verified<Message>>,
    /// The NEW-VIEW for `view`, and what follows from it, until it is entered.
    pub(super) proposed: Option<(Verified<Message>, Start)>,
    /// Who confirmed what for `view`.
    pub(super) confirms: BTreeMap<ReplicaId, (Slot, Digest, Signature)>,
    /// Proof of what `view` begins with, until its NEW-VIEW is here.
    pub(super) agreed: Option<Arc<Confirmed>>,
    /// Who asks for which view.
    pub(super) asks: Asks,
    /// Own messages about `view`, to send again.
    pub(super) own: OwnMessages,
    /// Messages for `view` that came before this replica entered it; at most a window from each.
    pub(super) early: Vec<Verified<Message>>,
    /// Consecutive failed views; doubles the timeouts. Falls when a checkpoint becomes stable.
    pub(super) doublings: u8,
    pub(super) view_changes_count: u64,
    pub(super) reason: &'static str,

    pub(super) window: Window<SlotState>,
    /// The commit certificate of the highest slot, of the view that was entered last.
    pub(super) certificate: Option<Arc<Committed>>,
    pub(super) bodies: Bodies,
    pub(super) pending: Pending,
    /// The last slot that was handed to execution.
    pub(super) executed: Slot,
    /// After a crash, how far this replica may have told others that it had come in `entered`.
    pub(super) shown: Slot,
    /// The last slot that is final; nothing up to there is taken back.
    pub(super) committed: Slot,
    /// A checkpoint is due behind this slot, and waits until it is final. Nothing is executed
    /// meanwhile.
    pub(super) halted: Option<Slot>,
    /// Somebody waits until this slot is final.
    pub(super) wanted: Slot,
    /// The slot for which the timer runs.
    pub(super) final_timer: Option<Slot>,
    /// It ran out.
    pub(super) is_overdue: bool,
    /// Clients that wait for this replica's signature under a slot.
    pub(super) vouching: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Own orders that have not come back, by slot.
    pub(super) unheard: BTreeMap<Slot, (Digest, Arc<Proposal>)>,
    /// The slot that this primary orders in next, and the history before it.
    pub(super) next_slot: Slot,
    pub(super) tip: Digest,
    /// The slot whose order waits for our clock.
    pub(super) clock_wait: Option<ClockWait>,
    /// The arrival number for which the request timer runs.
    pub(super) request_timer: Option<u64>,

    /// How fast the primary is.
    pub(super) pace: Pace,
    /// When the running timer for the next look was set.
    pub(super) looked: Option<Millis>,
    /// Who was proven to lie.
    pub(super) liars: ReplicaSet,

    pub(super) checkpoints: Checkpoints,
    /// The highest stable checkpoint that this replica acts on; the window's low mark.
    pub(super) stable: Stable,
    /// The last state that this replica signed, with its slot and history.
    pub(super) signed: Option<(Slot, Digest, Digest)>,
    /// A proven checkpoint that execution has not reached.
    pub(super) ahead: Option<Stable>,

    /// The last report of each peer.
    pub(super) reports: Vec<Option<Report>>,
    /// Peers that were sent what they lack since the last tick.
    pub(super) answered: ReplicaSet,
    /// Peers that were shown orders since the last tick because their history differs.
    pub(super) disputed: ReplicaSet,
    /// Bodies and envelopes that each peer was sent since the last tick.
    pub(super) served: Vec<usize>,
    /// Messages about slots, and their bytes, that each peer was sent again since the last tick.
    pub(super) resent: Vec<(usize, usize)>,
    /// Which peers are shown every order of the view at once.
    pub(super) showing: Vec<Showing>,
    /// The slot whose order is waited for although a later one is here, and how often it was asked
    /// for out of turn; counted only while its timer runs.
    pub(super) gap: Option<(Slot, u8)>,
    pub(super) resend_armed: bool,
    /// Whether missing envelopes will be asked for.
    pub(super) fetch_armed: bool,
    /// What was executed at the last tick.
    pub(super) at_tick: Slot,
    /// Resend ticks since the start; rotates whom to ask.
    pub(super) ticks: u64,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct OwnMessages {
    pub ask: Option<Verified<Message>>,
    pub view_change: Option<Verified<Message>>,
    pub confirm: Option<Verified<Message>>,
    /// What VIEW-CHANGE shows, also before it comes back.
    pub left: Option<Arc<ViewChange>>,
    /// The NEW-VIEW, until it comes back.
    pub opened: Option<Arc<NewView>>,
    /// Whether this replica has confirmed what follows from the NEW-VIEW.
    pub confirmed: bool,
}

impl<const KIND: usize> Protocol for Zyzzyva<KIND> {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: match KIND {
            THREE => "zyzzyva",
            FIVE => "zyzzyva5",
            _ => "zyzzyva-2009",
        },
        replicas_factor: factor(KIND),
        speculative: true,
        source: "Zyzzyva: Speculative Byzantine Fault Tolerance, section 3",
    };

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Message,
    ) -> Result<(), Reject> {
        let table = &Table::of(KIND, membership);
        let check = || Check::new(membership, verifier);
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        let in_bounds = |slot: &Slot| if slot.0 > 0 { Ok(()) } else { Err(Reject::OutOfBounds) };
        match message {
            Message::Order { view, slot, proposal, .. } => {
                role(primary(view)).and_then(|()| in_bounds(slot))?;
                batch(verifier, proposal)
            }
            Message::ViewChange(change) => change.validate(check(), table),
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate(check(), table)
            }
            Message::Confirmed(proof) => proof.validate(check(), table),
            Message::Stable(stable) => stable.validate(check(), table),
            Message::Misbehaviour(proof) => proof.validate(check()),
            Message::Forward(envelope) | Message::Envelope(envelope) => {
                requests(verifier, core::iter::once(envelope))
            }
            Message::Body(proposal) => batch(verifier, proposal),
            Message::Vote(place) | Message::Commit(place) => in_bounds(&place.slot),
            Message::Checkpoint { slot, .. } => in_bounds(slot),
            Message::Vouch { .. } | Message::Certificate(_) => Err(Reject::WrongRole),
            Message::RequestViewChange { .. }
            | Message::Confirm(_)
            | Message::Report(_)
            | Message::AskBody { .. }
            | Message::AskEnvelope { .. } => Ok(()),
        }
    }

    fn validate_client(
        membership: &Membership,
        verifier: &dyn Verifier,
        message: &Message,
    ) -> Result<(), Reject> {
        match message {
            Message::Vouch { .. } => Ok(()),
            Message::Certificate(proof) => {
                let check = Check::new(membership, verifier);
                proof.validate(check, &Table::of(KIND, membership))
            }
            _ => Err(Reject::WrongRole),
        }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        let Setup { me, membership, fetch, memory, tuning } = setup;
        let fits = membership.check(&Self::RULES);
        fits.expect("a host checks the membership before it starts a core");
        assert!(membership.contains(me), "a replica is a member of its group");
        assert!(tuning.window_slots <= WINDOW_SLOTS, "what a VIEW-CHANGE shows is bounded");
        assert!(
            tuning.checkpoint_slots > 0 && tuning.window_slots >= 2 * tuning.checkpoint_slots,
            "ordering goes on while a checkpoint gathers votes"
        );
        let base = membership.base;
        let mut replica = Self::new(me, membership, tuning, memory != Memory::Volatile);
        if let Some(from) = fetch {
            (replica.executed, replica.committed) = (Slot(0), Slot(0));
            out.output(Output::Fetch { slot: base.slot, state: base.state, from });
        } else if let Memory::Durable { executed, .. } = memory {
            replica.resume(log, executed, out);
        }
        // A first report tells the others where this replica is, and draws theirs.
        replica.arm_resend(out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(message) => self.on_message(message, out),
            Event::Client(client, message) => self.on_client(client, &message, out),
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
        }
    }

    fn assert_invariants(&self) {
        assert!(self.entered <= self.view);
        assert_eq!(self.entered == self.view, self.phase == Phase::Entered);
        assert_eq!(self.opening.is_some(), self.entered > View(0));
        assert_eq!(self.window.low(), self.stable.slot());
        assert!(self.next_slot > self.window.low());
        assert!(self.committed <= self.executed && self.executed <= self.window.high());
        assert!(self.halted.is_none_or(|slot| slot == self.executed && slot > self.committed));
        let window = self.tuning.window_slots as usize;
        assert!(self.early.len() <= self.membership.n() * EARLY_PER_SLOT * window);
        assert!(self.unheard.len() <= window && self.vouching.len() <= window);
        assert!(self.bodies.len() <= (self.membership.n() + 2) * WINDOW_SLOTS as usize);
        self.pending.assert_invariants();
        self.pace.assert_invariants();
        let mut history = self.stable.history;
        for (slot, state) in self.window.iter().take_while(|(slot, _)| *slot <= self.executed) {
            let batch = state.batch.expect("what is executed is known");
            history = super::certificate::extended(&history, &batch);
            assert_eq!(state.history, Some(history), "{slot} rests on what comes before it");
        }
        if let Some(certificate) = &self.certificate {
            assert_eq!(certificate.place.view, self.entered);
        }
    }

    fn status(&self) -> Status {
        let reported = self.reports.iter().flatten().map(|report| report.committed);
        let phase = match self.phase {
            Phase::Entered if self.executed < self.stable.slot() => "catching-up",
            Phase::Entered => "normal",
            Phase::Confirming => "entering",
            Phase::Changing | Phase::Opening => "changing",
        };
        Status {
            view: self.view,
            primary: self.membership.primary(self.view),
            phase,
            committed: self.committed,
            stable: self.stable.slot(),
            peers_committed: vouched(reported, self.membership.f),
            waiting: self.pending.len(),
            view_changes: self.view_changes_count,
            reason: self.reason,
        }
    }
}

impl<const KIND: usize> Zyzzyva<KIND> {
    fn new(me: ReplicaId, membership: Arc<Membership>, tuning: Tuning, is_durable: bool) -> Self {
        let (n, base) = (membership.n(), membership.base);
        let stable = Stable::initial(base);
        Self {
            me,
            table: Table::of(KIND, &membership),
            tuning,
            is_durable,
            now: Millis(0),
            view: View(0),
            phase: Phase::Entered,
            entered: View(0),
            opening: None,
            start: Start::empty(stable.clone()),
            view_changes: BTreeMap::new(),
            proposed: None,
            confirms: BTreeMap::new(),
            agreed: None,
            asks: Asks::new(n),
            own: OwnMessages::default(),
            early: Vec::new(),
            doublings: 0,
            view_changes_count: 0,
            reason: "",
            window: Window::new(base.slot, tuning.window_slots),
            certificate: None,
            bodies: Bodies::default(),
            pending: Pending::default(),
            executed: base.slot,
            shown: Slot(0),
            committed: base.slot,
            halted: None,
            wanted: Slot(0),
            final_timer: None,
            is_overdue: false,
            vouching: BTreeMap::new(),
            unheard: BTreeMap::new(),
            next_slot: base.slot.next(),
            tip: stable.history,
            clock_wait: None,
            request_timer: None,
            pace: Pace::new(n, membership.f),
            looked: None,
            liars: ReplicaSet::EMPTY,
            checkpoints: Checkpoints::new(n),
            stable,
            signed: None,
            ahead: None,
            reports: vec![None; n],
            answered: ReplicaSet::EMPTY,
            disputed: ReplicaSet::EMPTY,
            served: vec![0; n],
            resent: vec![(0, 0); n],
            showing: vec![Showing::default(); n],
            gap: None,
            resend_armed: false,
            fetch_armed: false,
            at_tick: Slot(0),
            ticks: 0,
            membership,
        }
    }

    /// Whether this replica orders now.
    pub(super) fn is_primary(&self) -> bool {
        self.phase == Phase::Entered && self.membership.primary(self.view) == self.me
    }

    /// The history up to a slot, if it was executed here and is not below the window.
    pub(super) fn history(&self, slot: Slot) -> Option<Digest> {
        if slot == self.stable.slot() {
            return (self.executed >= slot).then_some(self.stable.history);
        }
        self.window.get(slot).and_then(|state| state.history)
    }

    pub(super) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        let author = verified.author;
        match &*message {
            Message::Order { view, slot, proposal, .. } => {
                self.on_order(verified, *view, *slot, proposal, out);
            }
            Message::Vote(place) => self.on_vote(verified, *place, out),
            Message::Commit(place) => self.on_commit(verified, *place, out),
            Message::RequestViewChange { view } => {
                self.on_request_view_change(&verified, *view, out);
            }
            Message::ViewChange(change) => self.on_view_change(verified, change, out),
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Confirm(place) => self.on_confirm(verified, *place, out),
            Message::Confirmed(proof) => self.on_confirmed(proof.clone(), out),
            Message::Checkpoint { slot, history, state } => {
                self.on_checkpoint(&verified, *slot, (*history, *state), out);
            }
            Message::Stable(stable) => self.on_stable(stable.clone(), out),
            Message::Misbehaviour(proof) => self.on_misbehaviour(proof, out),
            Message::Report(report) => self.on_report(author, *report, out),
            Message::Forward(envelope) => {
                out.output(Output::Admit { envelope: envelope.clone() });
            }
            Message::AskBody { batch } => self.on_ask_body(author, batch, out),
            Message::Body(proposal) => self.on_body(author, proposal, out),
            Message::AskEnvelope { envelope } => self.on_ask_envelope(author, envelope, out),
            Message::Envelope(envelope) => self.on_envelope(envelope, out),
            // Refused from replicas at the door.
            Message::Vouch { .. } | Message::Certificate(_) => {}
        }
    }

    fn on_timeout(&mut self, timer: Timer, out: &mut Effects<Self>) {
        match timer {
            Timer::Request(arrival) => self.on_request_timeout(arrival, out),
            Timer::ViewChange(view) => self.on_view_change_timeout(view, out),
            Timer::Resend => self.on_resend(out),
            Timer::Clock => self.on_clock(out),
            Timer::Gap => self.on_gap(out),
            Timer::Fetch => self.on_fetch(out),
            // The round that follows knows what time it is.
            Timer::Look => self.looked = None,
            Timer::Final(slot) => self.on_final_timeout(slot, out),
        }
    }

    fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Request { envelope, settled, passed_on } => {
                self.on_request(envelope, (settled, passed_on), out);
            }
            Input::Round { now } => {
                self.now = self.now.max(now);
                self.clock_moved(out);
                self.propose(out);
                self.look(out);
            }
            Input::Checkpointed { slot, state } => self.on_checkpointed(slot, state, out),
            Input::Installed { slot } => self.on_installed(slot, out),
            Input::Wanted { slot } => self.on_wanted(slot, out),
        }
    }

    /// A client's envelope. The primary orders it at the end of the round; a backup gives the
    /// primary until the timer runs out (section 3.4, step 4c).
    fn on_request(
        &mut self,
        envelope: Arc<Envelope>,
        (settled, passed_on): (Vec<u64>, bool),
        out: &mut Effects<Self>,
    ) {
        let added = if passed_on && self.is_primary() {
            let (added, displaced) = self.pending.add_passed_on(envelope.clone(), settled);
            displaced.into_iter().for_each(|envelope| out.output(Output::Full { envelope }));
            added
        } else {
            self.pending.add(envelope.clone(), settled)
        };
        match added {
            Added::Known => {}
            Added::Full => {
                mark!("zyzzyva/full");
                out.output(Output::Full { envelope: envelope.clone() });
            }
            Added::New => {
                mark!("zyzzyva/request");
                self.arm_request_timer(out);
                if !self.is_primary() {
                    self.arm_resend(out);
                }
            }
        }
        self.on_envelope(&envelope, out);
    }

    /// Runs the request timer for the oldest waiting envelope, on backups of an entered view.
    pub(super) fn arm_request_timer(&mut self, out: &mut Effects<Self>) {
        let judges = self.phase == Phase::Entered && !self.is_primary();
        let oldest = if judges { self.pending.oldest() } else { None };
        if oldest == self.request_timer {
            return;
        }
        if self.phase == Phase::Entered && !self.objects() {
            // What this replica waited for has come: it no longer wants another view.
            self.withdraw_ask();
        }
        if let Some(old) = self.request_timer {
            out.disarm(Timer::Request(old));
        }
        if let Some(arrival) = oldest {
            let after = Delay::Request { doublings: self.doublings };
            out.arm(Timer::Request(arrival), after);
        }
        self.request_timer = oldest;
    }

    fn on_request_timeout(&mut self, arrival: u64, out: &mut Effects<Self>) {
        if self.phase == Phase::Entered && self.pending.oldest() == Some(arrival) {
            mark!("zyzzyva/request_timeout");
            self.ask(self.view.next(), "a request was not ordered in time", out);
        }
    }
}
