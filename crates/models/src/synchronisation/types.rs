//! What the model counts: members, batches, locks, writes, and the VIEW-CHANGE that shows them.

/// A member's index.
pub(super) type Member = usize;
/// A view's number.
pub(super) type View = usize;
/// A slot's number, from 1.
pub(super) type Slot = usize;
/// A batch of one slot, named by its digest.
pub(super) type Batch = u8;
/// A view plus 1, so that 0 means "nothing".
pub(super) type Ts = u8;

/// The most members of a group.
pub(super) const MEMBERS: usize = 7;
/// The last slot of a run.
pub(super) const SLOTS: usize = 4;
/// The most views of a run, the quiet end included.
pub(super) const VIEWS: usize = 24;
/// How many batches there are for a slot.
pub(super) const BATCHES: usize = 7;
/// The batch without requests, which everybody holds.
pub(super) const EMPTY: Batch = 0;
/// A digest of which liars speak, although there is no such batch.
pub(super) const PHANTOM: Batch = 6;
/// How many batches primaries draw from: 1 to this.
pub(super) const REAL: Batch = 5;
/// The batch of a lock that is none.
const NONE: Batch = 15;

/// A set of small numbers: members, or batches of one slot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Set(u8);

impl Set {
    pub(super) fn first(count: usize) -> Self {
        Self(((1u16 << count) - 1) as u8)
    }

    pub(super) fn insert(&mut self, it: usize) {
        self.0 |= 1 << it;
    }

    pub(super) fn has(self, it: usize) -> bool {
        self.0 & (1 << it) != 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |it| self.has(*it))
    }
}

/// That a quorum wrote the batch in the view of this timestamp, in the eyes of one replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lock {
    pub(super) ts: Ts,
    pub(super) batch: Batch,
    /// Whose signed WRITEs of the batch at this timestamp the lock carries.
    pub(super) signers: Set,
}

impl Lock {
    pub(super) const NOTHING: Self = Self { ts: 0, batch: NONE, signers: Set(0) };

    pub(super) fn is(&self, ts: Ts, batch: Batch) -> bool {
        self.ts == ts && self.batch == batch
    }

    /// The batch, if there is a lock.
    pub(super) fn batch(&self) -> Option<Batch> {
        (self.batch != NONE).then_some(self.batch)
    }
}

/// The batches that a replica remembers to have written in a slot, each with its highest timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Writes([Ts; BATCHES]);

impl Writes {
    pub(super) fn get(&self, batch: Batch) -> Option<Ts> {
        self.0[usize::from(batch)].checked_sub(1)
    }

    pub(super) fn set(&mut self, batch: Batch, ts: Ts) {
        self.0[usize::from(batch)] = ts + 1;
    }

    pub(super) fn remove(&mut self, batch: Batch) {
        self.0[usize::from(batch)] = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Batch, Ts)> + use<> {
        let all = self.0;
        (0..BATCHES).filter_map(move |batch| Some((batch as Batch, all[batch].checked_sub(1)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(Batch, Ts) -> bool) {
        for (batch, ts) in self.iter() {
            if !keeps(batch, ts) {
                self.remove(batch);
            }
        }
    }
}

/// What a VIEW-CHANGE shows of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    pub(super) lock: Lock,
    pub(super) writes: Writes,
}

impl Shown {
    pub(super) const NOTHING: Self = Self { lock: Lock::NOTHING, writes: Writes([0; BATCHES]) };

    pub(super) fn batches(&self) -> Set {
        let mut all = Set::default();
        self.writes.iter().for_each(|(batch, _)| all.insert(batch.into()));
        if let Some(batch) = self.lock.batch() {
            all.insert(batch.into());
        }
        all
    }
}

/// A proved checkpoint, with the view in which its proof was put together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Checkpoint {
    pub(super) slot: Slot,
    pub(super) view: View,
}

/// A signed statement of what a member knows of the slots above its stable checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ViewChange {
    pub(super) from: Member,
    pub(super) view: View,
    pub(super) stable: Checkpoint,
    pub(super) slots: [Shown; SLOTS + 1],
}

/// One vote of each author, by batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Votes {
    by: [Set; BATCHES],
    authors: Set,
}

impl Votes {
    /// Counts the author's first vote. Whether it is one.
    pub(super) fn count(&mut self, author: Member, batch: Batch) -> bool {
        let first = !self.authors.has(author);
        if first {
            self.authors.insert(author);
            self.by[usize::from(batch)].insert(author);
        }
        first
    }

    pub(super) fn of(&self, batch: Batch) -> Set {
        self.by[usize::from(batch)]
    }

    /// A batch that so many voted for.
    pub(super) fn with(&self, enough: usize) -> Option<Batch> {
        (0..BATCHES as Batch).find(|batch| self.of(*batch).len() >= enough)
    }
}
