//! What a replica knows of a slot: what outlasts views, and what counts in one view only.

use super::message::Message;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::votes::Votes;
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

    /// Batches and views, by digest.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, View)> {
        self.0.iter().map(|(batch, view)| (*batch, *view))
    }
}

/// What counts in the view that was entered last.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Round {
    /// What this replica writes as soon as it holds it: the batch that the primary proposes, that
    /// the view took over, or that somebody correct wrote.
    pub candidate: Option<Digest>,
    /// What the primary proposes.
    pub proposed: Option<Digest>,
    /// What this replica wrote: one batch in each view.
    pub wrote: Option<Digest>,
    /// Who wrote what; of a liar the first.
    pub heard: Votes<Digest>,
    /// The signatures of those whose WRITE, as it is counted, is signed.
    pub signatures: BTreeMap<ReplicaId, Signature>,
    /// What a quorum wrote.
    pub written: Option<Digest>,
    /// Whether this replica locked it, and sent ACCEPT.
    pub locked: bool,
    /// Who locked what.
    pub accepts: Votes<Digest>,
    /// This replica's own PROPOSE or WRITE, to send again.
    pub own_write: Option<Verified<Message>>,
    /// This replica's own ACCEPT.
    pub own_accept: Option<Verified<Message>>,
}

/// What is known of a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SlotState {
    /// Of the highest view in which this replica locked a batch.
    pub lock: Option<Lock>,
    /// What it wrote and has to show.
    pub writes: Writes,
    /// Who told which decision.
    pub told: Votes<Digest>,
    /// What is decided, whether or not it is whole here.
    pub chosen: Option<Digest>,
    /// The same once it is whole, and in the log.
    pub decided: Option<Digest>,
    /// Of the view.
    pub round: Round,
}

impl SlotState {
    /// What the slot orders, as far as this replica knows.
    pub fn ordered(&self) -> Option<Digest> {
        self.chosen.or(self.round.candidate)
    }

    /// Every batch of which this replica may need the body.
    pub fn batches(&self) -> impl Iterator<Item = Digest> {
        let Round { candidate, proposed, wrote, written, .. } = &self.round;
        let one = [*candidate, *proposed, *wrote, *written, self.chosen];
        let locked = self.lock.iter().map(|lock| lock.batch);
        let written = self.writes.iter().map(|(batch, _)| batch);
        one.into_iter().flatten().chain(locked).chain(written)
    }

    /// A quorum wrote the batch: this replica keeps that until a quorum writes in a higher view.
    pub fn lock(&mut self, lock: Lock) {
        self.writes.drop_below(lock.view);
        self.lock = Some(lock);
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
        assert!(writes.len() == 0 && writes.has_room(&batch(9)));
    }
}
