//! The rules that can be left out, and the numbers of a group.

use fastrand::Rng;

/// A rule, by what is done without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    FirstTimestampZero,
    CollectNamesNoView,
    LockNeedsNoWriters,
    NoFirstCount,
    WritesTwice,
    CollectsOneSlot,
    WaitsForUncertifiedBody,
    WaitsForBoundBody,
    ForgetsShownWrites,
    PruneByExactTimestamp,
    PruneUnshown,
    CapDropsLowestTimestamp,
    KeepsAllWrites,
    SignsByBase,
    NoEcho,
    EchoBeforeOpening,
    LockNotKept,
    DecidesBelowQuorum,
    DecidedNotTold,
    WritesWithoutBody,
    WriteNotDurable,
    LockNotDurable,
    ViewNotDurable,
    OpeningNotDurable,
    CheckpointNotDurable,
    StateNeedsQuorum,
    DoesNotHoldQueries,
}

/// The rules of the Byzantine mode.
pub(super) const BYZANTINE: &[crate::Rule] = &[
    ("first-timestamp-zero", "a timestamp is a view plus 1, so that 0 means nothing"),
    ("collect-names-no-view", "a VIEW-CHANGE counts in its view only"),
    ("lock-needs-no-writers", "a lock binds only with f + 1 members who wrote its batch"),
    ("no-first-count", "a lock binds only if a quorum has that lock or a lower one"),
    ("writes-twice", "a replica writes once in a view and slot"),
    ("collects-one-slot", "a VIEW-CHANGE shows all slots above the stable checkpoint"),
    ("waits-for-uncertified-body", "the primary needs the bodies of bound batches only"),
    ("waits-for-bound-body", "the primary leaves out whose lock's body it cannot get"),
    ("forgets-shown-writes", "a replica that opens a view keeps what it wrote before"),
    ("prune-by-exact-timestamp", "it keeps also what was shown with another timestamp"),
    ("prune-unshown", "it keeps also what no VIEW-CHANGE shows, as WRITEs may be signed"),
    ("cap-drops-lowest-timestamp", "a write beyond the cap is signed, and none is dropped"),
    ("keeps-all-writes", "a table of writes has a cap"),
    ("signs-by-base", "each replica signs by its own table, not by the NEW-VIEW's base"),
    ("no-echo", "f + 1 WRITEs of a batch make it the candidate"),
    ("lock-not-kept", "a lock outlives its view"),
    ("decides-below-quorum", "a quorum of ACCEPTs decides"),
    ("decided-not-told", "f + 1 members that tell a decision decide"),
    ("writes-without-body", "a replica writes only what it holds whole"),
    ("write-not-durable", "a replica records a WRITE before it sends it"),
    ("lock-not-durable", "a replica records a lock before it sends its ACCEPT"),
    ("view-not-durable", "a replica records the view it leaves for before its VIEW-CHANGE"),
    ("checkpoint-not-durable", "a replica saves the state before it signs a checkpoint"),
    ("state-needs-quorum", "f + 1 signed checkpoints let a replica behind take the state"),
];

/// The rules about forgetting by what a NEW-VIEW shows.
pub(super) const PRUNING: &[crate::Rule] = &[
    ("forgets-shown-writes", "a replica keeps what a VIEW-CHANGE of the NEW-VIEW shows"),
    ("prune-by-exact-timestamp", "shown with another timestamp is shown, too"),
    ("echo-before-opening", "a replica writes nothing in a view before it has opened it"),
];

/// The rules of the crash mode.
pub(super) const CRASH: &[crate::Rule] = &[
    ("accepts-before-durable", "a replica records a lock before it sends its ACCEPT"),
    ("view-not-durable", "a replica records the view it leaves for before its VIEW-CHANGE"),
    ("opening-not-durable", "the primary records a NEW-VIEW before it sends it"),
    ("lock-not-kept", "a lock outlives its view"),
    ("collects-one-slot", "a VIEW-CHANGE shows all slots above the stable checkpoint"),
    ("decides-below-quorum", "a majority of ACCEPTs decides"),
    ("writes-without-body", "a replica accepts only what it holds whole"),
    ("waits-for-bound-body", "the primary leaves out whose lock's body it cannot get"),
    ("does-not-hold-queries", "who voted for a slot answers queries when it has executed it"),
];

impl Fault {
    fn of(name: &str) -> Self {
        match name {
            "first-timestamp-zero" => Self::FirstTimestampZero,
            "collect-names-no-view" => Self::CollectNamesNoView,
            "lock-needs-no-writers" => Self::LockNeedsNoWriters,
            "no-first-count" => Self::NoFirstCount,
            "writes-twice" => Self::WritesTwice,
            "collects-one-slot" => Self::CollectsOneSlot,
            "waits-for-uncertified-body" => Self::WaitsForUncertifiedBody,
            "waits-for-bound-body" => Self::WaitsForBoundBody,
            "forgets-shown-writes" => Self::ForgetsShownWrites,
            "prune-by-exact-timestamp" => Self::PruneByExactTimestamp,
            "prune-unshown" => Self::PruneUnshown,
            "cap-drops-lowest-timestamp" => Self::CapDropsLowestTimestamp,
            "keeps-all-writes" => Self::KeepsAllWrites,
            "signs-by-base" => Self::SignsByBase,
            "no-echo" => Self::NoEcho,
            "echo-before-opening" => Self::EchoBeforeOpening,
            "lock-not-kept" => Self::LockNotKept,
            "decides-below-quorum" => Self::DecidesBelowQuorum,
            "decided-not-told" => Self::DecidedNotTold,
            "writes-without-body" => Self::WritesWithoutBody,
            "write-not-durable" => Self::WriteNotDurable,
            "lock-not-durable" | "accepts-before-durable" => Self::LockNotDurable,
            "view-not-durable" => Self::ViewNotDurable,
            "opening-not-durable" => Self::OpeningNotDurable,
            "state-needs-quorum" => Self::StateNeedsQuorum,
            "checkpoint-not-durable" => Self::CheckpointNotDurable,
            "does-not-hold-queries" => Self::DoesNotHoldQueries,
            _ => panic!("no rule has the name {name}"),
        }
    }
}

/// Which model a run belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Liars; tables of writes have a cap, beyond which WRITEs are signed.
    Byzantine,
    /// Liars; tables have no cap, and a NEW-VIEW says what to forget.
    Pruning,
    /// No liars and no WRITEs.
    Crash,
}

/// The numbers and rules of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) mode: Mode,
    pub(super) n: usize,
    pub(super) f: usize,
    pub(super) quorum: usize,
    pub(super) window: usize,
    /// The distance of checkpoints.
    pub(super) every: usize,
    /// The cap of a table of writes.
    pub(super) cap: usize,
    /// Whether replicas write in a view before they have opened it.
    pub(super) writes_early: bool,
    /// Whether a restart forgets that a view was opened.
    pub(super) forgets_opening: bool,
    without: Option<Fault>,
}

impl Group {
    pub(super) fn draw(rng: &mut Rng, mode: Mode, without: Option<&str>) -> Self {
        let crash = mode == Mode::Crash;
        let sizes = if crash { [(3, 1), (4, 1), (5, 2)] } else { [(4, 1), (6, 1), (7, 2)] };
        let (n, f) = sizes[[0, 0, 1, 2][rng.usize(..4)]];
        let quorum = if crash { n / 2 + 1 } else { (n + f) / 2 + 1 };
        let without = without.map(Fault::of);
        // With signed WRITEs, replicas may do either: so some do.
        let free = mode == Mode::Byzantine;
        Self {
            writes_early: free && rng.u8(..4) == 0 || without == Some(Fault::EchoBeforeOpening),
            forgets_opening: free && rng.u8(..4) == 0 || without == Some(Fault::OpeningNotDurable),
            mode,
            n,
            f,
            quorum,
            window: rng.usize(2..=3),
            every: rng.usize(1..=2),
            cap: [1, 1, 2, 2, 3, 4][rng.usize(..6)],
            without,
        }
    }

    pub(super) fn lacks(&self, fault: Fault) -> bool {
        self.without == Some(fault)
    }

    pub(super) fn crash(&self) -> bool {
        self.mode == Mode::Crash
    }
}
