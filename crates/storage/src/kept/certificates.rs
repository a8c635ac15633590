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

    /// All, by device and position, with what they were given to.
    pub fn iter(&self) -> impl Iterator<Item = (&Ui, &Digest)> {
        self.0.values().map(|(digest, ui)| (ui, digest))
    }
}
