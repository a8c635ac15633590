//! The replica: its state, and where each event goes.

use super::certificate::{Committed, Confirmed, ViewChange, extended};
use super::justification::JUSTIFICATION;
use super::message::{Message, Shared, Standing};
use super::new_view::NewView;
use super::record::Record;
use super::start::Start;
use super::statements::STATEMENTS;
use super::table::Table;
use super::variant::{Three, Variant};
use crate::common::certificate::Check;
use crate::common::checks::batch;
use crate::common::frame::Frame;
use crate::common::frame::changing::Changing;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Framed, StateOf};
use crate::common::message::{Statements, in_bounds};
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature, Verified, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Protocol, Reject, Rules, Setup, Status};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::votes::Votes;
use pentarchy_core::window::Window;

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
    /// Clients with something in it that found that not all answer.
    pub doubts: BTreeSet<ClientId>,
}

/// What is known of a slot that left the window.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PastSlot {
    /// The history up to there.
    pub history: Digest,
    /// Clients with something in it that have not said that not all answer, where that counts.
    pub content: BTreeSet<ClientId>,
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

/// One replica of Zyzzyva, or of one of its variants.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Zyzzyva<V: Variant = Three> {
    pub(super) frame: Frame<Self>,
    pub(super) table: Table,
    pub(super) phase: Phase,
    /// The NEW-VIEW by which the view that it entered last was opened, and the proof that a quorum
    /// agreed on what follows; none for view 0.
    pub(super) opening: Option<(Verified<Message>, Arc<Confirmed>)>,
    /// What that view began with.
    pub(super) start: Start,
    /// The NEW-VIEW for the view, and what follows from it, until it is entered.
    pub(super) proposed: Option<(Verified<Message>, Start)>,
    /// Who confirmed what for the view.
    pub(super) confirms: BTreeMap<ReplicaId, (Slot, Digest, Signature)>,
    /// Proof of what the view begins with, until its NEW-VIEW is here.
    pub(super) agreed: Option<Arc<Confirmed>>,
    /// What it says about the current view.
    pub(super) own: OwnMessages,

    pub(super) window: Window<SlotState>,
    /// The commit certificate of the highest slot, of the view that was entered last.
    pub(super) certificate: Option<Arc<Committed>>,
    /// After a crash, how far this replica may have told others that it had come in that view.
    pub(super) shown: Slot,
    /// The last slot that is final; nothing up to there is taken back.
    pub(super) last_final: Slot,
    /// The histories at slots above the stable checkpoint up to which everything became final here
    /// at once.
    pub(super) finals: BTreeMap<Slot, Digest>,
    /// Slots that left the window, for clients that ask late: one window of them.
    pub(super) past: BTreeMap<Slot, PastSlot>,
    /// Ticks for which this replica votes for everything that it executes, as clients found that
    /// not all answer.
    pub(super) committing: u8,
    /// Of how many clients this replica told something at once in the last ticks, each tick
    /// counting half of the next one, and how many of these found that not all answer.
    pub(super) told: usize,
    pub(super) doubted: usize,
    /// What was executed while it does, and clients were not told yet.
    pub(super) held: BTreeSet<Slot>,
    /// The slot behind which a state above the window was installed, with the history up to there.
    pub(super) landed: Option<(Slot, Digest)>,
    /// Whether execution is at a state whose history is not known; another one is to be fetched.
    pub(super) is_stranded: bool,
    /// Whether a stable checkpoint contradicts what this replica ordered as primary of its view.
    pub(super) is_overruled: bool,
    /// A checkpoint is due behind this slot, and waits until it is final. Nothing is executed
    /// meanwhile.
    pub(super) halted: Option<Slot>,
    /// What was executed at the last tick.
    pub(super) at_tick: Slot,
    /// Clients that wait for this replica's signature under a slot.
    pub(super) vouching: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Own orders that have not come back, by slot.
    pub(super) awaiting_loopback: BTreeMap<Slot, (Digest, Arc<Proposal>)>,
    /// The history before the slot that this primary orders in next.
    pub(super) tip: Digest,
    /// Peers that were shown orders since the last tick because their history differs.
    pub(super) disputed: ReplicaSet,
}

/// Own messages about the current view.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct OwnMessages {
    pub confirm: Option<Verified<Message>>,
    /// What VIEW-CHANGE shows, also before it comes back.
    pub left: Option<Arc<ViewChange>>,
    /// The NEW-VIEW, until it comes back.
    pub opened: Option<Arc<NewView>>,
    /// Whether this replica has confirmed what follows from the NEW-VIEW.
    pub confirmed: bool,
}

impl<V: Variant> Protocol for Zyzzyva<V> {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = V::KIND.rules();
    /// What is printed asks for less, and the museum shows what comes of that.
    const JUSTIFICATION: Justification =
        if V::KIND.printed { Justification::NONE } else { JUSTIFICATION };

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Message,
    ) -> Result<(), Reject> {
        let table = &Table::of(V::KIND, membership);
        let check = || Check::new(membership, verifier);
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        match message {
            Message::Order { view, slot, proposal, .. } => {
                role(primary(view)).and_then(|()| in_bounds(*slot))?;
                batch(verifier, proposal)
            }
            Message::ViewChange(change) => change.validate(check(), table),
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate(check(), table)
            }
            Message::Confirmed(proof) => proof.validate(check(), table),
            Message::Misbehaviour(proof) => proof.validate(check()),
            Message::Vote(place) | Message::Commit(place) => in_bounds(place.slot),
            Message::Confirm(_) => Ok(()),
            Message::Vouch { .. } | Message::Certificate(_) => Err(Reject::WrongRole),
            Message::Shared(message) => {
                message.validate(membership, verifier, &Self::STATEMENTS, table.quorum)
            }
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
                proof.validate(check, &Table::of(V::KIND, membership))
            }
            _ => Err(Reject::WrongRole),
        }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        let frame = Frame::<Self>::new(&setup);
        let (low, stable) = (setup.membership.base.slot, frame.stable.clone());
        let mut replica = Self {
            table: Table::of(V::KIND, &setup.membership),
            phase: Phase::Entered,
            opening: None,
            tip: stable.state.history,
            start: Start::empty(stable),
            proposed: None,
            confirms: BTreeMap::new(),
            agreed: None,
            own: OwnMessages::default(),
            window: Window::new(low, setup.tuning.window_slots),
            certificate: None,
            shown: Slot(0),
            last_final: frame.executed,
            finals: BTreeMap::new(),
            past: BTreeMap::new(),
            committing: 0,
            told: 0,
            doubted: 0,
            held: BTreeSet::new(),
            landed: None,
            is_stranded: false,
            is_overruled: false,
            halted: None,
            at_tick: Slot(0),
            vouching: BTreeMap::new(),
            awaiting_loopback: BTreeMap::new(),
            disputed: ReplicaSet::EMPTY,
            frame,
        };
        replica.begin(&setup, log, out);
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

    fn is_redundant(&self, author: ReplicaId, message: &Message) -> bool {
        self.says_nothing_new(author, message)
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.frame.asks_to_leave()
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants(self.last_final);
        let (low, executed) = (self.frame.stable.slot, self.frame.executed);
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        assert_eq!(self.opening.is_some(), self.frame.entered > View(0));
        assert_eq!(self.window.low(), low);
        assert!(self.landed.is_none_or(|(slot, _)| slot == low));
        assert!(self.last_final <= executed && executed <= self.window.high());
        assert!(executed < self.frame.next_slot);
        assert!(self.held.iter().all(|slot| (self.last_final.next()..=executed).contains(slot)));
        assert!(self.halted.is_none_or(|slot| slot == executed && slot > self.last_final));
        let window = self.frame.tuning.window_slots as usize;
        assert!(self.awaiting_loopback.len() <= window && self.vouching.len() <= window);
        assert!(self.past.len() <= window && self.past.keys().all(|slot| *slot <= low));
        assert!(self.finals.len() <= window && self.finals.keys().all(|slot| *slot > low));
        let mut history = self.frame.stable.state.history;
        for (slot, state) in self.window.iter().take_while(|(slot, _)| *slot <= executed) {
            let batch = state.batch.expect("what is executed is known");
            history = extended(&history, &batch);
            assert_eq!(state.history, Some(history), "{slot} rests on what comes before it");
        }
        if let Some(certificate) = &self.certificate {
            assert_eq!(certificate.place.view, self.frame.entered);
        }
    }

    fn status(&self) -> Status {
        let changing = match self.phase {
            Phase::Confirming => "entering",
            Phase::Entered | Phase::Changing | Phase::Opening => "changing",
        };
        self.frame.status(changing, self.last_final)
    }
}

impl<V: Variant> Zyzzyva<V> {
    /// The history up to a slot, if it was executed here and is not below the window.
    pub(super) fn history(&self, slot: Slot) -> Option<Digest> {
        if let Some((_, history)) = self.landed.filter(|(at, _)| *at == slot) {
            return Some(history);
        }
        let stable = &self.frame.stable;
        if slot == stable.slot {
            return (self.frame.executed >= slot).then_some(stable.state.history);
        }
        self.window.get(slot).and_then(|state| state.history)
    }

    pub(super) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        match &*message {
            Message::Order { view, slot, proposal, .. } => {
                self.on_order(verified, *view, *slot, proposal, out);
            }
            Message::Vote(place) => self.on_vote(verified, *place, out),
            Message::Commit(place) => self.on_commit(verified, *place, out),
            Message::ViewChange(change) => {
                self.on_leaving(verified, change.view, &change.requests, out);
            }
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Confirm(place) => self.on_confirm(verified, *place, out),
            Message::Confirmed(proof) => self.on_confirmed(proof.clone(), out),
            Message::Misbehaviour(proof) => self.on_misbehaviour(proof, out),
            // The ingress refuses it from replicas.
            Message::Vouch { .. } | Message::Certificate(_) => {}
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }
}

impl<V: Variant> Framed for Zyzzyva<V> {
    type More = Standing;

    const STATEMENTS: Statements = STATEMENTS;
    /// Order, vote and COMMIT.
    const KINDS_PER_SLOT: usize = 3;
    const KINDS_OF_NO_SLOT: usize = 0;
    /// The order, our vote and our COMMIT.
    const REPEATED_PER_SLOT: usize = 3;

    fn quorum(quorums: Quorums) -> usize {
        Table::new(V::KIND, quorums).members
    }
    fn vouching(quorums: Quorums) -> usize {
        Table::new(V::KIND, quorums).quorum
    }
    fn shared(message: Shared) -> Message {
        Message::Shared(message)
    }
    fn kept(record: Kept<StateOf<Self>>) -> Record {
        Record::Kept(record)
    }
    fn frame(&self) -> &Frame<Self> {
        &self.frame
    }
    fn frame_mut(&mut self) -> &mut Frame<Self> {
        &mut self.frame
    }
}
