//! The replica: its state, and where each event goes.

use super::certificate::{NewView, Prepared, Start, ViewChange};
use super::justification::JUSTIFICATION;
use super::message::{Certified, Message, Shared};
use super::record::Record;
use super::seal::Seal;
use super::statements::STATEMENTS;
use super::variant::{Decided, Tentative, Trusted, Variant};
use crate::common::certificate::Check;
use crate::common::checks::batch;
use crate::common::extent::Extent;
use crate::common::frame::Frame;
use crate::common::frame::changing::Changing;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Finality, Framed};
use crate::common::message::{Statements, in_bounds};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Protocol, Reject, Rules, Setup, Status};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::votes::Votes;
use pentarchy_core::window::Window;

/// What is known of a slot, in the view that was entered last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SlotState<S: Seal> {
    /// The batch it orders: by PRE-PREPARE, or taken over by the view.
    pub batch: Option<Digest>,
    /// The PRE-PREPARE.
    pub proposed: Option<Verified<Message<S>>>,
    /// Who voted for what; of a liar the last vote.
    pub votes: BTreeMap<ReplicaId, (Digest, S)>,
    /// This replica's own PREPARE, to send again.
    pub own_vote: Option<Verified<Message<S>>>,
    /// What this replica voted for, if a quorum voted for something else. It never votes twice.
    pub voted_otherwise: Option<Digest>,
    /// Whether a quorum voted for its batch; then this replica has sent COMMIT.
    pub prepared: bool,
    /// COMMITs.
    pub commits: Votes<Digest>,
    /// Whether a quorum committed.
    pub decided: bool,
}

impl<S: Seal> Default for SlotState<S> {
    fn default() -> Self {
        Self {
            batch: None,
            proposed: None,
            votes: BTreeMap::new(),
            own_vote: None,
            voted_otherwise: None,
            prepared: false,
            commits: Votes::default(),
            decided: false,
        }
    }
}

impl<S: Seal> SlotState<S> {
    /// The votes for a batch.
    pub fn votes_for(&self, batch: &Digest) -> impl Iterator<Item = (ReplicaId, S)> {
        let of_batch = self.votes.iter().filter(move |(_, (voted, _))| voted == batch);
        of_batch.map(|(id, (_, seal))| (*id, *seal))
    }
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
}

/// One replica of PBFT, or of one of its variants.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pbft<V: Variant = Decided> {
    pub(super) frame: Frame<Self>,
    pub(super) phase: Phase,
    /// The NEW-VIEW by which the view that it entered last was opened, to pass on; none for view 0.
    pub(super) opening: Option<Verified<Message<V::Seal>>>,
    /// What that view started from.
    pub(super) start: Start,
    /// What it says about the current view.
    pub(super) own: OwnMessages<V::Seal>,
    pub(super) window: Window<SlotState<V::Seal>>,
    /// The certificate of the highest view for each slot above the stable checkpoint. They outlast
    /// views: a VIEW-CHANGE shows them all.
    pub(super) certificates: BTreeMap<Slot, Prepared<V::Seal>>,
    /// Own proposals that have not come back, by slot.
    pub(super) awaiting_loopback: BTreeMap<Slot, Arc<Proposal>>,
    /// The last slot that was executed, if that may be taken back.
    pub(super) tried: Option<Tried>,
}

/// PBFT that executes what is prepared.
pub type TentativePbft = Pbft<Tentative>;

/// PBFT whose votes and view changes convince by trusted MACs.
pub type HybridPbft = Pbft<Trusted>;

/// A slot that was executed as it was prepared, and is not decided.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tried {
    /// Which.
    pub slot: Slot,
    /// What it ordered.
    pub batch: Arc<Batch>,
    /// How far it was to the next checkpoint before.
    pub extent: Extent,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct OwnMessages<S> {
    /// What VIEW-CHANGE shows, also before it comes back.
    pub left: Option<Arc<ViewChange<S>>>,
    /// The NEW-VIEW, until it comes back.
    pub opened: Option<Arc<NewView<S>>>,
}

impl<S> Default for OwnMessages<S> {
    fn default() -> Self {
        Self { left: None, opened: None }
    }
}

impl<V: Variant> Protocol for Pbft<V> {
    type Message = Message<V::Seal>;
    type Timer = Timer;
    type Record = Record<V::Seal>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = V::RULES;
    const JUSTIFICATION: Justification = JUSTIFICATION;

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Message<V::Seal>,
    ) -> Result<(), Reject> {
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        let check = || Check::new(membership, verifier);
        match message {
            Message::PrePrepare { view, slot, proposal } => {
                role(primary(view)).and_then(|()| in_bounds(*slot))?;
                batch(verifier, proposal)
            }
            Message::Prepare { slot, .. } | Message::Commit { slot, .. } => in_bounds(*slot),
            Message::ViewChange(change) => change.validate(check()),
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate(check())
            }
            Message::Shared(message) => {
                let vouching = Self::vouching(membership.quorums());
                message.validate(membership, verifier, &Self::STATEMENTS, vouching)
            }
        }
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Record<V::Seal>>,
        out: &mut Effects<Self>,
    ) -> Self {
        let mut replica = Self {
            frame: Frame::new(&setup),
            phase: Phase::Entered,
            opening: None,
            start: Start::default(),
            own: OwnMessages::default(),
            window: Window::new(setup.membership.base.slot, setup.tuning.window_slots),
            certificates: BTreeMap::new(),
            awaiting_loopback: BTreeMap::new(),
            tried: None,
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

    fn is_redundant(&self, author: ReplicaId, message: &Message<V::Seal>) -> bool {
        self.says_nothing_new(author, message)
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.frame.asks_to_leave()
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants(self.last_final());
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        assert_eq!(self.opening.is_some(), self.frame.entered > View(0));
        assert_eq!(self.window.low(), self.frame.stable.slot);
        assert!(self.tried.as_ref().is_none_or(|tried| tried.slot == self.frame.executed));
        let window = self.frame.tuning.window_slots as usize;
        assert!(self.certificates.len() <= window && self.awaiting_loopback.len() <= window);
        // In step with the window: a lookup for each slot is a third of all that is done here.
        let mut certificates = self.certificates.iter().peekable();
        for (slot, state) in self.window.iter() {
            assert!(!state.decided || state.batch.is_some(), "{slot} is decided without a batch");
            let certificate = certificates.next_if(|(certified, _)| **certified == slot);
            let proven = certificate.map(|(_, it)| (it.claim.view, it.claim.batch));
            let said = state.batch.map(|batch| (self.frame.entered, batch));
            assert!(!state.prepared || proven == said, "{slot} is prepared without proof");
        }
        assert!(certificates.next().is_none(), "there is a proof of no slot of the window");
    }

    fn status(&self) -> Status {
        self.frame.status("changing", self.last_final())
    }

    /// Everything that was ever prepared here: certificates outlast views and crashes, and what was
    /// prepared below the window is in the stable checkpoint. See *Queries* on the protocol's page.
    fn reads_from(&self) -> Slot {
        let prepared = self.certificates.last_key_value().map(|(slot, _)| *slot);
        let prepared = prepared.filter(|_| !mutant!("pbft.reads-before-prepared"));
        prepared.unwrap_or_default().max(self.window.low())
    }
}

impl<V: Variant> Pbft<V> {
    pub(super) fn on_message(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        out: &mut Effects<Self>,
    ) {
        let message = verified.message.clone();
        match &*message {
            Message::PrePrepare { view, slot, proposal } => {
                self.on_pre_prepare(verified, *view, *slot, proposal, out);
            }
            Message::Prepare { view, slot, batch } => {
                self.on_prepare(verified, *view, *slot, *batch, out);
            }
            Message::Commit { view, slot, batch } => {
                self.on_commit(verified, *view, *slot, *batch, out);
            }
            Message::ViewChange(change) => {
                self.on_leaving(verified, change.claims.view, &change.requests, out);
            }
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }
}

impl<V: Variant> Framed for Pbft<V> {
    type More = Certified;

    const STATEMENTS: Statements = STATEMENTS;
    /// Proposal, vote and COMMIT.
    const KINDS_PER_SLOT: usize = 3;
    const KINDS_OF_NO_SLOT: usize = 0;
    /// The proposal, our vote and our COMMIT.
    const REPEATED_PER_SLOT: usize = 3;

    fn quorum(quorums: Quorums) -> usize {
        V::Seal::quorum(quorums)
    }
    fn vouching(quorums: Quorums) -> usize {
        quorums.byzantine_quorum()
    }
    fn shared(message: Shared) -> Message<V::Seal> {
        Message::Shared(message)
    }
    fn kept(record: Kept) -> Record<V::Seal> {
        Record::Kept(record)
    }
    fn frame(&self) -> &Frame<Self> {
        &self.frame
    }
    fn frame_mut(&mut self) -> &mut Frame<Self> {
        &mut self.frame
    }
}
