//! One vote per replica. Counting distinct members with identical values is the only way to a
//! quorum, and a second, different vote falls out as equivocation.

use crate::ids::{ReplicaId, ReplicaSet};
use crate::mutant;
use alloc::vec::Vec;

/// What became of a vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// It is the replica's first.
    Counted,
    /// The replica had said the same before.
    Repeated,
    /// The replica had said something else before; the first stands.
    Conflicting,
}

/// At most one vote of each replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Votes<T> {
    votes: Vec<(ReplicaId, T)>,
    voters: ReplicaSet,
}

impl<T> Default for Votes<T> {
    fn default() -> Self {
        Self { votes: Vec::new(), voters: ReplicaSet::EMPTY }
    }
}

impl<T: PartialEq> Votes<T> {
    /// Counts a vote.
    pub fn cast(&mut self, voter: ReplicaId, vote: T) -> Cast {
        if self.voters.insert(voter) || mutant!("votes.twice-counts-twice") {
            self.votes.push((voter, vote));
            return Cast::Counted;
        }
        let same = self.votes.iter().any(|(who, what)| *who == voter && *what == vote);
        if same { Cast::Repeated } else { Cast::Conflicting }
    }

    /// How many replicas said exactly this.
    #[must_use]
    pub fn count(&self, vote: &T) -> usize {
        self.votes.iter().filter(|(_, what)| what == vote).count()
    }

    /// Who said exactly this.
    #[must_use]
    pub fn who(&self, vote: &T) -> ReplicaSet {
        self.votes.iter().filter(|(_, what)| what == vote).map(|(who, _)| *who).collect()
    }

    /// Who has voted at all.
    #[must_use]
    pub const fn voters(&self) -> ReplicaSet {
        self.voters
    }
}
