//! What a replica had certified before it stopped.

use super::Entry;
use pentarchy_core::counter::{Position, Refused, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::mutant;
use std::collections::BTreeMap;

/// Identifiers that the device gave before the crash. The core says again what it had said; whoever
/// has these need not ask the device, which may have forgotten.
#[derive(Clone, Debug, Default)]
pub struct Certificates(BTreeMap<Position, (Digest, Ui)>);

impl Certificates {
    /// Brings a fresh device of the same life, in the epoch of these entries, to where the one
    /// before was, or a step further.
    ///
    /// # Errors
    /// [`Refused`] if it is not fresh, or cannot have certified this: the replica must not go on.
    pub fn recalled<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
        device: &mut dyn Usig,
    ) -> Result<Self, Refused> {
        let mut certificates = Self::default();
        let mut begun = false;
        for entry in entries {
            match entry {
                // A later one says what the entries before it have led to already.
                Entry::Memory(memory) if !begun => {
                    if !mutant!("kept.device-memory-not-restored") {
                        device.restore(memory)?;
                    }
                    begun = true;
                }
                Entry::Issued { ui, digest } => certificates.insert(*ui, *digest),
                Entry::Certified { position, digest } => {
                    begun = true;
                    let forgets = mutant!("kept.last-positions-forgotten");
                    if !forgets && certificates.get(*position, digest).is_none() {
                        certificates.insert(device.create(*position, digest)?, *digest);
                    }
                }
                Entry::Memory(_) | Entry::Record(_) => {}
            }
        }
        Ok(certificates)
    }

    fn insert(&mut self, ui: Ui, digest: Digest) {
        self.0.insert(ui.position, (digest, ui));
    }

    /// The identifier that this statement was given at this position.
    #[must_use]
    pub fn get(&self, position: Position, digest: &Digest) -> Option<Ui> {
        self.0.get(&position).filter(|(of, _)| of == digest).map(|(_, ui)| *ui)
    }

    /// All, by position, with what they were given to.
    pub fn iter(&self) -> impl Iterator<Item = (&Ui, &Digest)> {
        self.0.values().map(|(digest, ui)| (ui, digest))
    }
}
