//! A correct replica: what it knows of each slot, what it records, and what it forgets.

use super::outcome::{Outcome, Outcomes};
use super::rules::{Fault, Group, Mode};
use super::types::{
    Batch, Checkpoint, EMPTY, Lock, Member, SLOTS, Set, Shown, Slot, Ts, View, ViewChange, Votes,
    Writes,
};

/// What a replica knows of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Recorded: the lock.
    pub(super) lock: Lock,
    /// Recorded: what the replica wrote and has to show.
    pub(super) writes: Writes,
    /// Recorded: what it wrote in its view.
    pub(super) wrote: Option<Batch>,
    /// What it is going to write, as soon as it holds it.
    pub(super) candidate: Option<Batch>,
    /// The WRITEs of its view.
    pub(super) heard: Votes,
    /// Whose WRITE came with a signature.
    pub(super) signed: Set,
    /// The ACCEPTs of its view.
    pub(super) accepts: Votes,
    /// Who told which decision.
    pub(super) told: Votes,
    /// What it knows to be decided.
    pub(super) decided: Option<Batch>,
    /// Which batches it holds.
    pub(super) bodies: Set,
}

impl Entry {
    pub(super) fn new() -> Self {
        let mut bodies = Set::default();
        bodies.insert(EMPTY.into());
        Self {
            lock: Lock::NOTHING,
            writes: Writes::default(),
            wrote: None,
            candidate: None,
            heard: Votes::default(),
            signed: Set::default(),
            accepts: Votes::default(),
            told: Votes::default(),
            decided: None,
            bodies,
        }
    }

    pub(super) fn holds(&self, batch: Batch) -> bool {
        self.bodies.has(batch.into())
    }

    /// Forgets what is of the last view only, or of the last life.
    fn renew(&mut self) {
        self.candidate = None;
        self.heard = Votes::default();
        self.signed = Set::default();
        self.accepts = Votes::default();
    }

    /// Goes on with what is recorded.
    fn restart(&mut self, me: Member, ts: Ts, group: &Group) {
        self.renew();
        self.told = Votes::default();
        self.decided = None;
        if group.lacks(Fault::WriteNotDurable) {
            self.wrote = None;
            self.writes = Writes::default();
        }
        if group.lacks(Fault::LockNotDurable) {
            self.lock = Lock::NOTHING;
        }
        self.drop_bodies();
        if let Some(batch) = self.wrote {
            self.heard.count(me, batch);
            if self.writes.get(batch) != Some(ts) {
                self.signed.insert(me);
            }
        }
        if self.lock.ts == ts
            && let Some(batch) = self.lock.batch()
        {
            self.accepts.count(me, batch);
            self.candidate = Some(batch);
        }
    }

    /// Keeps the bodies of what is locked, to be shown, written in this view, or decided.
    fn drop_bodies(&mut self) {
        let mut kept = Shown { lock: self.lock, writes: self.writes }.batches();
        let others = [Some(EMPTY), self.wrote, self.decided];
        others.into_iter().flatten().for_each(|batch| kept.insert(batch.into()));
        self.bodies = self.bodies.and(kept);
    }

    /// Drops writes below the lock: a lock of a lower timestamp is bound no more.
    fn drop_writes(&mut self) {
        let ts = self.lock.ts;
        self.writes.retain(|_, written| written >= ts);
    }
}

/// A correct replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replica {
    pub(super) me: Member,
    pub(super) view: View,
    /// Recorded: whether it has opened its view.
    pub(super) open: bool,
    /// Recorded with it: what its NEW-VIEW says.
    pub(super) outcomes: Outcomes,
    /// The highest slot of a checkpoint that it signed; it has saved the state of it.
    pub(super) saved: Slot,
    pub(super) stable: Checkpoint,
    pub(super) executed: Slot,
    pub(super) entries: [Entry; SLOTS + 1],
    /// The view that it worked in before it left: where a restart leads that forgot the leaving.
    before: (View, Outcomes, [Option<Batch>; SLOTS + 1]),
}

impl Replica {
    pub(super) fn new(me: Member, group: &Group) -> Self {
        Self {
            me,
            view: 0,
            open: true,
            outcomes: Outcomes::of(&[], group),
            saved: 0,
            stable: Checkpoint::default(),
            executed: 0,
            entries: [Entry::new(); SLOTS + 1],
            before: (0, Outcomes::of(&[], group), [None; SLOTS + 1]),
        }
    }

    /// The slots in which it votes.
    pub(super) fn window(&self, group: &Group) -> std::ops::RangeInclusive<Slot> {
        self.stable.slot + 1..=SLOTS.min(self.stable.slot + group.window)
    }

    /// Whether it may vote for a fresh proposal in the slot.
    pub(super) fn takes_fresh(&self, slot: Slot, group: &Group) -> bool {
        self.open && slot > self.outcomes.last && self.window(group).contains(&slot)
    }

    /// Whether it votes in the slot at all.
    pub(super) fn votes_in(&self, slot: Slot, group: &Group) -> bool {
        let open = self.open || group.writes_early;
        open && slot > self.outcomes.base.slot && self.window(group).contains(&slot)
    }

    /// Remembers that it writes the batch. Whether it has to sign the WRITE, because it will not
    /// be able to show it.
    pub(super) fn write(&mut self, slot: Slot, batch: Batch, group: &Group) -> bool {
        let ts = timestamp(self.view, group);
        let by_base =
            group.lacks(Fault::SignsByBase) && self.view + 1 > group.cap + self.outcomes.base.view;
        let entry = &mut self.entries[slot];
        entry.wrote = Some(batch);
        let full = entry.writes.get(batch).is_none() && entry.writes.len() >= group.cap;
        let unbounded = group.mode == Mode::Pruning
            || group.lacks(Fault::KeepsAllWrites)
            || group.lacks(Fault::SignsByBase);
        let drops = group.lacks(Fault::CapDropsLowestTimestamp);
        let signs = by_base || full && !unbounded && !drops;
        if !signs {
            if full && drops {
                let lowest = entry.writes.iter().min_by_key(|(batch, ts)| (*ts, *batch));
                lowest.into_iter().for_each(|(batch, _)| entry.writes.remove(batch));
            }
            entry.writes.set(batch, ts);
        }
        entry.heard.count(self.me, batch);
        if signs {
            entry.signed.insert(self.me);
        }
        signs
    }

    /// Locks the batch.
    pub(super) fn lock(&mut self, slot: Slot, batch: Batch, group: &Group) {
        let ts = timestamp(self.view, group);
        let entry = &mut self.entries[slot];
        let signers = entry.heard.of(batch).and(entry.signed);
        entry.lock = Lock { ts, batch, signers };
        entry.drop_writes();
        entry.accepts.count(self.me, batch);
    }

    /// Leaves for a view, and says what it knows.
    pub(super) fn leave(&mut self, view: View, group: &Group) -> ViewChange {
        if self.open {
            self.before = (self.view, self.outcomes, self.entries.map(|entry| entry.wrote));
        }
        self.view = view;
        self.open = false;
        // Nothing is taken over before the view is opened.
        self.outcomes = Outcomes::of(&[], group);
        for entry in &mut self.entries {
            entry.renew();
            entry.wrote = None;
            entry.drop_bodies();
        }
        let mut slots = [Shown::NOTHING; SLOTS + 1];
        for slot in self.window(group) {
            let entry = &self.entries[slot];
            slots[slot] = Shown { lock: entry.lock, writes: entry.writes };
            let first = slots[slot].batches().len() > 0;
            if first && group.lacks(Fault::CollectsOneSlot) {
                break;
            }
        }
        ViewChange { from: self.me, view, stable: self.stable, slots }
    }

    /// Opens its view, and forgets what the rules let it forget.
    pub(super) fn open(&mut self, changes: &[ViewChange], outcomes: Outcomes, group: &Group) {
        self.open = true;
        self.outcomes = outcomes;
        let opened = timestamp(self.view, group);
        for slot in self.window(group) {
            let entry = &mut self.entries[slot];
            let shown =
                |batch: Batch| changes.iter().any(|it| it.slots[slot].batches().has(batch.into()));
            let shown_so = |batch, ts| {
                changes.iter().any(|it| {
                    let it = &it.slots[slot];
                    it.writes.get(batch) == Some(ts) || it.lock.is(ts, batch)
                })
            };
            if group.lacks(Fault::ForgetsShownWrites) {
                entry.writes.retain(|_, ts| ts > opened);
            } else if group.lacks(Fault::PruneByExactTimestamp) {
                entry.writes.retain(|batch, ts| ts > opened || shown_so(batch, ts));
            } else if group.mode == Mode::Pruning
                || group.lacks(Fault::PruneUnshown)
                || group.lacks(Fault::SignsByBase)
            {
                entry.writes.retain(|batch, ts| ts > opened || shown(batch));
            }
            entry.drop_bodies();
            if group.lacks(Fault::LockNotKept) {
                entry.lock = Lock::NOTHING;
            }
        }
        self.take_over(group);
    }

    /// Makes candidates of what its NEW-VIEW says.
    fn take_over(&mut self, group: &Group) {
        for slot in self.outcomes.taken() {
            if self.window(group).contains(&slot) && self.entries[slot].candidate.is_none() {
                let outcome = self.outcomes.get(slot).map(Outcome::batch);
                self.entries[slot].candidate = outcome;
            }
        }
    }

    /// Loses what is not recorded, and goes on with what is.
    pub(super) fn restart(&mut self, group: &Group) {
        self.executed = self.saved;
        if group.lacks(Fault::ViewNotDurable) && !self.open {
            let wrote;
            (self.view, self.outcomes, wrote) = self.before;
            self.open = true;
            self.entries.iter_mut().zip(wrote).for_each(|(entry, it)| entry.wrote = it);
        }
        if group.forgets_opening && self.view > 0 {
            self.open = false;
            self.outcomes = Outcomes::of(&[], group);
        }
        let ts = timestamp(self.view, group);
        for entry in &mut self.entries {
            entry.restart(self.me, ts, group);
        }
        if self.open {
            self.take_over(group);
        }
    }

    /// Executes what is decided, in the order of slots.
    pub(super) fn execute(&mut self) {
        while self.executed < SLOTS && self.entries[self.executed + 1].decided.is_some() {
            self.executed += 1;
        }
    }

    /// Makes a proved checkpoint stable, of which it has the state.
    pub(super) fn stabilize(&mut self, slot: Slot, group: &Group) {
        self.stable = Checkpoint { slot, view: self.view };
        self.saved = self.saved.max(slot);
        self.executed = self.executed.max(slot);
        for entry in &mut self.entries[..=slot] {
            *entry = Entry::new();
        }
        self.execute();
        if self.open {
            self.take_over(group);
        }
    }
}

pub(super) fn timestamp(view: View, group: &Group) -> Ts {
    view as Ts + Ts::from(!group.lacks(Fault::FirstTimestampZero))
}
