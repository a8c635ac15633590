//! The replica: its state, and where each event goes.

use super::certificate::{CertifiedViewChange, Entry, NewView, ViewChanges};
use super::message::{Message, STATEMENTS, Shared, Steps};
use super::record::Record;
use crate::common::certificate::Check;
use crate::common::checks::batch;
use crate::common::frame::Frame;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{ChangesViews, Framed, Settles};
use crate::common::message::{Statements, in_bounds};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature, Verified, Verifier};
use pentarchy_core::counter::{Counter, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Protocol, Reject, Rules, Setup, Status};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::votes::Votes;
use pentarchy_core::window::Window;

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
    /// Wants the view. May have sent VIEW-CHANGE for it, or may still lack what it needs for that.
    Changing,
    /// The new primary, which sent NEW-VIEW and waits for it to come back.
    Opening,
}

/// A NEW-VIEW that this replica accepted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Opening {
    /// The NEW-VIEW, to pass on.
    pub message: Verified<Message>,
    /// With what its view began.
    pub entry: Entry,
}

impl Opening {
    pub(super) fn new(
        message: Verified<Message>,
        opening: &NewView,
        ui: Ui,
        domain: &Domain,
    ) -> Self {
        Self { message, entry: opening.entry(ui, domain) }
    }
}

/// One Hybster replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hybster {
    pub(super) frame: Frame<Self>,
    pub(super) phase: Phase,
    /// How the view that it entered last was opened; none for view 0.
    pub(super) opening: Option<Opening>,
    /// A later NEW-VIEW, which it accepted when it had left that view already.
    pub(super) later: Option<Opening>,
    /// NEW-VIEWs whose batches are not all here, of each primary the one of its highest view.
    pub(super) candidates: BTreeMap<ReplicaId, Verified<Message>>,
    /// Commitments to what the view that it entered last took over.
    pub(super) enters: Votes<Digest>,
    /// The highest view below which it has said its last: it sent VIEW-CHANGE for it, entered it,
    /// or opened it.
    pub(super) left: View,
    /// By what it could leave for that view, if not by having accepted the NEW-VIEW before.
    pub(super) basis: Option<Arc<ViewChanges>>,
    /// VIEW-CHANGEs for `left`, for the view before the one that it wants, and for that.
    pub(super) heard: BTreeMap<(View, ReplicaId), CertifiedViewChange>,
    /// By what others could leave a view, of each the latest that it gave.
    pub(super) handed: BTreeMap<ReplicaId, Arc<ViewChanges>>,
    /// The highest view of which each replica acknowledged the NEW-VIEW.
    pub(super) acknowledged: BTreeMap<ReplicaId, (View, Signature)>,
    /// Own messages to send again.
    pub(super) own: OwnMessages,
    /// Own PREPAREs, VIEW-CHANGEs and NEW-VIEWs that have not come back, if records are kept: until
    /// then nothing else holds them.
    pub(super) unheard: Vec<Message>,
    pub(super) window: Window<SlotState>,
    /// Proposals of this primary, in this view, that are not decided.
    pub(super) in_flight: u64,
    /// PREPAREs of this primary that have not come back by loopback, and NEW-VIEWs, as of slot 0.
    pub(super) looping: BTreeSet<(View, Slot)>,
}

/// Own messages about views.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct OwnMessages {
    /// The commitment to the NEW-VIEW of the view that it entered last.
    pub enter: Option<Verified<Message>>,
    /// The acknowledgement of the later one.
    pub acknowledge: Option<Verified<Message>>,
}

impl Protocol for Hybster {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "hybster",
        replicas_factor: 2,
        speculative: false,
        counter: Counter::Trinx,
        source: "Hybrids on Steroids: SGX-Based High Performance BFT, section 5.2",
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
        let check = || Check::new(membership, verifier);
        match message {
            Message::Prepare { view, slot, proposal } => {
                role(primary(view)).and_then(|()| in_bounds(*slot))?;
                batch(verifier, proposal)
            }
            Message::Commit { view, slot, .. } => {
                role(!primary(view)).and_then(|()| in_bounds(*slot))
            }
            Message::ViewChange(change) => {
                let ui = tag.ui().ok_or(Reject::WrongTag)?;
                change.validate(check(), ui)
            }
            Message::NewView(opening) => {
                role(primary(&opening.view()))?;
                opening.validate(check())
            }
            Message::Enter { view, .. } => role(!primary(view)),
            Message::Acknowledge { .. } => Ok(()),
            Message::ViewChanges(changes) => changes.validate(check()),
            Message::Shared(message) => {
                let vouching = Self::vouching(membership.quorums());
                message.validate(membership, verifier, &Self::STATEMENTS, vouching)
            }
        }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        let mut replica = Self {
            frame: Frame::new(&setup),
            phase: Phase::Entered,
            opening: None,
            later: None,
            candidates: BTreeMap::new(),
            enters: Votes::default(),
            left: View(0),
            basis: None,
            heard: BTreeMap::new(),
            handed: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            own: OwnMessages::default(),
            unheard: Vec::new(),
            window: Window::new(setup.membership.base.slot, setup.tuning.window_slots),
            in_flight: 0,
            looping: BTreeSet::new(),
        };
        replica.begin(&setup, log, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(message) => self.on_message(message, out),
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
            // Refused at the door: clients of this protocol only ask.
            Event::Client(..) => {}
        }
    }

    fn is_moot(&self, author: ReplicaId, message: &Message) -> bool {
        self.says_nothing_new(author, message)
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants();
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        let view = |opening: &Option<Opening>| opening.as_ref().map(|it| it.entry.view);
        assert_eq!(view(&self.opening).unwrap_or_default(), self.frame.entered);
        assert!(view(&self.later).is_none_or(|later| later > self.frame.entered));
        assert!(self.from() <= self.frame.view && self.left <= self.frame.view);
        assert!(self.left >= self.frame.entered);
        assert_eq!(self.window.low(), self.frame.stable.slot);
        // However many views have failed.
        let n = self.frame.membership.n();
        assert!(self.heard.len() <= 3 * n);
        assert!(self.candidates.len().max(self.handed.len()) <= n);
        assert!(self.unheard.len() <= self.frame.tuning.window_slots as usize + REPLICAS_MAX);
        for (slot, state) in self.window.iter() {
            assert!(!state.decided || state.batch.is_some(), "{slot} is decided without a batch");
            assert!(state.own_commit.is_none() || slot < self.frame.next_slot);
        }
    }

    fn status(&self) -> Status {
        let changing = match self.phase {
            Phase::Entered | Phase::Opening => "changing",
            Phase::Changing if self.left < self.frame.view => "leaving",
            Phase::Changing => "changing",
        };
        self.frame.status(changing, self.last_final())
    }
}

impl Hybster {
    pub(super) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        if verified.author == self.frame.me {
            self.heard_own(&message);
        }
        match &*message {
            Message::Prepare { view, slot, .. } => self.on_prepare(verified, *view, *slot, out),
            Message::Commit { view, slot, batch } => {
                self.on_commit(verified, *view, *slot, *batch, out);
            }
            Message::ViewChange(change) => self.on_view_change(verified, change, out),
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Enter { view, opening } => self.on_enter(verified, *view, *opening, out),
            Message::Acknowledge { view } => self.on_acknowledge(verified, *view, out),
            Message::ViewChanges(changes) => self.on_view_changes(verified.author, changes, out),
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }

    /// How the last view was opened whose NEW-VIEW it accepted; none for view 0.
    pub(super) fn accepted(&self) -> Option<&Opening> {
        self.later.as_ref().or(self.opening.as_ref())
    }

    /// The last view whose NEW-VIEW it accepted; the paper's `v_from`.
    pub(super) fn from(&self) -> View {
        self.accepted().map_or(View(0), |opening| opening.entry.view)
    }

    /// With what the view began that it entered last.
    pub(super) fn entry(&self) -> Option<&Entry> {
        self.opening.as_ref().map(|opening| &opening.entry)
    }

    /// Moves the window. Slots that come into it may be among those that the view took over.
    pub(super) fn advance_window(&mut self, low: Slot) {
        let before = self.window.high();
        self.window.advance(low);
        let Some(entry) = self.entry().cloned() else { return };
        let decided = self.enters.voters().len() >= self.frame.quorum();
        for slot in (before.0 + 1..=self.window.high().0.min(entry.end().0)).map(Slot) {
            if let (Some(state), Some(batch)) = (self.window.get_mut(slot), entry.batch(slot)) {
                state.batch = Some(batch);
                state.decided = decided;
                self.frame.bodies.want(slot, batch);
            }
        }
    }

    /// The last slot that the view took over that it entered last.
    pub(super) fn end_of_entry(&self) -> Slot {
        ChangesViews::taken_over(self)
    }
}

impl Framed for Hybster {
    type More = Steps;

    const STATEMENTS: Statements = STATEMENTS;
    /// PREPARE or COMMIT; a lying primary may say both.
    const KINDS_PER_SLOT: usize = 2;
    /// ENTER.
    const KINDS_OF_NO_SLOT: usize = 1;
    const REPEATED_PER_SLOT: usize = 1;

    fn quorum(quorums: Quorums) -> usize {
        quorums.hybrid_quorum()
    }
    fn vouching(quorums: Quorums) -> usize {
        quorums.weak()
    }
    fn shared(message: Shared) -> Message {
        Message::Shared(message)
    }
    fn kept(record: Kept) -> Record {
        Record::Kept(record)
    }
    fn frame(&self) -> &Frame<Self> {
        &self.frame
    }
    fn frame_mut(&mut self) -> &mut Frame<Self> {
        &mut self.frame
    }
}
