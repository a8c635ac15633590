//! What liars say in VIEW-CHANGEs. They cannot forge signatures, so each names a proved checkpoint
//! and only those signed WRITEs that were sent; all else is free.

use super::replica::timestamp;
use super::types::{Batch, EMPTY, Lock, Member, SLOTS, Shown, Slot, Ts, View, ViewChange, Writes};
use super::world::World;

impl World {
    /// Some VIEW-CHANGE of a liar for a view above 0.
    pub(super) fn false_change(&mut self, from: Member, view: View) -> ViewChange {
        let nth = match self.rng.bool() {
            true => self.rng.usize(..self.proofs.len()),
            false => self.proofs.len() - 1,
        };
        let stable = self.proofs[nth];
        let mut slots = [Shown::NOTHING; SLOTS + 1];
        let style = self.rng.u8(..5);
        let shown = slots.iter_mut().enumerate().skip(stable.slot + 1);
        for (slot, shown) in shown.take(self.group.window) {
            *shown = match style {
                0 => Shown::NOTHING,
                1 => self.false_lock(slot, view),
                2 => Shown { lock: Lock::NOTHING, writes: self.many_writes(slot, view) },
                3 => self.copied(slot, view),
                _ => match self.rng.u8(..4) {
                    0 => Shown::NOTHING,
                    1 => self.false_lock(slot, view),
                    2 => Shown { lock: Lock::NOTHING, writes: self.many_writes(slot, view) },
                    _ => self.copied(slot, view),
                },
            };
        }
        ViewChange { from, view, stable, slots }
    }

    fn false_lock(&mut self, slot: Slot, view: View) -> Shown {
        let (mut locked, mut batch) = (self.rng.usize(..view), self.lie(slot));
        // A lock with somebody's signature deceives best.
        if !self.signatures.is_empty() && self.rng.bool() {
            let (of, signed, it) = self.signatures[self.rng.usize(..self.signatures.len())];
            if of == slot && signed < view {
                (locked, batch) = (signed, it);
            }
        }
        let lock = self.signed_lock(slot, locked, batch);
        let mut writes = self.many_writes(slot, view);
        writes.set(batch, timestamp(view - 1, &self.group));
        while writes.len() > self.group.cap {
            let (other, _) = writes.iter().find(|(it, _)| *it != batch).expect("more than one");
            writes.remove(other);
        }
        Shown { lock, writes }
    }

    /// A lock with all signatures that exist for it.
    fn signed_lock(&self, slot: Slot, view: View, batch: Batch) -> Lock {
        let mut signers = self.liars;
        let signed = |it: &usize| self.signed[view][slot][*it].has(batch.into());
        (0..self.group.n).filter(signed).for_each(|it| signers.insert(it));
        Lock { ts: timestamp(view, &self.group), batch, signers }
    }

    /// The lock of a correct replica, or one at the same timestamp.
    fn copied(&mut self, slot: Slot, view: View) -> Shown {
        let other = self.any_of(self.up).expect("a correct replica");
        let lock = self.replicas[other].entries[slot].lock;
        let (Some(batch), true) = (lock.batch(), lock.ts <= timestamp(view - 1, &self.group))
        else {
            return Shown::NOTHING;
        };
        let batch = if self.rng.u8(..3) == 0 { self.lie(slot) } else { batch };
        let views = usize::from(lock.ts) + usize::from(timestamp(0, &self.group) == 0);
        let lock = self.signed_lock(slot, views - 1, batch);
        let mut writes = Writes::default();
        writes.set(batch, lock.ts);
        Shown { lock, writes }
    }

    /// As many writes as a table takes, all of the last view.
    fn many_writes(&mut self, slot: Slot, view: View) -> Writes {
        let mut writes = Writes::default();
        let last: Ts = timestamp(view - 1, &self.group);
        for _ in 0..self.rng.usize(1..=self.group.cap) {
            let batch = self.lie(slot);
            writes.set(batch, last);
        }
        if self.rng.u8(..4) == 0 && writes.len() < self.group.cap {
            writes.set(EMPTY, last);
        }
        writes
    }
}
