//! Checkpoints: who signs them, what proves them, and who takes the state of others.

use super::rules::Fault;
use super::types::{Checkpoint, Member, SLOTS, Set, Slot};
use super::world::World;

impl World {
    /// A replica signs the last checkpoint that it has executed, and makes the highest proved one
    /// stable if it can get the state. Whether it did either.
    pub(super) fn checkpoint(&mut self, me: Member) -> bool {
        let group = self.group;
        let replica = &mut self.replicas[me];
        let reached = replica.executed - replica.executed % group.every;
        let mut news = false;
        if reached > 0 && !self.checkpoints[reached].has(me) {
            self.checkpoints[reached].insert(me);
            if !group.lacks(Fault::CheckpointNotDurable) {
                replica.saved = replica.saved.max(reached);
            }
            news = true;
            if self.checkpoints[reached].or(self.liars).len() >= group.quorum {
                self.note_proof(Checkpoint { slot: reached, view: self.replicas[me].view });
            }
        }
        let signs = self.liars_sign && !self.quiet;
        let signers = if signs { self.liars } else { Set::default() };
        let slot = self.proved(signers);
        if slot > self.replicas[me].stable.slot {
            self.note_proof(Checkpoint { slot, view: self.replicas[me].view });
            if self.up.iter().any(|it| self.replicas[it].executed >= slot) {
                self.replicas[me].stabilize(slot, &group);
                news = true;
            }
        }
        let slot = self.vouched();
        let has_state = |it: usize| self.replicas[it].executed >= slot;
        if slot > self.replicas[me].executed && self.up.iter().any(has_state) {
            self.replicas[me].saved = slot;
            self.replicas[me].executed = slot;
            self.replicas[me].execute();
            news = true;
        }
        news
    }

    /// The highest checkpoint that a replica can have proved to it, if these liars sign.
    fn proved(&self, signers: Set) -> Slot {
        let signed = |slot: &Slot| self.checkpoints[*slot].or(signers).len() >= self.group.quorum;
        let kept = |it: usize| {
            let replica = &self.replicas[it];
            replica.stable.slot.max(replica.outcomes.base.slot)
        };
        let kept = self.up.iter().map(kept).max().unwrap_or(0);
        (1..=SLOTS).rev().find(signed).unwrap_or(0).max(kept)
    }

    /// The highest checkpoint that f + 1 members say they have reached: one of them is correct.
    fn vouched(&self) -> Slot {
        if self.group.lacks(Fault::StateNeedsQuorum) {
            return 0;
        }
        let liars = if self.group.crash() { 0 } else { self.group.f };
        let vouches = |slot: &Slot| self.checkpoints[*slot].and(self.up).len() > liars;
        (1..=SLOTS).rev().find(vouches).unwrap_or(0)
    }

    fn note_proof(&mut self, proof: Checkpoint) {
        if !self.proofs.contains(&proof) {
            self.proofs.push(proof);
        }
    }
}
