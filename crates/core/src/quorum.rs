//! How many are enough. The only place that counts quorums.

/// The size of a group and the number of its members that may lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quorums {
    /// Members.
    pub n: usize,
    /// Faulty members that are tolerated.
    pub f: usize,
}

impl Quorums {
    /// The group of `2f + 1` in which trusted counters keep members from saying two things.
    #[must_use]
    pub const fn hybrid(f: usize) -> Self {
        Self { n: 2 * f + 1, f }
    }

    /// The group of `3f + 1`, in which members may say two things.
    #[must_use]
    pub const fn byzantine(f: usize) -> Self {
        Self { n: 3 * f + 1, f }
    }

    /// At least one of these is correct: `f + 1`.
    #[must_use]
    pub const fn weak(self) -> usize {
        self.f + 1
    }

    /// Any two of these share a member, and enough members are correct to form one:
    /// a majority, `floor(n / 2) + 1`.
    #[must_use]
    pub const fn hybrid_quorum(self) -> usize {
        self.n / 2 + 1
    }

    /// Any two of these share a correct member, and enough members are correct to form one:
    /// `floor((n + f) / 2) + 1`, which is `2f + 1` of `3f + 1`.
    #[must_use]
    pub const fn byzantine_quorum(self) -> usize {
        (self.n + self.f) / 2 + 1
    }

    /// So many equal replies a client believes: at least one is of a correct replica. `f + 1`, or
    /// `2f + 1` where there are more than `3f` replicas: [queries](Self::answers) then do without
    /// `f` of them.
    #[must_use]
    pub const fn replies(self) -> usize {
        if self.n > 3 * self.f { 2 * self.f + 1 } else { self.f + 1 }
    }

    /// So many equal answers to a query a client believes: a correct replica that gave one of them
    /// is among any [`Self::replies`], so nothing that was acknowledged is missing.
    #[must_use]
    pub const fn answers(self) -> usize {
        self.n + self.f + 1 - self.replies()
    }

    /// Whether a protocol without trusted devices is safe and live in this group.
    #[must_use]
    pub const fn is_byzantine(self) -> bool {
        2 * self.byzantine_quorum() > self.n + self.f && self.n - self.f >= self.byzantine_quorum()
    }

    /// Whether a hybrid protocol is safe and live in this group.
    #[must_use]
    pub const fn is_hybrid(self) -> bool {
        2 * self.hybrid_quorum() > self.n && self.n - self.f >= self.hybrid_quorum()
    }
}

const _: () = {
    let mut f = 0;
    while f < 32 {
        let group = Quorums::hybrid(f);
        assert!(group.is_hybrid());
        assert!(group.hybrid_quorum() == group.weak());
        assert!(f == 0 || (group.replies() == f + 1 && group.answers() == group.n));
        let group = Quorums::byzantine(f);
        assert!(group.is_byzantine());
        assert!(group.byzantine_quorum() == 2 * f + 1);
        assert!(group.replies() == 2 * f + 1 && group.answers() == 2 * f + 1);
        f += 1;
    }
};
