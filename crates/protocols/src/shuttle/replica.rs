//! The replica: its state, and where each event goes.

use super::checking::Checking;
use super::log::{HELD_MAX, Log};
use super::marks::Marks;
use super::message::{Message, Order};
use super::mode::Mode;
use super::record::Record;
use super::statements::Marked;
use super::timer::Timer;
use crate::common::certificate::CheckpointProof;
use crate::common::checks::requests;
use crate::common::extent::Extent;
use crate::common::request_queue::{Added, RequestQueue};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output, replying, slot_results, wedging};
use pentarchy_core::protocol::{
    Authority, Effects, Event, Protocol, Reject, Rules, Setup, Status, To, Tuning,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;

/// What a replica is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// Orders.
    Ordering,
    /// Fetches the state with which the epoch begins.
    Fetching,
    /// Had other results than those before it, and passes nothing on.
    Refusing,
    /// Has stopped.
    Wedged,
}

/// Which timers run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Timing {
    pub tick: bool,
    pub returning: Option<Slot>,
    pub mark: Option<Slot>,
}

/// What was sent again since the last tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SentAgain {
    pub messages: usize,
    pub bytes: usize,
}

/// One replica of a chain.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shuttle<M: Mode> {
    pub(super) me: ReplicaId,
    pub(super) membership: Arc<Membership>,
    pub(super) tuning: Tuning,
    pub(super) now: Millis,
    pub(super) phase: Phase,
    /// Requests that clients gave to this replica and that it has not ordered.
    pub(super) queue: RequestQueue,
    pub(super) log: Log<M>,
    /// The last slot that a full replica has had executed.
    pub(super) executing: Slot,
    /// Bytes that were ordered since the stable checkpoint.
    pub(super) extent: Extent,
    /// What the predecessor sent and this replica cannot order yet.
    pub(super) held: BTreeMap<Slot, Arc<Order<M>>>,
    /// The last slot that is known to be ordered by all.
    pub(super) done: Slot,
    /// The tags of all behind this replica over what was ordered up to there; none if a checkpoint
    /// or nobody says that it is done.
    pub(super) done_tags: Option<Vec<M::Tag>>,
    pub(super) stable: CheckpointProof<Marked>,
    pub(super) marks: Marks,
    pub(super) timing: Timing,
    /// To each neighbour.
    pub(super) sent_again: BTreeMap<ReplicaId, SentAgain>,
}

impl<M: Mode> Protocol for Shuttle<M> {
    type Message = Message<M>;
    type Timer = Timer;
    type Record = Record<M>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: M::NAME,
        fault_model: M::FAULT_MODEL,
        group_size: M::GROUP_SIZE,
        quorum: QuorumRule::All,
        replies: Count::per_fault_and_one(if M::TAIL_TELLS { 0 } else { 1 }),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: true,
        replies_itself: true,
        authority: Authority::Service,
        counter: None,
    };

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Message<M>,
    ) -> Result<(), Reject> {
        let check = Checking { membership, verifier, author };
        match message {
            Message::Order(order) => check.order(order),
            Message::Done { upto, history, tags } => check.done::<M>(*upto, history, tags),
            Message::Mark { slot, marked, signatures } => {
                let signatures = signatures.iter().map(|it| &it.0);
                check.mark(*slot, marked, signatures)
            }
            Message::Stable(proof) => check.stable(proof),
            Message::Level(_) => Ok(()),
            Message::Forward(envelope) => requests(verifier, core::iter::once(envelope)),
        }
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Record<M>>,
        out: &mut Effects<Self>,
    ) -> Self {
        let base = setup.membership.base;
        let stable: CheckpointProof<Marked> = CheckpointProof::initial(base);
        let mut replica = Self {
            me: setup.me,
            membership: setup.membership.clone(),
            tuning: setup.tuning,
            now: Millis(0),
            phase: Phase::Ordering,
            queue: RequestQueue::default(),
            log: Log::new(base.slot, stable.state.history),
            executing: base.slot,
            extent: Extent::default(),
            held: BTreeMap::new(),
            done: base.slot,
            done_tags: None,
            stable,
            marks: Marks::default(),
            timing: Timing::default(),
            sent_again: BTreeMap::new(),
        };
        replica.begin(&setup, log, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        if self.phase == Phase::Wedged {
            // What it keeps again is its report, and that it has stopped.
            let compacts = matches!(event, Event::Input(Input::Compact));
            if compacts && !mutant!("shuttle.end-not-kept-again") {
                self.keep_again(out);
            }
            return;
        }
        match event {
            Event::Message(message) => self.on_message(&message, out),
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
            // The ingress refuses it: clients of this protocol only ask.
            Event::Client(..) => {}
        }
        if self.phase != Phase::Wedged {
            self.retime(out);
        }
    }

    fn is_witness(&self) -> bool {
        !self.is_full(self.me)
    }

    fn assert_invariants(&self) {
        let ordered = self.log.ordered();
        assert!(self.stable.slot <= self.done && self.done <= ordered);
        assert_eq!(self.log.history_at(self.stable.slot), Some(self.stable.state.history));
        assert!(self.marks.due.iter().all(|slot| *slot > self.stable.slot && *slot <= ordered));
        assert!(self.marks.marked <= ordered && self.executing <= ordered);
        assert!(self.held.len() <= HELD_MAX);
        assert!(self.held.keys().all(|slot| *slot > ordered));
    }

    fn status(&self) -> Status {
        let phase = match self.phase {
            Phase::Ordering => "normal",
            Phase::Fetching => "catching-up",
            Phase::Refusing => "refusing",
            Phase::Wedged => "wedged",
        };
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase,
            committed: self.done,
            stable: self.stable.slot,
            peers_committed: self.done,
            waiting: self.queue.len(),
            view_changes: 0,
            reason: "",
        }
    }
}

impl<M: Mode> Shuttle<M> {
    fn on_message(&mut self, verified: &Verified<Message<M>>, out: &mut Effects<Self>) {
        let author = verified.author;
        match &*verified.message {
            Message::Order(order) => self.on_order(author, &verified.tag, order, out),
            Message::Done { upto, history, tags } => {
                let own = M::tag(&verified.tag);
                let tags = own.into_iter().chain(tags.iter().cloned()).collect();
                self.on_done(author, (*upto, *history), tags, out);
            }
            Message::Mark { slot, marked, signatures } => {
                let own = verified.tag.signature().copied();
                self.on_mark(author, (*slot, *marked), signatures, own, out);
            }
            Message::Stable(proof) => self.on_stable(proof, out),
            Message::Level(level) => self.on_level(author, *level, out),
            Message::Forward(envelope) if self.is_full(self.me) => {
                out.output(Output::Admit { envelope: envelope.clone() });
            }
            Message::Forward(_) => {}
        }
    }

    fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Request { envelope, settled, passed_on } => {
                self.on_request(envelope, settled, passed_on, out);
            }
            Input::Round { now } => {
                self.now = self.now.max(now);
                self.advance(out);
                self.propose(out);
            }
            Input::Checkpointed { slot, state } => self.on_checkpointed(slot, state, out),
            Input::Installed { .. } => {
                if self.phase == Phase::Fetching {
                    self.phase = Phase::Ordering;
                    self.advance(out);
                }
            }
            Input::Compact => self.keep_again(out),
            Input::SlotResults(slot_results::Input::Executed { slot, results }) => {
                self.on_results(slot, results, out);
            }
            Input::Replying(replying::Input::Asked { client, replies }) => {
                self.on_asked(client, replies, out);
            }
            Input::Wedging(wedging::Input::Wedge) => self.wedge(out),
            // It has neither asked for these, nor does it speculate.
            Input::Speculation(_) | Input::Pillar(_) => {}
        }
    }

    fn on_request(
        &mut self,
        envelope: Arc<Envelope>,
        settled: Vec<u64>,
        passed_on: bool,
        out: &mut Effects<Self>,
    ) {
        // A witness does not know what is settled, so it cannot tell what to wait for.
        if !self.is_full(self.me) {
            return out.send(To::One(ReplicaId(0)), Message::Forward(envelope));
        }
        let (added, displaced) = if passed_on {
            self.queue.add_passed_on(envelope.clone(), settled)
        } else {
            (self.queue.add(envelope.clone(), settled), Vec::new())
        };
        let full = (added == Added::Full).then_some(envelope);
        for envelope in full.into_iter().chain(displaced) {
            out.output(Output::Full { envelope });
        }
    }
}

/// Places in the chain.
impl<M: Mode> Shuttle<M> {
    pub(super) const fn is_head(&self) -> bool {
        self.me.0 == 0
    }

    pub(super) fn is_tail(&self) -> bool {
        usize::from(self.me.0) + 1 == self.membership.n()
    }

    /// Whether a replica executes: the first `f + 1` do.
    pub(super) fn is_full(&self, id: ReplicaId) -> bool {
        usize::from(id.0) <= self.membership.f
    }

    pub(super) fn is_last_full(&self) -> bool {
        usize::from(self.me.0) == self.membership.f
    }

    pub(super) fn predecessor(&self) -> Option<ReplicaId> {
        self.me.0.checked_sub(1).map(ReplicaId)
    }

    pub(super) fn successor(&self) -> Option<ReplicaId> {
        (!self.is_tail()).then_some(ReplicaId(self.me.0 + 1))
    }
}
