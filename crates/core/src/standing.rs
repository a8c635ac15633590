//! What a replica tells whoever asks how its group came to be what it is: clients that were away,
//! and machines that are to become members.

use crate::change::Change;
use crate::epochs::Proof;
use crate::ids::Epoch;
use crate::limits::LINKS_TOLD_MAX;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How a group stands, as one replica says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    /// The replica's epoch. One replica's word.
    pub epoch: Epoch,
    /// How configurations ended, one after the other, from the one on that was asked for; at most
    /// [`LINKS_TOLD_MAX`]. Each proves itself to who knows the one that it ends.
    pub links: Vec<Proof>,
    /// The change that waits for its members. One replica's word.
    pub pending: Option<Arc<Change>>,
}

impl Wire for Standing {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        to.sequence(&self.links);
        to.option(self.pending.as_deref());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, links) = (Epoch::decode(from)?, from.sequence(LINKS_TOLD_MAX)?);
        Ok(Self { epoch, links, pending: from.option()?.map(Arc::new) })
    }
}
