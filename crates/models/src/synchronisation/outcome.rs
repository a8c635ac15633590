//! What a set of VIEW-CHANGEs says about each slot.

use super::rules::{Fault, Group};
use super::types::{Batch, Checkpoint, EMPTY, Lock, SLOTS, Set, Slot, Ts, ViewChange};

/// What the new view orders in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The batch of this lock, because it may be decided.
    Bound(Ts, Batch),
    /// The empty batch, because nothing can be decided.
    Unbound,
}

impl Outcome {
    pub(super) fn batch(self) -> Batch {
        match self {
            Self::Bound(_, batch) => batch,
            Self::Unbound => EMPTY,
        }
    }
}

/// What the new view orders in all slots that it takes over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcomes {
    /// The highest proved checkpoint.
    pub(super) base: Checkpoint,
    /// The last slot that is taken over; fresh proposals come after it.
    pub(super) last: Slot,
    /// None where the VIEW-CHANGEs do not suffice yet.
    slots: [Option<Outcome>; SLOTS + 1],
}

impl Outcomes {
    pub(super) fn of(changes: &[ViewChange], group: &Group) -> Self {
        let stable = changes.iter().map(|change| change.stable);
        let base = stable.max_by_key(|it| (it.slot, it.view)).unwrap_or_default();
        let named = |slot: &Slot| changes.iter().any(|it| it.slots[*slot].batches().len() > 0);
        let last = (base.slot + 1..=SLOTS).rev().find(named).unwrap_or(base.slot);
        let mut slots = [None; SLOTS + 1];
        for (slot, outcome) in slots.iter_mut().enumerate().take(last + 1).skip(base.slot + 1) {
            *outcome = outcome_of(changes, slot, group);
        }
        Self { base, last, slots }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Outcome> {
        self.slots[slot]
    }

    /// The slots that are taken over.
    pub(super) fn taken(&self) -> impl Iterator<Item = Slot> + use<> {
        self.base.slot + 1..=self.last
    }

    pub(super) fn complete(&self) -> bool {
        self.taken().all(|slot| self.slots[slot].is_some())
    }
}

fn outcome_of(changes: &[ViewChange], slot: Slot, group: &Group) -> Option<Outcome> {
    let locks = || changes.iter().map(|it| it.slots[slot].lock);
    if group.crash() {
        let highest = locks().filter(|lock| lock.ts > 0).max_by_key(|lock| lock.ts);
        return Some(highest.map_or(Outcome::Unbound, |it| Outcome::Bound(it.ts, it.batch)));
    }
    let bound = locks().filter(|lock| lock.ts > 0 && is_bound(changes, slot, *lock, group));
    let highest = bound.max_by_key(|lock| (lock.ts, std::cmp::Reverse(lock.batch)));
    if let Some(lock) = highest {
        return Some(Outcome::Bound(lock.ts, lock.batch));
    }
    let unlocked = locks().filter(|lock| lock.ts == 0).count();
    (unlocked >= group.quorum).then_some(Outcome::Unbound)
}

fn is_bound(changes: &[ViewChange], slot: Slot, lock: Lock, group: &Group) -> bool {
    let (ts, batch) = (lock.ts, lock.batch);
    let agrees = |it: Lock| it.ts < ts || it.is(ts, batch);
    let supporters = changes.iter().filter(|it| agrees(it.slots[slot].lock)).count();
    if supporters < group.quorum && !group.lacks(Fault::NoFirstCount) {
        return false;
    }
    let (mut writers, mut signers) = (Set::default(), Set::default());
    for change in changes {
        let shown = &change.slots[slot];
        if shown.writes.get(batch).is_some_and(|written| written >= ts) {
            writers.insert(change.from);
        }
        if shown.lock.is(ts, batch) {
            signers = signers.or(shown.lock.signers);
        }
    }
    let proved = if group.lacks(Fault::SignsByBase) {
        writers.len() > group.f || signers.len() >= group.quorum
    } else {
        writers.or(signers).len() > group.f
    };
    proved || group.lacks(Fault::LockNeedsNoWriters)
}
