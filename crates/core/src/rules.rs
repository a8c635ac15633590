//! What a protocol assumes and needs, as data.

use crate::limits;
use crate::quorum::{ClientQuorums, Count, QuorumRule, Quorums, ReadRule};

/// Sizes of tables and batches; see [`limits`] for the defaults and their sums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tuning {
    /// Slots between checkpoints.
    pub checkpoint_slots: u64,
    /// Bytes of executed batches after which a checkpoint is taken earlier. At twice as many above
    /// the stable checkpoint, execution waits for the next one to become stable.
    pub checkpoint_bytes: usize,
    /// Slots above the stable checkpoint in which to order; a multiple of `checkpoint_slots`.
    pub window_slots: u64,
    /// Requests in one batch.
    pub batch_requests: usize,
    /// Proposals in flight.
    pub proposals_in_flight: u64,
    /// For the simulator: unless it is 0, what pillars of a replica and their merge say to each
    /// other arrives late, pseudo-randomly by this number. Not where there is a log.
    pub interleaving: u64,
}

impl Tuning {
    /// Checkpoints whose snapshots a replica keeps for others: the stable one, or the state from
    /// which the epoch began; those taken since, of which each stands for its share of the window's
    /// slots or of its bytes; and the one with which the epoch ends. Where the order is split into
    /// pillars, each has a window of bytes, and the last stable one may be told late.
    ///
    /// If a replica dropped the stable one, and too few were left to agree on a newer one, nobody
    /// could bring the others level.
    #[must_use]
    pub const fn snapshots_kept(&self, pillars: u8) -> usize {
        let of_slots = (self.window_slots / self.checkpoint_slots) as usize;
        let of_bytes = limits::WINDOW_BYTES / self.checkpoint_bytes;
        // No two are behind one slot.
        let most = self.window_slots as usize;
        let others = (pillars as usize).saturating_sub(1);
        min(of_slots + of_bytes, most) + 2 + others * (min(of_bytes, most) + 1)
    }
}

const fn min(one: usize, other: usize) -> usize {
    if one < other { one } else { other }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            checkpoint_slots: limits::CHECKPOINT_SLOTS,
            checkpoint_bytes: limits::CHECKPOINT_BYTES,
            window_slots: limits::WINDOW_SLOTS,
            batch_requests: limits::BATCH_REQUESTS_MAX,
            proposals_in_flight: limits::PROPOSALS_IN_FLIGHT,
            interleaving: 0,
        }
    }
}

/// What faulty replicas may do, and nothing else: how many replicas that takes is in [`Rules`] too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultModel {
    /// Anything that they can compute.
    Byzantine,
    /// Anything, but their trusted devices do what they are to do.
    Hybrid,
    /// Stop, and come back later with what they kept on disk; lose and delay messages.
    Crash,
    /// Stop for good, which others find out without mistake.
    FailStop,
}

impl FaultModel {
    /// Whether a faulty replica may say what a correct one would not.
    #[must_use]
    pub const fn lies(self) -> bool {
        matches!(self, Self::Byzantine | Self::Hybrid)
    }

    /// The fewest replicas with which any protocol tolerates `f` of these faults. Where faulty
    /// replicas may come back, or lie, correct replicas have to outnumber them.
    #[must_use]
    pub const fn replicas_min(self, f: usize) -> usize {
        match self {
            Self::FailStop => f + 1,
            Self::Byzantine | Self::Hybrid | Self::Crash => 2 * f + 1,
        }
    }
}

/// Who ends the epochs of a group, and says with what the next one begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Authority {
    /// Its members: `f + 1` that have executed the epoch to its end say the same
    /// ([`epochs`](crate::epochs)). The end is one of the slots that they order.
    Members,
    /// A service outside the group, which stops the members first
    /// ([`wedging`](crate::ports::replica::wedging), [`succession`](crate::succession)). What
    /// members order changes nothing about who they are.
    Service,
}

/// What a protocol assumes and needs, as data that hosts, checkers and documents read too. Nothing
/// here is inferred from anything else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// The word after `--protocol`.
    pub name: &'static str,
    /// What faulty replicas may do.
    pub fault_model: FaultModel,
    /// The size of the smallest group for `f` faults.
    pub group_size: Count,
    /// Which sets of replicas decide.
    pub quorum: QuorumRule,
    /// How many equal replies a client believes.
    pub replies: Count,
    /// How many equal answers to a query a client believes.
    pub reads: ReadRule,
    /// Whether its order is split into pillars. Into how many says
    /// [`PillarConfig`](crate::pillar_config::PillarConfig).
    pub pillars: bool,
    /// Whether replies may be taken back.
    pub speculative: bool,
    /// Whether it hears what came of each slot
    /// ([`slot_results`](crate::ports::replica::slot_results)).
    pub hears_slot_results: bool,
    /// Whether it replies to clients itself, and its host does not
    /// ([`replying`](crate::ports::replica::replying)). Not if it is
    /// [`speculative`](Self::speculative).
    pub replies_itself: bool,
    /// Who ends its epochs. Not a service if its order is split into [`pillars`](Self::pillars):
    /// nothing stops several cores together.
    pub authority: Authority,
    /// What its certificates come from; none if no device makes them.
    pub counter: Option<Counter>,
}

impl Rules {
    /// Group size for `f` faults.
    #[must_use]
    pub const fn replicas(&self, f: usize) -> usize {
        self.group_size.of(f)
    }

    /// What a core says of itself has to fit together.
    ///
    /// # Panics
    /// If it does not: whoever replies what is final cannot be asked for what may be taken back,
    /// and no service can stop an order that is split.
    pub fn assert_consistent(&self) {
        let Self { name, speculative, replies_itself, pillars, .. } = *self;
        assert!(!(speculative && replies_itself), "{name}: who speculates does not reply itself");
        let is_stopped = self.authority == Authority::Service;
        assert!(!(pillars && is_stopped), "{name}: pillars end their epochs themselves");
    }

    /// Whether its replicas tolerate any fault, if there are enough of them.
    #[must_use]
    pub const fn tolerates_faults(&self) -> bool {
        self.group_size.per_fault > 0
    }

    /// Whether its safety rests on trusted devices: on what they count, or on what they say of
    /// whose a message is.
    #[must_use]
    pub const fn trusts_devices(&self) -> bool {
        matches!(self.fault_model, FaultModel::Hybrid)
    }

    /// The counter of the device that each replica has. Every replica has one, because its
    /// incarnations are those of its device; where the protocol needs none, any will do.
    #[must_use]
    pub fn device(&self) -> Counter {
        self.counter.unwrap_or_default()
    }

    /// What clients of this group go by.
    #[must_use]
    pub const fn client_quorums(&self, group: Quorums) -> ClientQuorums {
        let (replies, answers) = (self.replies.of(group.f), self.reads.answers(group));
        ClientQuorums { group, replies, answers }
    }
}

/// Which trusted counter a protocol rests on. They differ in what an identifier names beside its
/// position, in [`Ui::committed`](crate::counter::Ui::committed).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Counter {
    /// Remembers the last commitment. View 0 needs no opening: it begins at
    /// [`COMMITMENT`](crate::counter::Position::COMMITMENT) there.
    #[default]
    Usig,
    /// A counter of TrInX, at `0:0` in the beginning. At
    /// [`LEAVE`](crate::counter::Position::LEAVE) it names the position that it had before, and
    /// elsewhere nothing.
    Trinx,
    /// A USIG whose user may go back to a view that it left, as the paper's counter, which knows no
    /// views, lets it: each position is certified once, in whatever order of views. For protocols
    /// of the museum; there is no such device.
    Unbound,
}

impl Counter {
    /// As papers call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usig => "USIG",
            Self::Trinx => "TrInX",
            Self::Unbound => "USIG without views",
        }
    }
}
