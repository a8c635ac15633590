//! The replica: its state, and where each event goes.

use super::certificate::{CertifiedViewChange, Entry, NewView, ViewChange, ViewChanges};
use super::justification::JUSTIFICATION;
use super::message::{Message, Shared, Steps};
use super::record::Record;
use super::statements::TERMS;
use crate::common::certificate::Check;
use crate::common::counters::Counted;
use crate::common::counters::certificate::Opened;
use crate::common::counters::order::Order;
use crate::common::counters::record::Noted;
use crate::common::counters::slots::Slots;
use crate::common::frame::Frame;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Finality, Framed};
use crate::common::message::Statements;
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::counter::{Counter, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Protocol, Reject, Rules, Setup, Status,
};
use pentarchy_core::quorum::{Count, QuorumRule, Quorums, ReadRule};
use pentarchy_core::votes::Votes;

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
    /// NEW-VIEWs whose batches are not all here: of each primary that of its highest view, and of
    /// each peer that of the view of which it says that it accepted it last.
    pub(super) candidates: BTreeMap<View, Verified<Message>>,
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
    /// Who acknowledged the NEW-VIEW of which view: of each replica the highest, and those of the
    /// views that VIEW-CHANGEs for the wanted one come from.
    pub(super) acknowledged: BTreeMap<(View, ReplicaId), Verified<Message>>,
    /// Its last VIEW-CHANGE, until it enters a view.
    pub(super) said: Option<Said>,
    /// Its commitment to the NEW-VIEW of the view that it entered last, to send again.
    pub(super) own_enter: Option<Verified<Message>>,
    /// What is ordered in the view that was entered last.
    pub(super) slots: Slots<Self>,
}

/// An own VIEW-CHANGE.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Said {
    /// The message. This replica holds what it shows.
    pub change: Arc<ViewChange>,
    /// The NEW-VIEW of the view that it comes from, unless that is view 0.
    pub origin: Option<Verified<Message>>,
}

impl Protocol for Hybster {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "hybster",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Trinx),
    };

    const JUSTIFICATION: Justification = JUSTIFICATION;

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
            Message::Order(order) => order.validate(membership, verifier, author),
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
                message.validate(membership, verifier, &TERMS.signed, vouching)
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
            said: None,
            own_enter: None,
            slots: Slots::new(setup.membership.base.slot, setup.tuning.window_slots),
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

    fn is_redundant(&self, author: ReplicaId, message: &Message) -> bool {
        self.says_nothing_new(author, message)
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.frame.asks_to_leave()
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants(self.last_final());
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        let view = |opening: &Option<Opening>| opening.as_ref().map(|it| it.entry.view());
        assert_eq!(view(&self.opening).unwrap_or_default(), self.frame.entered);
        assert!(view(&self.later).is_none_or(|later| later > self.frame.entered));
        assert!(self.from() <= self.frame.view && self.left <= self.frame.view);
        assert!(self.left >= self.frame.entered);
        let asks = || self.frame.view_requests.proof(self.left.next(), self.frame.weak()).len();
        let takes_along = self.left == self.frame.view || asks() == self.frame.weak();
        assert!(takes_along, "wants {} and cannot say why", self.frame.view);
        self.slots.assert_invariants(&self.frame);
        // However many views have failed.
        let n = self.frame.membership.n();
        assert!(self.heard.len() <= 3 * n);
        assert!(self.candidates.len() <= 2 * n && self.handed.len() <= n);
        assert!(self.acknowledged.len() <= n * (n + 1));
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
            self.slots.heard_own(&message);
        }
        match &*message {
            Message::Order(order) => self.on_order(verified, order, out),
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
        self.accepted().map_or(View(0), |opening| opening.entry.view())
    }
}

impl Framed for Hybster {
    type More = Steps;

    const STATEMENTS: Statements = TERMS.signed;
    /// PREPARE or COMMIT; a lying primary may say both.
    const KINDS_PER_SLOT: usize = 2;
    /// ENTER.
    const KINDS_OF_NO_SLOT: usize = 1;
    const REPEATED_PER_SLOT: usize = 1;

    fn quorum(quorums: Quorums) -> usize {
        Self::RULES.quorum.size(quorums)
    }
    /// What is kept of each view change names so many: the own VIEW-CHANGE, what that rests on, two
    /// NEW-VIEWs that were accepted and those that may be, VIEW-CHANGEs for three views, and what
    /// each peer gives to leave one. Most of that names the same.
    fn windows_held(quorums: Quorums) -> usize {
        let (n, quorum) = (quorums.n, Self::quorum(quorums));
        5 + quorum + 5 * n + n * quorum
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

impl Counted for Hybster {
    type Entry = Entry;

    fn order(order: Order) -> Message {
        Message::Order(order)
    }
    fn as_order(message: &Message) -> Option<&Order> {
        if let Message::Order(order) = message { Some(order) } else { None }
    }
    fn as_change(message: &Message) -> Option<&Arc<ViewChange>> {
        if let Message::ViewChange(change) = message { Some(change) } else { None }
    }
    fn noted(record: Noted<Message>) -> Record {
        Record::Noted(record)
    }
}
