//! One log over all epochs: each epoch ends at one slot, with one state, because a member asked to
//! be admitted in that slot; the next one begins there, for all correct replicas alike, and no slot
//! is executed in two epochs.

use super::{Broken, Verdict};
use pentarchy_core::batch::Batch;
use pentarchy_core::epochs::{Admission, Handover};
use pentarchy_core::ids::{Epoch, ReplicaId, Slot};
use pentarchy_core::membership::{Life, Member, Membership};
use pentarchy_core::wire::Wire;
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "epoch_handover";

/// See the [module](self).
#[derive(Default)]
pub struct EpochHandover {
    /// The members of each epoch as the first correct replica that was there had them.
    memberships: BTreeMap<Epoch, Membership>,
    /// How each epoch ended, as the first correct replica that executed so far says.
    ends: BTreeMap<Epoch, (Handover, ReplicaId)>,
    /// Where each correct replica is.
    at: BTreeMap<ReplicaId, (Epoch, Slot)>,
    /// The epoch in which a slot was executed.
    slots: BTreeMap<Slot, Epoch>,
    /// Who asked in which slot to be admitted with which device.
    asked: BTreeMap<Slot, Vec<(ReplicaId, Life)>>,
}

fn broken(detail: String) -> Verdict {
    Err(Broken::new(PROPERTY, detail))
}

impl EpochHandover {
    /// The group as it begins.
    #[must_use]
    pub fn new(first: Membership) -> Self {
        Self { memberships: BTreeMap::from([(first.epoch, first)]), ..Self::default() }
    }

    fn epoch(&self, replica: ReplicaId) -> Epoch {
        self.at.get(&replica).map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    /// A correct replica executed a batch.
    ///
    /// # Errors
    /// If the slot does not belong to the epoch in which it is.
    pub fn executed(&mut self, replica: ReplicaId, slot: Slot, batch: &Batch) -> Verdict {
        let epoch = self.epoch(replica);
        self.at.insert(replica, (epoch, slot));
        let first = *self.slots.entry(slot).or_insert(epoch);
        if first != epoch {
            return broken(format!("{replica} executes {slot} in {epoch}; others did in {first}"));
        }
        let base = self.memberships[&epoch].base.slot;
        if slot <= base {
            return broken(format!("{replica} executes {slot} in {epoch}, which begins at {base}"));
        }
        if let Some((end, who)) = self.ends.get(&epoch)
            && slot > end.base.slot
        {
            let end = end.base.slot;
            return broken(format!("{replica} executes {slot}; {who} ended {epoch} at {end}"));
        }
        let members = &self.memberships[&epoch];
        let asked = batch.envelopes.iter().filter_map(|envelope| {
            let member = members.member(&envelope.client)?;
            Some(envelope.requests.iter().filter_map(move |request| {
                let Admission(life) = Admission::from_bytes(&request.operation).ok()?;
                Some((member, life))
            }))
        });
        let asked: Vec<(ReplicaId, Life)> = asked.flatten().collect();
        self.asked.entry(slot).or_insert(asked);
        Ok(())
    }

    /// A correct replica installed a state.
    pub fn installed(&mut self, replica: ReplicaId, slot: Slot) {
        self.at.insert(replica, (self.epoch(replica), slot));
    }

    /// A correct replica executed the last slot of an epoch, as it says.
    ///
    /// # Errors
    /// If another one says otherwise, somebody executed behind it, or a device counts from there
    /// on that nobody asked for in this slot.
    pub fn ended(&mut self, replica: ReplicaId, handover: &Handover) -> Verdict {
        let Handover { epoch, base, lives } = handover;
        let at = self.at.get(&replica).copied().unwrap_or_default();
        if at != (*epoch, base.slot) {
            return broken(format!("{replica}, at {at:?}, ends {epoch} at {}", base.slot));
        }
        if let Some((other, who)) = self.ends.get(epoch) {
            if other != handover {
                return broken(format!("{replica} ends with {handover:?}, {who} with {other:?}"));
            }
            return Ok(());
        }
        let behind = self.slots.range(base.slot.next()..).find(|(_, in_epoch)| *in_epoch == epoch);
        if let Some((slot, _)) = behind {
            return broken(format!("{epoch} ends at {}, but {slot} was executed in it", base.slot));
        }
        let before = self.memberships[epoch].members.iter().map(Member::life);
        let asked = self.asked.get(&base.slot).map(Vec::as_slice).unwrap_or_default();
        for ((index, before), after) in (0..).zip(before).zip(lives) {
            if before != *after && !asked.contains(&(ReplicaId(index), *after)) {
                let detail = format!("{replica} admits {after:?} of r{index}, who did not ask");
                return broken(detail);
            }
        }
        self.ends.insert(*epoch, (handover.clone(), replica));
        Ok(())
    }

    /// A correct replica goes on in an epoch.
    ///
    /// # Errors
    /// If it was there already, or no correct replica ended the one before like that.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) -> Verdict {
        let (epoch, was) = (membership.epoch, self.epoch(replica));
        if epoch <= was {
            return broken(format!("{replica} goes from {was} to {epoch}"));
        }
        let last = self.at.get(&replica).map_or(Slot(0), |(_, slot)| *slot);
        if last > membership.base.slot {
            let base = membership.base.slot;
            return broken(format!("{replica} executed {last}, and {epoch} begins at {base}"));
        }
        let before = Epoch(epoch.0 - 1);
        let follows = self.ends.get(&before).map(|(end, _)| self.memberships[&before].after(end));
        if follows.as_ref() != Some(membership) {
            let detail = format!(
                "{replica} begins {membership:?}; correct replicas ended {before} with {follows:?}"
            );
            return broken(detail);
        }
        self.memberships.insert(epoch, membership.clone());
        self.at.insert(replica, (epoch, last));
        Ok(())
    }

    /// A replica lost its memory.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.at.remove(&replica);
    }

    /// Epochs that began behind the first one.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.memberships.len() as u64 - 1
    }
}
