//! The replica: its state, and where each event goes.

use super::certificate::{Entry, validate_checkpoint};
use super::message::{Message, Report};
use super::record::Record;
use super::served::Served;
use super::view_change::Opening;
use crate::common::asks::Asks;
use crate::common::bodies::Bodies;
use crate::common::certificate::{Check, CheckpointProof};
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
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::{REPLICAS_MAX, WINDOW_SLOTS};
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

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The oldest waiting envelope, by its arrival number, to execute.
    Request(u64),
    /// This view to be entered.
    ViewChange(View),
    /// The next report to peers.
    Resend,
    /// Our clock to reach a proposal's time.
    Clock,
    /// A PREPARE that others have committed to.
    Gap,
    /// Envelopes that a PREPARE names.
    Fetch,
    /// The next look at what the primary has not ordered.
    Look,
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
            _ => Self::Look,
        }
    }
}

/// What is known of a slot, in the view that was entered last.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SlotState {
    /// The batch it orders: by PREPARE, or taken over by the view.
    pub batch: Option<Digest>,
    /// The PREPARE.
    pub prepare: Option<Verified<Message>>,
    /// Commitments, the primary's PREPARE among them.
    pub commits: Votes<Digest>,
    /// This replica's own COMMIT, to send again.
    pub own_commit: Option<Verified<Message>>,
    /// Whether a quorum committed.
    pub decided: bool,
}

/// Where the replica stands in a view change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// In the view; ordering.
    Entered,
    /// Wants the view, but its own PREPAREs have not all come back yet; it must show them.
    Draining,
    /// Sent VIEW-CHANGE; waits for NEW-VIEW, or for the batches that a NEW-VIEW takes over.
    Changing,
    /// The new primary, which sent NEW-VIEW and waits for it to come back.
    Opening,
    /// Has NEW-VIEW; waits for a quorum to find it valid.
    Acknowledged,
}

/// One MinBFT replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MinBft {
    pub(super) me: ReplicaId,
    pub(super) membership: Arc<Membership>,
    pub(super) tuning: Tuning,
    /// Whether its records outlive a crash.
    pub(super) is_durable: bool,
    pub(super) now: Millis,

    /// The view it is in or wants to enter.
    pub(super) view: View,
    pub(super) phase: Phase,
    /// The view it entered last; `<= view`. Its PREPAREs fill the window.
    pub(super) entered: View,
    /// How `entered` was opened; none for view 0.
    pub(super) entry: Option<Entry>,
    /// ENTERs for `entered`; a quorum decides what the view took over.
    pub(super) enters: Votes<Digest>,
    /// A NEW-VIEW for `view` that is being acknowledged, or that opened `entered`.
    pub(super) opening: Option<Opening>,
    /// VIEW-CHANGEs for `view`.
    pub(super) view_changes: BTreeMap<ReplicaId, Verified<Message>>,
    /// Who asks for which view.
    pub(super) asks: Asks,
    /// Own messages about `view`, to send again: ask, VIEW-CHANGE, acknowledgement, ENTER.
    pub(super) own: OwnMessages,
    /// Own PREPAREs, VIEW-CHANGEs and NEW-VIEWs that have not come back, if records are kept: until
    /// then nothing else holds them.
    pub(super) unheard: Vec<Message>,
    /// Messages for `view` that came before this replica entered it; at most a window from each.
    pub(super) early: Vec<Verified<Message>>,
    /// Consecutive failed views; doubles the timeouts. Falls when a checkpoint becomes stable.
    pub(super) doublings: u8,
    pub(super) view_changes_count: u64,
    pub(super) reason: &'static str,

    pub(super) window: Window<SlotState>,
    pub(super) bodies: Bodies,
    pub(super) pending: Pending,
    /// The last slot of the contiguous committed order; everything up to it was handed to
    /// execution.
    pub(super) committed: Slot,
    /// The slot that this primary proposes next, or that this backup commits to next.
    pub(super) next_slot: Slot,
    /// Proposals of this primary, in this view, that are not decided.
    pub(super) in_flight: u64,
    /// PREPAREs of this primary that have not come back by loopback.
    pub(super) looping: BTreeSet<(View, Slot)>,
    /// The slot whose proposal waits for our clock.
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
    /// The highest stable checkpoint whose proof this replica acts on; the window's low mark.
    pub(super) stable: CheckpointProof,

    /// The last report of each peer.
    pub(super) reports: Vec<Option<Report>>,
    /// Peers that were sent what they lack since the last tick.
    pub(super) answered: ReplicaSet,
    /// What each peer was sent since the last tick because it asked.
    pub(super) served: Vec<Served>,
    /// Messages about slots, and their bytes, that each peer was sent again since the last tick.
    pub(super) resent: Vec<(usize, usize)>,
    /// Which peers are shown every PREPARE of the view at once.
    pub(super) showing: Vec<Showing>,
    /// The slot whose PREPARE is waited for although others have it, and how often it was asked for
    /// out of turn; counted only while its timer runs.
    pub(super) gap: Option<(Slot, u8)>,
    pub(super) resend_armed: bool,
    /// Whether missing envelopes will be asked for.
    pub(super) fetch_armed: bool,
    /// Resend ticks since the start; rotates whom to ask.
    pub(super) ticks: u64,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct OwnMessages {
    pub ask: Option<Verified<Message>>,
    pub view_change: Option<Verified<Message>>,
    pub acknowledge: Option<Verified<Message>>,
    pub enter: Option<Verified<Message>>,
}

impl Protocol for MinBft {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "minbft",
        replicas_factor: 2,
        speculative: false,
        source: "Efficient Byzantine fault tolerance, section 4",
    };

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Message,
    ) -> Result<(), Reject> {
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        let in_bounds = |slot: &Slot| if slot.0 > 0 { Ok(()) } else { Err(Reject::OutOfBounds) };
        match message {
            Message::Prepare { view, slot, proposal } => {
                role(primary(view)).and_then(|()| in_bounds(slot))?;
                batch(verifier, proposal)
            }
            Message::Commit { view, slot, .. } => {
                role(!primary(view)).and_then(|()| in_bounds(slot))
            }
            Message::ViewChange(change) => {
                let ui = tag.ui().ok_or(Reject::WrongTag)?;
                change.validate(Check::new(membership, verifier), ui)
            }
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate(Check::new(membership, verifier))
            }
            Message::Acknowledge { view, .. } => role(!primary(view)),
            Message::Stable(proof) => validate_checkpoint(proof, Check::new(membership, verifier)),
            Message::Forward(envelope) | Message::Envelope(envelope) => {
                requests(verifier, core::iter::once(envelope))
            }
            Message::Body(proposal) => batch(verifier, proposal),
            Message::Checkpoint { slot, .. } => in_bounds(slot),
            Message::RequestViewChange { .. }
            | Message::Enter { .. }
            | Message::Report(_)
            | Message::AskBody { .. }
            | Message::AskEnvelope { .. } => Ok(()),
        }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        let Setup { me, membership, fetch, memory, tuning } = setup;
        let fits = membership.check(&Self::RULES);
        fits.expect("a host checks the membership before it starts a core");
        assert!(membership.contains(me), "a replica is a member of its group");
        assert!(tuning.window_slots <= WINDOW_SLOTS, "certificates are bounded by WINDOW_SLOTS");
        assert!(
            tuning.checkpoint_slots > 0 && tuning.window_slots >= 2 * tuning.checkpoint_slots,
            "ordering goes on while a checkpoint gathers votes"
        );
        let n = membership.n();
        let base = membership.base;
        let mut replica = Self {
            me,
            tuning,
            is_durable: memory != Memory::Volatile,
            now: Millis(0),
            view: View(0),
            phase: Phase::Entered,
            entered: View(0),
            entry: None,
            enters: Votes::default(),
            opening: None,
            view_changes: BTreeMap::new(),
            asks: Asks::new(n),
            own: OwnMessages::default(),
            unheard: Vec::new(),
            early: Vec::new(),
            doublings: 0,
            view_changes_count: 0,
            reason: "",
            window: Window::new(base.slot, tuning.window_slots),
            bodies: Bodies::default(),
            pending: Pending::default(),
            committed: if fetch.is_none() { base.slot } else { Slot(0) },
            next_slot: base.slot.next(),
            in_flight: 0,
            looping: BTreeSet::new(),
            clock_wait: None,
            request_timer: None,
            pace: Pace::new(n, membership.f),
            looked: None,
            liars: ReplicaSet::EMPTY,
            checkpoints: Checkpoints::new(n),
            stable: CheckpointProof::initial(base),
            reports: vec![None; n],
            answered: ReplicaSet::EMPTY,
            served: vec![Served::default(); n],
            resent: vec![(0, 0); n],
            showing: vec![Showing::default(); n],
            gap: None,
            resend_armed: false,
            fetch_armed: false,
            ticks: 0,
            membership,
        };
        if let Some(from) = fetch {
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
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
        }
    }

    fn is_moot(&self, author: ReplicaId, message: &Message) -> bool {
        self.says_nothing_new(author, message)
    }

    fn assert_invariants(&self) {
        assert!(self.entered <= self.view);
        assert_eq!(self.entered == self.view, self.phase == Phase::Entered);
        assert_eq!(self.entry.as_ref().map(|entry| entry.view).unwrap_or_default(), self.entered);
        assert_eq!(self.window.low(), self.stable.slot);
        assert!(self.next_slot > self.window.low());
        assert!(self.early.len() <= self.membership.n() * self.tuning.window_slots as usize);
        assert!(self.bodies.len() <= (self.membership.n() + 2) * WINDOW_SLOTS as usize);
        assert!(self.unheard.len() <= self.tuning.window_slots as usize + REPLICAS_MAX);
        self.pending.assert_invariants();
        self.pace.assert_invariants();
        for (slot, state) in self.window.iter() {
            assert!(!state.decided || state.batch.is_some(), "{slot} is decided without a batch");
            assert!(state.own_commit.is_none() || slot < self.next_slot);
        }
    }

    fn status(&self) -> Status {
        let reported = self.reports.iter().flatten().map(|report| report.committed);
        let phase = match self.phase {
            Phase::Entered if self.committed < self.stable.slot => "catching-up",
            Phase::Entered => "normal",
            Phase::Draining => "draining",
            Phase::Changing | Phase::Opening => "changing",
            Phase::Acknowledged => "entering",
        };
        Status {
            view: self.view,
            primary: self.membership.primary(self.view),
            phase,
            committed: self.committed,
            stable: self.stable.slot,
            peers_committed: vouched(reported, self.membership.f),
            waiting: self.pending.len(),
            view_changes: self.view_changes_count,
            reason: self.reason,
        }
    }
}

impl MinBft {
    pub(super) fn quorum(&self) -> usize {
        self.membership.quorums().hybrid_quorum()
    }

    pub(super) fn weak(&self) -> usize {
        self.membership.quorums().weak()
    }

    /// Whether this replica orders now.
    pub(super) fn is_primary(&self) -> bool {
        self.phase == Phase::Entered && self.membership.primary(self.view) == self.me
    }

    pub(super) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        let author = verified.author;
        if author == self.me {
            self.heard(&message);
        }
        match &*message {
            Message::Prepare { view, slot, .. } => self.on_prepare(verified, *view, *slot, out),
            Message::Commit { view, slot, batch } => {
                self.on_commit(verified, *view, *slot, *batch, out);
            }
            Message::RequestViewChange { view } => {
                self.on_request_view_change(&verified, *view, out);
            }
            Message::ViewChange(change) => self.on_view_change(verified, change, out),
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Acknowledge { view, opening } => {
                self.on_acknowledge(&verified, *view, opening, out);
            }
            Message::Enter { view, opening } => self.on_enter(verified, *view, *opening, out),
            Message::Checkpoint { slot, state } => {
                self.on_checkpoint(&verified, *slot, *state, out);
            }
            Message::Stable(proof) => self.on_stable(proof.clone(), out),
            Message::Report(report) => self.on_report(author, *report, out),
            Message::Forward(envelope) => {
                out.output(Output::Admit { envelope: envelope.clone() });
            }
            Message::AskBody { batch } => self.on_ask_body(author, batch, out),
            Message::Body(proposal) => self.on_body(author, proposal, out),
            Message::AskEnvelope { envelope } => self.on_ask_envelope(author, envelope, out),
            Message::Envelope(envelope) => self.on_envelope(envelope, out),
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
        }
    }

    fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Request { envelope, settled } => self.on_request(envelope, settled, out),
            Input::Round { now } => {
                self.now = self.now.max(now);
                self.clock_moved(out);
                self.propose(out);
                self.look(out);
            }
            Input::Checkpointed { slot, state } => self.on_checkpointed(slot, state, out),
            Input::Installed { slot } => self.on_installed(slot, out),
        }
    }

    /// A client's envelope. The primary proposes it at the end of the round; a backup gives the
    /// primary until the timer runs out (MinBFT section 4, view change).
    fn on_request(&mut self, envelope: Arc<Envelope>, settled: Vec<u64>, out: &mut Effects<Self>) {
        match self.pending.add(envelope.clone(), settled) {
            Added::Known => {}
            Added::Full => {
                mark!("minbft/full");
                out.output(Output::Full { envelope: envelope.clone() });
            }
            Added::New => {
                mark!("minbft/request");
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
            mark!("minbft/request_timeout");
            self.ask(self.view.next(), "a request was not ordered in time", out);
        }
    }
}
