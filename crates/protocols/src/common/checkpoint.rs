//! The table behind checkpoints: who signed which state, which proof waits for execution, and where
//! the next checkpoint is due. How many signatures are proof is the protocol's to say.

use super::certificate::{CheckpointProof, Vouched};
use super::extent::Extent;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::protocol::Tuning;

/// Signed states of each replica. A liar can only fill its own row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Checkpoints<S = Digest> {
    /// What was executed since.
    extent: Extent,
    rows: Vec<BTreeMap<Slot, (S, Signature)>>,
    /// States kept for each replica: those of a window, and some beyond for a replica far ahead.
    row_max: usize,
    /// The own last states, also before they come back signed.
    mine: BTreeMap<Slot, S>,
    /// Proven checkpoints above the stable one, that execution has not reached; the highest that
    /// were heard of, at most [`AHEAD_MAX`]. Ordering still might reach the last one, and the
    /// states of the others may have been asked for.
    ahead: BTreeMap<Slot, CheckpointProof<S>>,
    /// Ticks that `ahead` has waited without progress.
    patience: u8,
    /// What was committed at the last tick.
    reached: Slot,
}

/// What became of a proven checkpoint that execution had not reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Overdue<S = Digest> {
    /// There is none, or its slots may still come.
    No,
    /// Execution has reached it.
    Reached(CheckpointProof<S>),
    /// Its slots do not come: the state is to be fetched.
    Missed(CheckpointProof<S>),
}

/// Ticks without progress for which slots may still be on their way.
const PATIENCE_TICKS: u8 = 2;

/// Proofs kept of states that are not here. A host fetches one, and then the last it heard of.
const AHEAD_MAX: usize = 4;

impl<S: Vouched> Checkpoints<S> {
    /// Empty, for this many replicas, which share these sizes.
    #[must_use]
    pub fn new(n: usize, tuning: &Tuning) -> Self {
        let rows = vec![BTreeMap::new(); n];
        Self {
            extent: Extent::default(),
            rows,
            row_max: 2 * tuning.snapshots_kept(1),
            mine: BTreeMap::new(),
            ahead: BTreeMap::new(),
            patience: 0,
            reached: Slot(0),
        }
    }

    /// The bytes that this replica executed since the stable checkpoint.
    #[must_use]
    pub fn executed_bytes(&self) -> usize {
        self.extent.bytes()
    }

    /// A slot was executed; says whether a checkpoint is to be taken behind it.
    pub fn executed(&mut self, slot: Slot, bytes: usize, tuning: &Tuning) -> bool {
        self.extent.executed(slot, bytes, tuning)
    }

    /// A slot of a pillar was executed: where checkpoints are is decided for all pillars together.
    pub fn executed_in_pillar(&mut self, slot: Slot, bytes: usize) {
        self.extent.executed_in_pillar(slot, bytes);
    }

    /// There is a checkpoint at this slot, for whatever reason it was taken.
    pub fn note_taken(&mut self, slot: Slot) {
        self.extent.begin(slot);
    }

    /// How to take back that a slot is executed; none if a checkpoint is to be taken behind it.
    #[must_use]
    pub fn if_not_due(&self, slot: Slot, bytes: usize, tuning: &Tuning) -> Option<Extent> {
        let is_due = self.extent.clone().executed(slot, bytes, tuning);
        (!is_due).then(|| self.extent.clone())
    }

    /// Takes back what was executed since.
    pub fn restore(&mut self, extent: Extent) {
        self.extent = extent;
    }

    /// Counts anew what was executed since the stable checkpoint, slot by slot. Gives the last slot
    /// behind which a checkpoint is to be taken.
    pub fn count_anew(
        &mut self,
        executed: impl Iterator<Item = (Slot, usize)>,
        tuning: &Tuning,
    ) -> Option<Slot> {
        self.extent = Extent::default();
        let extent = &mut self.extent;
        executed
            .filter(|(slot, bytes)| extent.executed(*slot, *bytes, tuning))
            .last()
            .map(|it| it.0)
    }

    /// Notes a signed state; returns what the replica had signed there before if it differs.
    pub fn note(&mut self, author: ReplicaId, slot: Slot, vote: (S, Signature)) -> Option<S> {
        let row = &mut self.rows[usize::from(author.0)];
        if let Some((before, _)) = row.get(&slot) {
            return Some(*before).filter(|before| *before != vote.0);
        }
        row.insert(slot, vote);
        if row.len() > self.row_max {
            row.pop_first();
        }
        None
    }

    /// Whether a replica is known to have signed this state.
    #[must_use]
    pub fn has_signed(&self, author: ReplicaId, slot: Slot, state: &S) -> bool {
        let row = &self.rows[usize::from(author.0)];
        row.get(&slot).is_some_and(|(signed, _)| signed == state)
    }

    /// The proof that a state is stable, if enough replicas signed it.
    #[must_use]
    pub fn proof(&self, slot: Slot, state: S, quorum: usize) -> Option<CheckpointProof<S>> {
        let signatures: Vec<_> = (0u16..)
            .map(ReplicaId)
            .zip(&self.rows)
            .filter_map(|(id, row)| {
                row.get(&slot).filter(|vote| vote.0 == state).map(|v| (id, v.1))
            })
            .take(quorum)
            .collect();
        (signatures.len() == quorum).then_some(CheckpointProof { slot, state, signatures })
    }

    /// This replica has this state after the slot.
    pub fn announce(&mut self, slot: Slot, state: S) {
        self.mine.insert(slot, state);
    }

    /// The state that this replica announced after the slot.
    #[must_use]
    pub fn mine(&self, slot: Slot) -> Option<S> {
        self.mine.get(&slot).copied()
    }

    /// The checkpoint at this slot is stable: forgets what is below.
    pub fn stable(&mut self, slot: Slot) {
        self.rows.iter_mut().for_each(|row| row.retain(|at, _| *at >= slot));
        self.mine.retain(|at, _| *at >= slot);
        self.extent.stable(slot);
        self.patience = 0;
        self.ahead.retain(|at, _| *at > slot);
    }

    /// The proof of a state above the stable one.
    #[must_use]
    pub fn proven(&self, slot: Slot) -> Option<&CheckpointProof<S>> {
        self.ahead.get(&slot)
    }

    /// The state after the slot was installed: it has been announced by others, and nothing was
    /// executed since.
    pub fn installed(&mut self, slot: Slot) {
        self.extent = Extent::default();
        // What was announced for this one may have been wrong, and is not what is here any more.
        self.mine.retain(|at, _| *at < slot);
    }

    /// Waits for execution to reach a proven checkpoint; false if it waits for a later one.
    pub fn await_slots(&mut self, proof: CheckpointProof<S>) -> bool {
        let is_later = self.ahead().is_none_or(|ahead| ahead.slot < proof.slot);
        if is_later {
            self.ahead.insert(proof.slot, proof);
            if self.ahead.len() > AHEAD_MAX {
                self.ahead.pop_first();
            }
        }
        is_later
    }

    /// A tick passed, or a state was installed, with everything up to `committed` handed to
    /// execution. What lies above the `high` end of the window is nothing to wait for.
    pub fn overdue(&mut self, committed: Slot, high: Slot) -> Overdue<S> {
        let Some(ahead) = self.ahead() else { return Overdue::No };
        let is_reached = ahead.slot <= committed;
        if !is_reached && ahead.slot <= high {
            if committed > self.reached {
                self.reached = committed;
                self.patience = 0;
            }
            self.patience += 1;
            if self.patience <= PATIENCE_TICKS {
                return Overdue::No;
            }
        }
        match self.ahead.pop_last() {
            Some((_, proof)) if is_reached => Overdue::Reached(proof),
            Some((_, proof)) => Overdue::Missed(proof),
            None => Overdue::No,
        }
    }

    /// The last proven checkpoint that execution has not reached.
    #[must_use]
    pub fn ahead(&self) -> Option<&CheckpointProof<S>> {
        self.ahead.last_key_value().map(|(_, proof)| proof)
    }

    /// Whether a proven checkpoint waits for execution to reach it.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Who signed another state than this one.
    #[must_use]
    pub fn others(&self, slot: Slot, state: S) -> ReplicaSet {
        let rows = (0u16..).map(ReplicaId).zip(&self.rows);
        let other = |row: &BTreeMap<Slot, (S, Signature)>| {
            row.get(&slot).is_some_and(|vote| vote.0 != state)
        };
        rows.filter(|(_, row)| other(row)).map(|(id, _)| id).collect()
    }

    /// This replica's own signature at a slot, to send again.
    #[must_use]
    pub fn signed_by(&self, me: ReplicaId, slot: Slot) -> bool {
        self.rows[usize::from(me.0)].contains_key(&slot)
    }

    /// The highest state that this replica announced and that is not stable.
    #[must_use]
    pub fn latest_mine(&self) -> Option<(Slot, S)> {
        self.mine.last_key_value().map(|(slot, state)| (*slot, *state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_or_counted_anew_leads_to_checkpoints_at_the_same_slots() {
        let tuning = Tuning { checkpoint_slots: 4, checkpoint_bytes: 100, ..Tuning::default() };
        let mut checkpoints = Checkpoints::<Digest>::new(3, &tuning);
        let mut run = |slot, bytes| checkpoints.executed(Slot(slot), bytes, &tuning);
        assert_eq!([run(1, 10), run(2, 90), run(3, 10)], [false, true, false]);
        assert!(checkpoints.if_not_due(Slot(4), 1, &tuning).is_none(), "it is a fourth slot");
        let before = checkpoints.if_not_due(Slot(5), 1, &tuning).expect("nothing is due there");
        checkpoints.executed(Slot(5), 1, &tuning);
        checkpoints.restore(before);
        assert_eq!(checkpoints.executed_bytes(), 110);
        let again = [(1, 10), (2, 90), (3, 10)].map(|(slot, bytes)| (Slot(slot), bytes));
        let mut anew = Checkpoints::<Digest>::new(3, &tuning);
        assert_eq!(anew.count_anew(again.into_iter(), &tuning), Some(Slot(2)));
        assert_eq!(anew, checkpoints);
    }
}
