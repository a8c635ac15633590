//! The replica: its state, and where each event goes.

use super::merge::{Merge, Rows};
use super::message::{Message, PillarTimer};
use super::record::Record;
use super::stepping::Scratch;
use crate::common::frame::hooks::Core;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Memory, Protocol, Reject, Rules, Setup, Status};

/// A protocol of which there may be several side by side. What it executes is final.
pub trait Pillar: Core {
    /// The name of several.
    const NAME: &'static str;
}

/// What a pillar has asked its host to fetch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Wishes {
    /// States by row: the first that it asked for, and the last.
    pub rows: BTreeMap<Slot, (Digest, ReplicaSet)>,
    /// Its own state is wrong, so that having one of that row is not enough.
    pub diverged: bool,
}

/// A stable row of which the host is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Untold {
    pub row: Slot,
    pub state: Digest,
    /// It is not the first: a pillar that lags holds them up.
    pub is_late: bool,
}

/// One replica of several pillars.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pillars<P: Pillar> {
    pub(super) me: ReplicaId,
    pub(super) membership: Arc<Membership>,
    pub(super) pillars: Vec<P>,
    pub(super) merge: Merge,
    /// What each pillar waits to be fetched.
    pub(super) wishes: Vec<Wishes>,
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
    /// What pillars are to be told before this step ends.
    pub(super) inward: VecDeque<(u8, Input)>,
    pub(super) scratch: Scratch<P>,
}

impl<P: Pillar> Protocol for Pillars<P> {
    type Message = Message<P::Message>;
    type Timer = PillarTimer<P::Timer>;
    type Record = Record<P::Record>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules { name: P::NAME, pillars: true, ..P::RULES };

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Self::Message,
    ) -> Result<(), Reject> {
        let Message { pillar, inner } = message;
        if *pillar >= membership.lane.pillars {
            return Err(Reject::OutOfBounds);
        }
        let own = membership.of_pillar(*pillar, Rows::of(membership).base());
        P::validate(&own, verifier, author, tag, inner)
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Self::Record>,
        out: &mut Effects<Self>,
    ) -> Self {
        let membership = setup.membership.clone();
        let count = membership.lane.pillars;
        assert!((1..=PILLARS_MAX).contains(&count), "a host checks how many pillars there are");
        let mut records: Vec<Vec<P::Record>> = (0..count).map(|_| Vec::new()).collect();
        for Record { pillar, inner } in log {
            let of_pillar = records.get_mut(usize::from(pillar));
            of_pillar.expect("a log is of as many pillars as it was begun with").push(inner);
        }
        let rows = Rows::of(&membership);
        let executed = match (&setup.memory, setup.fetch) {
            (_, Some(_)) => Base::default(),
            (Memory::Durable { executed, .. }, None) => *executed,
            (Memory::Volatile, None) => membership.base,
        };
        let mut first = Vec::new();
        let start = |(pillar, log): (u8, Vec<P::Record>)| {
            let mut effects = Effects::default();
            let core = P::start(within(&setup, pillar), &mut log.into_iter(), &mut effects);
            first.push(effects);
            core
        };
        let pillars = (0..).zip(records).map(start).collect();
        let mut replica = Self {
            me: setup.me,
            membership,
            pillars,
            merge: Merge::new(rows, executed),
            wishes: (0..count).map(|_| Wishes::default()).collect(),
            promised: None,
            untold: None,
            asked: BTreeMap::new(),
            seeks: false,
            given_up: Slot(0),
            stable: rows.base(),
            installed: rows.base(),
            inward: VecDeque::new(),
            scratch: Scratch::default(),
        };
        replica.begin(first, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(verified) => {
                let pillar = verified.message.pillar;
                self.feed(pillar, Event::Message(Message::within(&verified)), out);
            }
            Event::Timeout(PillarTimer { pillar, inner }) => {
                self.feed(pillar, Event::Timeout(inner), out);
            }
            Event::Input(input) => self.on_input(input, out),
            // Refused at the door: clients of these protocols only ask.
            Event::Client(..) => {}
        }
        self.settle(out);
    }

    fn is_moot(&self, author: ReplicaId, message: &Self::Message) -> bool {
        let pillar = self.pillars.get(usize::from(message.pillar));
        pillar.is_some_and(|pillar| pillar.is_moot(author, &message.inner))
    }

    fn assert_invariants(&self) {
        self.pillars.iter().for_each(P::assert_invariants);
        assert!(self.inward.is_empty());
        let window = self.pillars[0].frame().tuning.window_slots as usize;
        assert!(self.merge.len() <= 2 * window * self.pillars.len());
        assert!(self.wishes.iter().all(|wishes| wishes.rows.len() <= 2) && self.asked.len() <= 2);
    }

    fn status(&self) -> Status {
        let all: Vec<Status> = self.pillars.iter().map(P::status).collect();
        let rows = self.merge.rows;
        // Everything is there up to where the first gap is.
        let until = |(pillar, row): (u8, Slot)| {
            let next = row.max(rows.base()).next();
            Slot(rows.global(pillar, next).0 - 1)
        };
        let reported = (0..).zip(all.iter().map(|it| it.peers_committed)).map(until).min();
        let last = all.iter().min_by_key(|it| it.view).expect("there is a pillar");
        let odd = all.iter().map(|it| it.phase).find(|phase| *phase != "normal");
        Status {
            view: last.view,
            primary: last.primary,
            phase: odd.unwrap_or("normal"),
            committed: self.merge.executed(),
            stable: rows.end(self.stable_row()),
            peers_committed: reported.unwrap_or_default(),
            waiting: all.iter().map(|it| it.waiting).sum(),
            view_changes: all.iter().map(|it| it.view_changes).sum(),
            reason: all.iter().map(|it| it.reason).find(|it| !it.is_empty()).unwrap_or_default(),
        }
    }

    fn statuses(&self) -> Vec<Status> {
        let rows = self.merge.rows;
        let of_pillar = |(pillar, core): (u8, &P)| {
            let status = core.status();
            let global = |row: Slot| match row == rows.base() {
                true => rows.end(row),
                false => rows.global(pillar, row),
            };
            let (committed, stable) = (global(status.committed), global(status.stable));
            Status { committed, stable, peers_committed: global(status.peers_committed), ..status }
        };
        (0..).zip(&self.pillars).map(of_pillar).collect()
    }

    fn hint(&self, client: &ClientId) -> View {
        let pillar = pillar_of(client, self.membership.lane.pillars);
        let frame = self.pillars[usize::from(pillar)].frame();
        View(u64::from(frame.membership.primary(frame.view).0))
    }
}

impl<P: Pillar> Pillars<P> {
    /// The last row that execution has come to and for whose state a quorum vouches.
    fn stable_row(&self) -> Slot {
        let stable = self.pillars.iter().map(|pillar| pillar.frame().stable.slot);
        stable
            .filter(|row| self.merge.has_row(*row))
            .fold(self.stable.max(self.installed), Slot::max)
    }
}

/// To which pillar a client belongs. It may choose its name, and so its pillar.
#[must_use]
pub(super) fn pillar_of(client: &ClientId, pillars: u8) -> u8 {
    let bytes = client.0.first_chunk().expect("a name is longer");
    (u64::from_le_bytes(*bytes) % u64::from(pillars)) as u8
}

/// What one pillar is started with. It goes on from its own last stable row: a state that is here
/// may be of a row that means nothing to it.
fn within(setup: &Setup, pillar: u8) -> Setup {
    let base = Rows::of(&setup.membership).base();
    let membership = Arc::new(setup.membership.of_pillar(pillar, base));
    let memory = match &setup.memory {
        Memory::Volatile => Memory::Volatile,
        Memory::Durable { .. } => {
            Memory::Durable { executed: membership.base, records: Vec::new() }
        }
    };
    Setup { membership, memory, ..setup.clone() }
}
