//! The replica: its state, and where each event goes.

use super::certificate::Entry;
use super::message::{Message, STATEMENTS, Shared, Steps};
use super::record::Record;
use super::view_change::Opening;
use crate::common::certificate::Check;
use crate::common::checks::batch;
use crate::common::frame::Frame;
use crate::common::frame::changing::Changing;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Framed, Settles};
use crate::common::message::{Statements, in_bounds};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
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
    pub(super) frame: Frame<Self>,
    pub(super) phase: Phase,
    /// How the view that it entered last was opened; none for view 0.
    pub(super) entry: Option<Entry>,
    /// ENTERs for that view; a quorum decides what it took over.
    pub(super) enters: Votes<Digest>,
    /// A NEW-VIEW that is being acknowledged, or that opened the view that it is in.
    pub(super) opening: Option<Opening>,
    /// Own messages about the view, to send again: acknowledgement, ENTER.
    pub(super) own: OwnMessages,
    /// What it had in the view that it is about to leave, while it waits for its own PREPAREs: if
    /// it crashes now, it is in there again, and others may need that.
    pub(super) behind: Option<Behind>,
    /// Own PREPAREs, VIEW-CHANGEs and NEW-VIEWs that have not come back, if records are kept: until
    /// then nothing else holds them.
    pub(super) unheard: Vec<Message>,
    pub(super) window: Window<SlotState>,
    /// Proposals of this primary, in this view, that are not decided.
    pub(super) in_flight: u64,
    /// PREPAREs of this primary that have not come back by loopback.
    pub(super) looping: BTreeSet<(View, Slot)>,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct OwnMessages {
    pub acknowledge: Option<Verified<Message>>,
    pub enter: Option<Verified<Message>>,
}

/// What a replica had in a view that it has not quite left.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Behind {
    /// The NEW-VIEW by which the view was opened; none for view 0.
    pub opening: Option<Opening>,
    /// Own messages about the view.
    pub own: OwnMessages,
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
        counter: Counter::Usig,
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
                role(primary(&opening.view))?;
                opening.validate(check())
            }
            Message::Acknowledge { view, .. } => role(!primary(view)),
            Message::Enter { .. } => Ok(()),
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
            entry: None,
            enters: Votes::default(),
            opening: None,
            own: OwnMessages::default(),
            behind: None,
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
        let entry = self.entry.as_ref().map(|entry| entry.view);
        assert_eq!(entry.unwrap_or_default(), self.frame.entered);
        assert_eq!(self.window.low(), self.frame.stable.slot);
        assert!(self.behind.is_none() || self.phase == Phase::Draining);
        assert!(self.unheard.len() <= self.frame.tuning.window_slots as usize + REPLICAS_MAX);
        for (slot, state) in self.window.iter() {
            assert!(!state.decided || state.batch.is_some(), "{slot} is decided without a batch");
            assert!(state.own_commit.is_none() || slot < self.frame.next_slot);
        }
    }

    fn status(&self) -> Status {
        let changing = match self.phase {
            Phase::Draining => "draining",
            Phase::Entered | Phase::Changing | Phase::Opening => "changing",
            Phase::Acknowledged => "entering",
        };
        self.frame.status(changing, self.last_final())
    }
}

impl MinBft {
    pub(super) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        if verified.author == self.frame.me {
            self.heard(&message);
        }
        match &*message {
            Message::Prepare { view, slot, .. } => self.on_prepare(verified, *view, *slot, out),
            Message::Commit { view, slot, batch } => {
                self.on_commit(verified, *view, *slot, *batch, out);
            }
            Message::ViewChange(change) => {
                self.on_leaving(verified, change.view, &change.requests, out);
            }
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Acknowledge { view, opening } => {
                self.on_acknowledge(&verified, *view, opening, out);
            }
            Message::Enter { view, opening } => self.on_enter(verified, *view, *opening, out),
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }
}

impl Framed for MinBft {
    type More = Steps;

    const STATEMENTS: Statements = STATEMENTS;
    /// PREPARE or COMMIT; a lying primary may say both.
    const KINDS_PER_SLOT: usize = 2;
    /// Acknowledgement and ENTER.
    const KINDS_OF_NO_SLOT: usize = 2;
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
