//! How many are enough. The only place that counts quorums. Which of them a protocol needs, its
//! [`Rules`](crate::protocol::Rules) say; nothing here infers that from the size of a group.

use core::fmt;

/// The size of a group and the number of its members that may lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quorums {
    /// Members.
    pub n: usize,
    /// Faulty members that are tolerated.
    pub f: usize,
}

impl Quorums {
    /// At least one of these is correct: `f + 1`.
    #[must_use]
    pub const fn weak(self) -> usize {
        self.f + 1
    }

    /// Any two of these share a member: `floor(n / 2) + 1`.
    #[must_use]
    pub const fn majority(self) -> usize {
        self.n / 2 + 1
    }

    /// Any two of these share a correct member: `floor((n + f) / 2) + 1`, which is `2f + 1` of
    /// `3f + 1`.
    #[must_use]
    pub const fn byzantine_quorum(self) -> usize {
        (self.n + self.f) / 2 + 1
    }
}

/// A number of replicas that grows with the number of faults: `per_fault * f + more`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Count {
    /// How many for each fault.
    pub per_fault: usize,
    /// How many without any fault.
    pub more: usize,
}

impl Count {
    /// `per_fault * f + 1`.
    #[must_use]
    pub const fn per_fault_and_one(per_fault: usize) -> Self {
        Self { per_fault, more: 1 }
    }

    /// The number for `f` faults.
    #[must_use]
    pub const fn of(self, f: usize) -> usize {
        self.per_fault * f + self.more
    }

    /// For how many faults so many replicas are enough.
    #[must_use]
    pub const fn faults(self, n: usize) -> usize {
        match n.saturating_sub(self.more).checked_div(self.per_fault) {
            Some(f) => f,
            None => 0,
        }
    }
}

/// As in papers: `2f + 1`.
impl fmt::Display for Count {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.per_fault {
            0 => return write!(out, "{}", self.more),
            1 => out.write_str("f")?,
            many => write!(out, "{many}f")?,
        }
        if self.more == 0 { Ok(()) } else { write!(out, " + {}", self.more) }
    }
}

/// Which sets of replicas decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QuorumRule {
    /// Any two share a member. Enough where no member can say two different things.
    Majority,
    /// Any two share a correct member.
    Byzantine,
    /// There is one, of all members: when one of them fails, nothing is decided until whoever is in
    /// [authority](crate::protocol::Authority) begins an epoch without it.
    All,
}

impl QuorumRule {
    /// The size of a quorum in this group.
    #[must_use]
    pub const fn size(self, group: Quorums) -> usize {
        match self {
            Self::Majority => group.majority(),
            Self::Byzantine => group.byzantine_quorum(),
            Self::All => group.n,
        }
    }

    /// Whether a protocol with these quorums is safe and live in this group: any two share what
    /// they have to, and the correct members form one, unless all are needed.
    #[must_use]
    pub const fn works_in(self, group: Quorums) -> bool {
        let quorum = self.size(group);
        let shared = match self {
            Self::Majority => group.n,
            Self::Byzantine => group.n + group.f,
            Self::All => return group.n > group.f,
        };
        2 * quorum > shared && group.n >= quorum + group.f
    }
}

/// How many equal answers to a query a client believes, so that nothing is missing that a client
/// was told before: with as many [replies](ClientQuorums::replies) they have a correct replica in
/// common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadRule {
    /// Those of all replicas.
    All,
    /// Those of all but `f`.
    AllButFaulty,
}

impl ReadRule {
    /// How many that are in this group.
    #[must_use]
    pub const fn answers(self, group: Quorums) -> usize {
        match self {
            Self::All => group.n,
            Self::AllButFaulty => group.n - group.f,
        }
    }
}

/// What a client goes by, of a group with a protocol's rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientQuorums {
    /// The group.
    pub group: Quorums,
    /// So many equal replies a client believes: at least one is of a correct replica.
    pub replies: usize,
    /// So many equal answers to a query it believes; see [`ReadRule`].
    pub answers: usize,
}

const _: () = {
    let mut f = 0;
    while f < 32 {
        let group = Quorums { n: 2 * f + 1, f };
        assert!(QuorumRule::Majority.works_in(group));
        assert!(group.majority() == group.weak());
        assert!(f == 0 || !QuorumRule::Byzantine.works_in(group));
        let group = Quorums { n: 3 * f + 1, f };
        assert!(QuorumRule::Byzantine.works_in(group));
        assert!(group.byzantine_quorum() == 2 * f + 1);
        assert!(Count::per_fault_and_one(3).faults(group.n) == f);
        f += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn counts_are_written_as_in_papers() {
        let count = |per_fault, more| Count { per_fault, more }.to_string();
        assert_eq!(
            [count(2, 1), count(1, 1), count(0, 1), count(1, 0)],
            ["2f + 1", "f + 1", "1", "f"]
        );
    }
}
