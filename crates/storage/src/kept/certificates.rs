//! What a replica had certified before it stopped.

use super::Entry;
use pentarchy_core::counter::{Counters, Instance, Position, Refused, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::mutant;
use std::collections::{BTreeMap, BTreeSet};

/// Identifiers that the device gave before the crash. The core says again what it had said; whoever
/// has these need not ask the device, which may have forgotten.
#[derive(Clone, Debug, Default)]
pub struct Certificates(BTreeMap<(Instance, Position), (Digest, Ui)>);

impl Certificates {
    /// Brings fresh devices of the same life, in the epoch of these entries, to where the ones
    /// before were, or a step further.
    ///
    /// # Errors
    /// [`Refused`] if one is missing or not fresh, or cannot have certified this: the replica must
    /// not go on.
    pub fn recalled<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
        devices: &mut dyn Counters,
    ) -> Result<Self, Refused> {
        let mut certificates = Self::default();
        let mut begun = BTreeSet::new();
        for entry in entries {
            match entry {
                // A later one says what the entries before it have led to already.
                Entry::Memory(instance, memory) if !begun.contains(instance) => {
                    if !mutant!("kept.device-memory-not-restored") {
                        devices.of(*instance)?.restore(memory)?;
                    }
                    begun.insert(*instance);
                }
                Entry::Issued { ui, digest } => certificates.insert(*ui, *digest),
                Entry::Certified { instance, position, digest } => {
                    begun.insert(*instance);
                    let forgets = mutant!("kept.last-positions-forgotten");
                    if !forgets && certificates.get(*instance, *position, digest).is_none() {
                        let device = devices.of(*instance)?;
                        certificates.insert(device.create(*position, digest)?, *digest);
                    }
                }
                Entry::Memory(..) | Entry::Record(_) => {}
            }
        }
        Ok(certificates)
    }

    fn insert(&mut self, ui: Ui, digest: Digest) {
        self.0.insert((ui.instance, ui.position), (digest, ui));
    }

    /// The identifier that this statement was given by this device at this position.
    #[must_use]
    pub fn get(&self, instance: Instance, position: Position, digest: &Digest) -> Option<Ui> {
        self.0.get(&(instance, position)).filter(|(of, _)| of == digest).map(|(_, ui)| *ui)
    }

    /// Those of one device.
    #[must_use]
    pub fn of(&self, instance: Instance) -> Self {
        let its = self.0.iter().filter(|((of, _), _)| *of == instance);
        Self(its.map(|(at, given)| (*at, *given)).collect())
    }

    /// All, by device and position, with what they were given to.
    pub fn iter(&self) -> impl Iterator<Item = (&Ui, &Digest)> {
        self.0.values().map(|(digest, ui)| (ui, digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::counter::Certificate;
    use pentarchy_core::ids::{Incarnation, View};

    #[test]
    fn whoever_speaks_for_one_device_has_what_that_had_certified() {
        let position = |index| Position::new(View(0), index);
        let digest = Digest([7; 32]);
        let mut all = Certificates::default();
        for (instance, index) in [(0, 1), (1, 1), (1, 2), (2, 3)] {
            let (position, certificate) = (position(index), Certificate::Mac([0; 32]));
            let instance = Instance(instance);
            let incarnation = Incarnation(1);
            let ui = Ui { incarnation, instance, position, committed: position, certificate };
            all.insert(ui, digest);
        }
        let its = all.of(Instance(1));
        let indices: Vec<u64> = its.iter().map(|(ui, _)| ui.position.index).collect();
        assert_eq!(indices, [1, 2]);
        assert!(its.get(Instance(1), position(2), &digest).is_some());
        assert!(its.get(Instance(0), position(1), &digest).is_none());
    }
}
