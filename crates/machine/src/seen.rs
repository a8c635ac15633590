//! What each replica said last, as far as this one looked at it: for peers that ask before they
//! resume.

use pentarchy_core::counter::{Instance, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::Incoming;
use pentarchy_core::ids::{Epoch, ReplicaId};
use pentarchy_core::mutant;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Others' statements that a thread has seen in an epoch, for the replica's thread to tell of.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Lasts>>);

#[derive(Default)]
struct Lasts {
    epoch: Epoch,
    /// The last statement of each counter: no more than members have.
    of: BTreeMap<(ReplicaId, Instance), (Digest, Ui)>,
}

impl Seen {
    /// A message came in this epoch; if a device certified it, it is noted.
    pub(crate) fn note(&self, epoch: Epoch, incoming: &Incoming) {
        if let Some((author, digest, ui)) = incoming.certified() {
            self.note_certified(epoch, *author, *digest, *ui);
        }
    }

    /// A replica's device certified this in this epoch.
    pub(crate) fn note_certified(&self, epoch: Epoch, author: ReplicaId, digest: Digest, ui: Ui) {
        let mut lasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lasts.epoch != epoch {
            *lasts = Lasts { epoch, of: BTreeMap::new() };
        }
        let counter = (author, ui.instance);
        let known = lasts.of.get(&counter).map(|(_, ui)| ui.position);
        let is_later = known < Some(ui.position);
        if known.is_none() || (is_later && !mutant!("resuming.first-seen-stays")) {
            lasts.of.insert(counter, (digest, ui));
        }
    }

    /// Those of a replica.
    pub(crate) fn of(&self, epoch: Epoch, replica: ReplicaId) -> Vec<(Digest, Ui)> {
        let lasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let its = (replica, Instance::FIRST)..=(replica, Instance(u8::MAX));
        let its = lasts.of.range(its).filter(|_| lasts.epoch == epoch);
        its.map(|(_, last)| *last).collect()
    }
}
