//! What a replica knows of a slot: what outlasts views, and what counts in one view only.

use super::message::Message;
use super::variant::Variant;
use super::writes::{Lock, Writes};
use alloc::collections::BTreeMap;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::votes::Votes;

/// What counts in the view that was entered last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Round<V: Variant> {
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
    pub own_write: Option<Verified<Message<V>>>,
    /// This replica's own ACCEPT.
    pub own_accept: Option<Verified<Message<V>>>,
}

/// What is known of a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SlotState<V: Variant> {
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
    pub round: Round<V>,
}

impl<V: Variant> Default for Round<V> {
    fn default() -> Self {
        Self {
            candidate: None,
            proposed: None,
            wrote: None,
            heard: Votes::default(),
            signatures: BTreeMap::new(),
            written: None,
            locked: false,
            accepts: Votes::default(),
            own_write: None,
            own_accept: None,
        }
    }
}

impl<V: Variant> Default for SlotState<V> {
    fn default() -> Self {
        Self {
            lock: None,
            writes: Writes::default(),
            told: Votes::default(),
            chosen: None,
            decided: None,
            round: Round::default(),
        }
    }
}

impl<V: Variant> SlotState<V> {
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
