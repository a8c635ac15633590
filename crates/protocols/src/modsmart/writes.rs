//! What a replica wrote and locked in a slot, whatever views have passed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Batches of a slot that a replica keeps as written. A WRITE beyond is signed instead. More would
/// save signatures only where several views failed.
pub const WRITES_MAX: usize = 1;

/// A quorum wrote the batch in the view, and the replica says so by ACCEPT.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lock {
    /// The view.
    pub view: View,
    /// Digest of the proposal.
    pub batch: Digest,
    /// Signed WRITEs among the quorum, at most `f + 1`: their authors may not show them otherwise.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Wire for Lock {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.batch.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            batch: Digest::decode(from)?,
            signatures: from.sequence(REPLICAS_MAX)?,
        })
    }
}

/// What a replica wrote in a slot and has to show in every VIEW-CHANGE: each batch with the highest
/// view in which it was written.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Writes(BTreeMap<Digest, View>);

impl Writes {
    /// Whether the batch can be kept as written.
    #[must_use]
    pub fn has_room(&self, batch: &Digest) -> bool {
        self.0.contains_key(batch)
            || self.0.len() < WRITES_MAX
            || mutant!("modsmart.keeps-all-writes")
    }

    /// Keeps a batch as written in a view.
    pub fn note(&mut self, batch: Digest, view: View) {
        let known = self.0.entry(batch).or_insert(view);
        *known = view.max(*known);
    }

    /// Drops what was written below a lock: no lower lock can be bound any more.
    pub fn drop_below(&mut self, view: View) {
        self.0.retain(|_, written| *written >= view);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How many batches it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Batches and views, by digest.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, View)> {
        self.0.iter().map(|(batch, view)| (*batch, *view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_room_for_what_it_holds_and_forgets_what_a_lock_makes_useless() {
        let mut writes = Writes::default();
        let batch = |number: u8| Digest([number; 32]);
        for number in 0..WRITES_MAX as u8 {
            assert!(writes.has_room(&batch(number)));
            writes.note(batch(number), View(number.into()));
        }
        assert!(!writes.has_room(&batch(9)) && writes.has_room(&batch(0)));
        writes.note(batch(0), View(7));
        writes.note(batch(0), View(6));
        writes.drop_below(View(7));
        assert_eq!(writes.iter().collect::<Vec<_>>(), [(batch(0), View(7))]);
        writes.drop_below(View(8));
        assert!(writes.is_empty() && writes.has_room(&batch(9)));
    }
}
