//! How many are enough: the one thing in which Zyzzyva and Zyzzyva5 differ.
//!
//! | | Zyzzyva, `n = 3f + 1` | Zyzzyva5, `n = 5f + 1` |
//! | --- | --- | --- |
//! | a client completes at once | `n` equal answers | `n - f` |
//! | commit certificate, and all that is final | `2f + 1` | `3f + 1` |
//! | members of a NEW-VIEW | `n - f` | `n - f` |
//! | of these, who take over what nobody has proof of | `f + 1` | `2f + 1` |
//!
//! The paper has Zyzzyva5 open a view with `3f + 1` members; then what a client completed at once
//! may have as much support among them as something else.

use super::variant::Kind;
use pentarchy_core::membership::Membership;
use pentarchy_core::quorum::Quorums;

/// The thresholds of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    /// Equal answers with which a client completes a request at once.
    pub fast: usize,
    /// Signatures of a commit certificate, acknowledgements of one, and all other proofs.
    pub quorum: usize,
    /// VIEW-CHANGEs of a NEW-VIEW.
    pub members: usize,
    /// Members that must have executed something for the view to take it over without proof.
    pub support: usize,
    /// One of these is correct.
    pub weak: usize,
    /// While clients find that not all answer, replicas keep certificates without being shown any.
    pub commits: bool,
    /// Replicas sign what they answer as they answer it.
    pub signs: bool,
    /// Clients learn how long the slowest replicas take (section 4, the adaptive commit timer).
    pub learns: bool,
    /// A view begins as soon as its primary says so, and certificates of all views count alike.
    pub printed: bool,
}

impl Table {
    /// The thresholds of this kind for a group of this size.
    #[must_use]
    pub const fn new(kind: Kind, Quorums { n, f }: Quorums) -> Self {
        let quorums = Quorums { n, f };
        let fast = kind.fast.answers(quorums);
        Self {
            fast,
            quorum: quorums.byzantine_quorum(),
            members: n - f,
            // Of those who answered, `f` may lie and `f` may not be members.
            support: fast - 2 * f,
            weak: quorums.weak(),
            commits: kind.commits,
            signs: kind.signs,
            learns: kind.learns,
            printed: kind.printed,
        }
    }

    /// The thresholds of these members.
    #[must_use]
    pub fn of(kind: Kind, membership: &Membership) -> Self {
        Self::new(kind, membership.quorums())
    }

    /// What the argument of `docs/protocols/zyzzyva.md` rests on.
    const fn is_sound(&self, Quorums { n, f }: Quorums) -> bool {
        // One correct replica is in any two quorums; one that keeps a certificate is a member; what
        // completed at once has more support than anything else can have.
        2 * self.quorum > n + f
            && self.quorum + self.members > n + f
            && 2 * self.support > self.members
            && self.support > f
            && self.members <= n - f
            && self.quorum <= n - f
    }
}

const _: () = {
    let mut f = 0;
    while f < 13 {
        let (three, five) = (Quorums { n: 3 * f + 1, f }, Quorums { n: 5 * f + 1, f });
        assert!(Table::new(Kind::THREE, three).is_sound(three));
        assert!(Table::new(Kind::FIVE, five).is_sound(five));
        assert!(Table::new(Kind::THREE, three).quorum == 2 * f + 1);
        assert!(Table::new(Kind::FIVE, five).quorum == 3 * f + 1);
        // A group may have more members than it needs.
        let mut more = 1;
        while more < 6 {
            let (three, five) = (Quorums { n: three.n + more, f }, Quorums { n: five.n + more, f });
            assert!(Table::new(Kind::THREE, three).is_sound(three));
            assert!(Table::new(Kind::FIVE, five).is_sound(five));
            more += 1;
        }
        f += 1;
    }
};
