//! No two correct replicas execute different batches in one slot, and each executes every slot
//! once, in order.

use super::Broken;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "agreement";

/// What was executed where.
#[derive(Default)]
pub struct Agreement {
    slots: BTreeMap<Slot, (Digest, ReplicaId)>,
    executed: BTreeMap<ReplicaId, Slot>,
}

impl Agreement {
    /// A correct replica executed a batch. True if it is the first to execute this slot.
    ///
    /// # Errors
    /// If another batch was executed there, or the slot is not the next one.
    pub fn executed(
        &mut self,
        replica: ReplicaId,
        slot: Slot,
        batch: Digest,
    ) -> Result<bool, Broken> {
        let last = self.executed.entry(replica).or_default();
        if slot != last.next() {
            let detail = format!("{replica} executes {slot} after {last}");
            return Err(Broken::new(PROPERTY, detail));
        }
        *last = slot;
        match self.slots.get(&slot) {
            None => {
                self.slots.insert(slot, (batch, replica));
                Ok(true)
            }
            Some((known, _)) if *known == batch => Ok(false),
            Some((known, first)) => {
                let detail =
                    format!("at {slot} {first} executes batch {known} and {replica} {batch}");
                Err(Broken::new(PROPERTY, detail))
            }
        }
    }

    /// A correct replica installed the state of a slot and goes on behind it.
    pub fn installed(&mut self, replica: ReplicaId, slot: Slot) {
        let last = self.executed.entry(replica).or_default();
        *last = slot.max(*last);
    }

    /// A correct replica starts again from the state of a slot, and executes what is behind it
    /// again.
    pub fn resumed(&mut self, replica: ReplicaId, slot: Slot) {
        self.executed.insert(replica, slot);
    }

    /// The last slot that was executed anywhere; 0 if none was.
    #[must_use]
    pub fn highest(&self) -> Slot {
        self.slots.last_key_value().map_or(Slot(0), |(slot, _)| *slot)
    }

    /// Slots that were executed anywhere.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.slots.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);

    #[test]
    fn two_batches_in_one_slot_are_found() {
        let mut checker = Agreement::default();
        assert_eq!(checker.executed(ReplicaId(0), Slot(1), A), Ok(true));
        assert_eq!(checker.executed(ReplicaId(1), Slot(1), A), Ok(false));
        let broken = checker.executed(ReplicaId(2), Slot(1), B).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains("r0") && broken.detail.contains("r2"), "{broken}");
    }

    #[test]
    fn repeated_and_skipped_slots_are_found() {
        let mut checker = Agreement::default();
        checker.executed(ReplicaId(0), Slot(1), A).unwrap();
        assert!(checker.executed(ReplicaId(0), Slot(1), A).is_err());
        assert!(checker.executed(ReplicaId(0), Slot(3), A).is_err());
        checker.installed(ReplicaId(0), Slot(7));
        assert_eq!(checker.highest(), Slot(1), "an installed state was executed by others");
        assert_eq!(checker.executed(ReplicaId(0), Slot(8), A), Ok(true));
        assert_eq!(checker.highest(), Slot(8));
        checker.resumed(ReplicaId(0), Slot(1));
        assert_eq!(checker.highest(), Slot(8), "what a crash took is still missed");
    }
}
