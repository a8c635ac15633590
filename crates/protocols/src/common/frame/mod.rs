//! What every replica with a primary has, whatever it is that its protocol agrees by: clients'
//! requests and batches, the view and who asks for another one, checkpoints, repair of loss, and an
//! eye on the primary.
//!
//! A core owns a [`Frame`] and calls its methods. Where the common part cannot go on without the
//! protocol, it asks the core: [`hooks`] is all that it asks.
//!
//! What it knows is in *components*, whose fields are private and whose methods return decisions;
//! the frame turns these into effects. No component knows the frame or another one beside it.
//!
//! | component | what it decides |
//! | --- | --- |
//! | [`RequestQueue`] | what to propose, what to pass on, for which request the timer runs |
//! | [`BatchStore`] | which batches are whole, and what to ask for |
//! | [`ViewRequests`] | who asks for which view, and what this replica asks for |
//! | [`ViewChangeTimer`] | how long a view may take to begin |
//! | [`PrimaryMonitor`] | when to judge the primary, and whether it is suspected |
//! | [`SlotsToFill`] | up to where to order although nothing waits |
//! | [`AwaitedFinality`] | whether what somebody waits for is final in time |
//! | [`ClockWait`] | which proposal waits for our clock |
//! | [`Checkpoints`] | which states are proven, and where the next one is due |
//! | [`Peers`] | where each peer is, and what it may be sent |
//!
//! | module | what it does |
//! | --- | --- |
//! | [`events`] | where messages, timeouts and inputs go |
//! | `requests` | waiting requests, proposals, the clock by which backups judge |
//! | [`supply`] | batches and envelopes by digest: asking for them, giving them |
//! | [`execution`] | what is decided is executed in order |
//! | `filling` | slots that other cores wait for |
//! | [`checkpointing`] | signed states, stable ones, falling behind |
//! | [`changing`] | asking for views, and leaving for them |
//! | `judging` | slow primaries and proven liars |
//! | `redundancy` | what is not worth a check |
//! | [`repair`] | reports, and what they are answered with |
//! | [`resuming`] | going on from a log |
//! | [`waiting`] | waiting for what was executed to become final |

pub mod changing;
pub mod checkpointing;
pub mod events;
pub mod execution;
mod filling;
pub mod hooks;
mod judging;
mod redundancy;
pub mod repair;
mod requests;
pub mod resuming;
pub mod supply;
pub mod waiting;

use super::awaited_finality::AwaitedFinality;
use super::batch_store::BatchStore;
use super::certificate::CheckpointProof;
use super::checkpoint::Checkpoints;
use super::clock::ClockWait;
use super::message::Shared;
use super::peers::Peers;
use super::primary_monitor::PrimaryMonitor;
use super::request_queue::RequestQueue;
use super::slots_to_fill::SlotsToFill;
use super::view_change_timer::ViewChangeTimer;
use super::view_requests::ViewRequests;
use super::voted_bytes::VotedBytes;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use hooks::{Framed, StateOf};
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::{Effects, Memory, Setup, Status, To, Tuning};

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Frame<C: Framed> {
    /// Which replica this is.
    pub me: ReplicaId,
    /// The group.
    pub membership: Arc<Membership>,
    /// Sizes.
    pub tuning: Tuning,
    /// Whether its records outlive a crash.
    pub is_durable: bool,
    /// The host's clock.
    pub now: Millis,

    /// The view it is in or wants to enter.
    pub view: View,
    /// The view it entered last; `<= view`. What that orders fills the window.
    pub entered: View,
    /// VIEW-CHANGEs for `view`.
    pub view_changes: BTreeMap<ReplicaId, Verified<C::Message>>,
    /// Who asks for which view.
    pub view_requests: ViewRequests<C::Message>,
    /// The VIEW-CHANGE by which this replica left for `view`, once it has come back.
    pub own_view_change: Option<Verified<C::Message>>,
    /// Messages for `view` that came before this replica entered it, by slot, author and kind: the
    /// first of each stands. Those that are about no slot have slot 0.
    pub early: BTreeMap<(Slot, ReplicaId, &'static str), Verified<C::Message>>,
    /// How long the view may take to begin.
    pub view_change_timer: ViewChangeTimer,
    /// View changes since the start.
    pub view_changes_count: u64,
    /// Why the last one began.
    pub reason: &'static str,

    /// The batches of the window.
    pub bodies: BatchStore,
    /// What clients sent.
    pub requests: RequestQueue,
    /// The last slot that was handed to execution. It is final, unless the protocol executes
    /// before that.
    pub executed: Slot,
    /// The slot that this primary proposes next, or that this replica takes up next.
    pub next_slot: Slot,
    /// The last slot in which a commitment of its own came back, so that its log has it.
    pub spoken: Slot,
    /// What it voted for in its view and has not executed.
    pub voted_bytes: VotedBytes,
    /// The slot whose proposal waits for our clock.
    pub clock_wait: ClockWait,

    /// The last slot for which a proposal came.
    pub proposed: Slot,
    /// Slots that are to be ordered whether or not anything waits.
    pub to_fill: SlotsToFill,

    /// What it holds against the primary.
    pub monitor: PrimaryMonitor,
    /// What somebody waits for that is executed and not final.
    pub awaited: AwaitedFinality,

    /// Signed states.
    pub checkpoints: Checkpoints<StateOf<C>>,
    /// The highest stable checkpoint whose proof this replica acts on; the window's low mark.
    pub stable: CheckpointProof<StateOf<C>>,

    /// Where peers are, and what they were sent.
    pub peers: Peers<C::More>,
}

impl<C: Framed> Frame<C> {
    /// Of a replica that is in view 0 of an epoch.
    ///
    /// # Panics
    /// If the host did not check the membership, or tunes it so that it cannot work.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let Setup { me, ref membership, fetch, ref memory, tuning } = *setup;
        let fits = membership.check(&C::RULES);
        fits.expect("a host checks the membership before it starts a core");
        assert!(membership.contains(me), "a replica is a member of its group");
        assert!(tuning.window_slots <= WINDOW_SLOTS, "certificates are bounded by WINDOW_SLOTS");
        assert!(
            tuning.checkpoint_slots > 0 && tuning.window_slots >= 2 * tuning.checkpoint_slots,
            "ordering goes on while a checkpoint gathers votes"
        );
        let n = membership.n();
        let base = membership.base;
        Self {
            me,
            membership: membership.clone(),
            tuning,
            is_durable: *memory != Memory::Volatile,
            now: Millis(0),
            view: View(0),
            entered: View(0),
            view_changes: BTreeMap::new(),
            view_requests: ViewRequests::new(me, n),
            own_view_change: None,
            early: BTreeMap::new(),
            view_change_timer: ViewChangeTimer::new(base.slot),
            view_changes_count: 0,
            reason: "",
            bodies: BatchStore::default(),
            requests: RequestQueue::default(),
            executed: if fetch.is_none() { base.slot } else { Slot(0) },
            next_slot: base.slot.next(),
            spoken: Slot(0),
            voted_bytes: VotedBytes::default(),
            clock_wait: ClockWait::default(),
            proposed: Slot(0),
            to_fill: SlotsToFill::default(),
            monitor: PrimaryMonitor::new(me, n, membership.f),
            awaited: AwaitedFinality::default(),
            checkpoints: Checkpoints::new(n, &tuning),
            stable: CheckpointProof::initial(base),
            peers: Peers::new(me, (n, membership.f), C::REPEATED_PER_SLOT * WINDOW_SLOTS as usize),
        }
    }

    /// How many leave for a view, and open it.
    #[must_use]
    pub fn quorum(&self) -> usize {
        C::quorum(self.membership.quorums())
    }

    /// At least one of these is correct.
    #[must_use]
    pub fn weak(&self) -> usize {
        self.membership.quorums().weak()
    }

    /// Whether it is in its view; ordering.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        self.entered == self.view
    }

    /// Whether this replica orders now.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.is_entered() && self.leads(self.view)
    }

    /// Whether a view's primary is this replica.
    #[must_use]
    pub fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    /// The last slot of the window.
    #[must_use]
    pub fn high(&self) -> Slot {
        Slot(self.stable.slot.0.saturating_add(self.tuning.window_slots))
    }

    /// Sends a message that all protocols have.
    pub fn send(to: To, message: Shared<C::More>, out: &mut Effects<C>) {
        out.send(to, C::shared(message));
    }

    /// Asserts what holds between events.
    pub fn assert_invariants(&self, last_final: Slot) {
        assert!(self.entered <= self.view);
        let leads_on = self.is_entered() || self.view_change_timer.is_running();
        assert!(
            leads_on || self.view_requests.asks_above(self.view),
            "nothing leads on from {}",
            self.view
        );
        assert!(
            !self.is_primary() || !self.view_requests.is_asking(),
            "the primary of {} asks for another view",
            self.view
        );
        if self.is_entered() {
            let has_reason = self.requests.is_timed() || self.suspects_primary();
            self.view_requests.assert_end(has_reason, self.monitor.is_slow());
        }
        self.awaited.assert_invariants(last_final);
        assert!(self.next_slot > self.stable.slot);
        let slots = self.tuning.window_slots + C::slots_ahead(&self.tuning);
        let of_author = C::KINDS_PER_SLOT * slots as usize + C::KINDS_OF_NO_SLOT;
        assert!(self.early.len() <= self.membership.n() * of_author);
        let windows = C::windows_held(self.membership.quorums());
        assert!(self.bodies.len() <= windows * WINDOW_SLOTS as usize);
        self.requests.assert_invariants();
        self.to_fill.assert_invariants();
        self.monitor.assert_invariants(self.tuning.window_slots);
    }

    /// The last slot that this replica proposed or took up in the view that it entered last.
    #[must_use]
    pub fn taken_up(&self) -> Slot {
        Slot(self.next_slot.0 - 1)
    }

    /// See [`pentarchy_core::protocol::Protocol::status`]. What it is doing, while it has not
    /// entered its view, is the protocol's to say, and which slot is the last that is final.
    #[must_use]
    pub fn status(&self, changing: &'static str, last_final: Slot) -> Status {
        let phase = match self.is_entered() {
            true if self.executed < self.stable.slot => "catching-up",
            true => "normal",
            false => changing,
        };
        Status {
            view: self.view,
            primary: self.membership.primary(self.view),
            phase,
            committed: last_final,
            stable: self.stable.slot,
            peers_committed: self.peers.last_final(),
            waiting: self.requests.len(),
            view_changes: self.view_changes_count,
            reason: self.reason,
        }
    }
}
