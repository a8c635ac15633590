//! The order of all pillars together, and what follows from it for each. It looks into no pillar:
//! it knows what they told it, which may be late, and tells them what may come late. The argument
//! is in `docs/protocols/pillars.md`.

use super::merge::{Merge, Rows};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::pillar::{self, PillarStatus};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Memory, NoTimer, Nothing, Protocol, Reject, Rules,
    Setup, Status, Tuning,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

/// Rows of which a digest is kept until execution comes to them: the lowest ones. Of those that
/// follow while there are so many none is.
pub(super) const VOUCHED_MAX: usize = 16;

/// What a pillar has asked its host to fetch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Wishes {
    /// States by row: the first that it asked for, and the last.
    pub rows: BTreeMap<Slot, (Digest, ReplicaSet)>,
    /// Its own state is wrong, so that having one of that row is not enough.
    pub diverged: bool,
}

/// What is known of a pillar, and what it was told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Known {
    /// How it said last that it stands.
    pub pillar_status: PillarStatus,
    /// What it waits to be fetched.
    pub wishes: Wishes,
    /// How often it was told from where to go on.
    pub answers: u64,
    /// The last row that it said is decided there.
    pub decided: Slot,
    /// The last row for whose state it said that a quorum vouches.
    pub vouched: Slot,
    /// Up to which row something was given up that it had decided.
    pub given_up: Slot,
    /// The last row that it was told is wanted there of this primary.
    pub wanted: (Slot, ReplicaId),
    /// The last row that it was told something decided waits for.
    pub gap: Slot,
    /// The last row that it was told others are at.
    pub heard: Slot,
}

impl Known {
    /// Whether it has heard from where it is to go on. What it asked for before that, and has not,
    /// it will ask for again.
    pub fn is_answered(&self) -> bool {
        self.pillar_status.answers == self.answers || mutant!("pillars.asks-twice")
    }
}

/// A stable row of which the host is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Untold {
    pub row: Slot,
    pub state: Digest,
    /// It is not the first: a pillar that lags holds them up.
    pub is_late: bool,
}

/// The order of all pillars together, as a core of its own that hears what they say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Merger {
    pub(super) me: ReplicaId,
    pub(super) membership: Arc<Membership>,
    pub(super) tuning: Tuning,
    pub(super) merge: Merge,
    pub(super) pillars: Vec<Known>,
    /// States that are vouched for, by row, until execution comes to them: of [`VOUCHED_MAX`] rows
    /// at most.
    pub(super) vouched: BTreeMap<Slot, Digest>,
    /// The last row of which the host was told that its state is not the group's, until another one
    /// is installed.
    pub(super) diverged: Slot,
    /// The highest row whose state is vouched for, if execution has not come to it.
    pub(super) promised: Option<(Slot, Digest)>,
    /// The highest such row that it has come to, if the host has not been told.
    pub(super) untold: Option<Untold>,
    /// States by row that were fetched because they were promised: the first, and the last.
    pub(super) asked: BTreeMap<Slot, Digest>,
    /// Whether to look, once execution has gone as far as it can, if that state is to be fetched.
    pub(super) seeks: bool,
    /// The last row up to which something was given up that a pillar had decided.
    pub(super) given_up: Slot,
    /// The last row that the host was told to be stable.
    pub(super) stable: Slot,
    /// The row of the state that was installed last: one that is vouched for.
    pub(super) installed: Slot,
    /// It goes on from a log, and no state was stable since.
    pub(super) is_fresh: bool,
}

impl Protocol for Merger {
    type Message = Nothing;
    type Timer = NoTimer;
    type Record = Nothing;
    type Input = Input;
    type Output = Output;

    /// Those of the pillars it leaves to them.
    const RULES: Rules = Rules {
        name: "merger",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: true,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: None,
    };

    fn validate(
        _membership: &Membership,
        _verifier: &dyn Verifier,
        _author: ReplicaId,
        _tag: &AuthTag,
        message: &Nothing,
    ) -> Result<(), Reject> {
        match *message {}
    }

    fn start(
        setup: Setup,
        _log: &mut dyn Iterator<Item = Nothing>,
        out: &mut Effects<Self>,
    ) -> Self {
        let Setup { me, membership, fetch, memory, tuning } = setup;
        let count = membership.lane.pillars;
        assert!((1..=PILLARS_MAX).contains(&count), "a host checks how many pillars there are");
        let rows = Rows::of(&membership);
        let executed = match (&memory, fetch) {
            (_, Some(_)) => Base::default(),
            (Memory::Durable { executed, .. }, None) => *executed,
            (Memory::Volatile, None) => membership.base,
        };
        let known = |pillar| Known {
            pillar_status: awaiting_loopback(&membership, pillar),
            wishes: Wishes::default(),
            answers: 0,
            decided: Slot(0),
            vouched: Slot(0),
            given_up: Slot(0),
            wanted: (Slot(0), ReplicaId(0)),
            gap: Slot(0),
            heard: Slot(0),
        };
        let merger = Self {
            me,
            tuning,
            merge: Merge::new(rows, executed),
            pillars: (0..count).map(known).collect(),
            vouched: BTreeMap::new(),
            diverged: Slot(0),
            promised: None,
            untold: None,
            asked: BTreeMap::new(),
            seeks: false,
            given_up: Slot(0),
            stable: rows.base(),
            installed: rows.base(),
            // Whoever crashes often would fill its log.
            is_fresh: executed.slot > membership.base.slot,
            membership,
        };
        merger.tell_first_state(out);
        merger
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        let is_round = matches!(event, Event::Input(Input::Round { .. }));
        match event {
            Event::Input(input) => self.on_input(input, out),
            Event::Message(message) => match *message.message {},
            Event::Client(_, message) => match *message {},
            Event::Timeout(NoTimer) => {}
        }
        self.settle(out);
        if is_round {
            self.all_is_heard(out);
        }
    }

    fn assert_invariants(&self) {
        assert!(self.pillars.iter().all(|it| it.wishes.rows.len() <= 2) && self.asked.len() <= 2);
        assert!(self.vouched.len() <= VOUCHED_MAX);
    }

    /// What an earlier epoch executed; what this one did, its pillars know.
    fn reads_from(&self) -> Slot {
        self.membership.base.slot
    }

    fn status(&self) -> Status {
        self.status_of(&self.pillar_statuses())
    }

    fn statuses(&self) -> Vec<Status> {
        self.statuses_of(self.pillar_statuses())
    }

    fn hint(&self, client: &ClientId) -> View {
        let pillar = &self.pillars[usize::from(self.pillar_of(client))];
        View(u64::from(pillar.pillar_status.status.primary.0))
    }
}

impl Merger {
    /// The last slot that was given to execution.
    pub(super) const fn executed(&self) -> Slot {
        self.merge.executed()
    }

    /// How all stand, if the pillars stand so.
    pub(super) fn status_of(&self, all: &[Status]) -> Status {
        let rows = self.merge.rows;
        // Everything is there up to where the first gap is.
        let until = |(pillar, row): (u8, Slot)| {
            let next = row.max(rows.base()).next();
            Slot(rows.global(pillar, next).0 - 1)
        };
        let reported = (0..).zip(all.iter().map(|it| it.peers_committed)).map(until).min();
        let last = all.iter().min_by_key(|it| it.view).expect("there is a pillar");
        let odd = all.iter().map(|it| it.phase).find(|phase| *phase != "normal");
        // The last row that execution has come to and for whose state a quorum vouches.
        let stable = all.iter().map(|it| it.stable).filter(|row| self.merge.has_row(*row));
        let stable = stable.fold(self.stable.max(self.installed), Slot::max);
        Status {
            view: last.view,
            primary: last.primary,
            phase: odd.unwrap_or("normal"),
            committed: self.merge.executed(),
            stable: rows.end(stable),
            peers_committed: reported.unwrap_or_default(),
            waiting: all.iter().map(|it| it.waiting).sum(),
            view_changes: all.iter().map(|it| it.view_changes).sum(),
            reason: all.iter().map(|it| it.reason).find(|it| !it.is_empty()).unwrap_or_default(),
        }
    }

    /// The same of each, in slots of the whole order.
    pub(super) fn statuses_of(&self, all: Vec<Status>) -> Vec<Status> {
        let rows = self.merge.rows;
        let of_pillar = |(pillar, status): (u8, Status)| {
            let global = |row: Slot| match row == rows.base() {
                true => rows.end(row),
                false => rows.global(pillar, row),
            };
            let (committed, stable) = (global(status.committed), global(status.stable));
            Status { committed, stable, peers_committed: global(status.peers_committed), ..status }
        };
        (0..).zip(all).map(of_pillar).collect()
    }

    fn pillar_statuses(&self) -> Vec<Status> {
        self.pillars.iter().map(|known| known.pillar_status.status.clone()).collect()
    }

    /// To which pillar a client belongs.
    pub(super) fn pillar_of(&self, client: &ClientId) -> u8 {
        self.membership.lane.of_client(client)
    }

    pub(super) fn numbers(&self) -> core::ops::Range<u8> {
        0..self.membership.lane.pillars
    }

    pub(super) fn known(&mut self, pillar: u8) -> &mut Known {
        &mut self.pillars[usize::from(pillar)]
    }

    /// Tells a pillar something.
    pub(super) fn tell(pillar: u8, input: impl Into<Input>, out: &mut Effects<Self>) {
        out.output(pillar::Output::Tell { pillar, input: Box::new(input.into()) });
    }
}

/// How a pillar stands of which nothing was heard: where it begins.
fn awaiting_loopback(membership: &Membership, pillar: u8) -> PillarStatus {
    let base = Rows::of(membership).base();
    let status = Status {
        view: View(0),
        primary: membership.of_pillar(pillar, base).primary(View(0)),
        phase: "normal",
        committed: base,
        stable: base,
        peers_committed: base,
        waiting: 0,
        view_changes: 0,
        reason: "",
    };
    PillarStatus {
        status,
        leads: false,
        next_slot: base.next(),
        heard_of: base,
        wants: None,
        answers: 0,
    }
}
