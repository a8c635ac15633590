//! Which messages count towards a decision, and how many replicas must have sent them. The
//! simulator looks with it whether a replica's decision was justified, without the code by which
//! the protocol counts.

use crate::digest::Digest;
use crate::ids::{Slot, View};
use alloc::vec::Vec;

/// The kind of ballot that a replica casts by telling a client what came of a slot that it may
/// still take back. No message among replicas says it.
pub const ANSWER: &str = "answer";

/// A statement that counts towards a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ballot {
    /// The name that [`Grounds`] have for such statements.
    pub kind: &'static str,
    /// The pillar of which it speaks; 0 if there is one.
    pub pillar: u8,
    /// The view of which it speaks; 0 if of none.
    pub view: View,
    /// The slot of which it speaks; 0 if of none.
    pub slot: Slot,
    /// The digest of what its author supports: a batch, a history, a state or a NEW-VIEW.
    pub content: Digest,
}

impl Ballot {
    /// About a slot in a view.
    #[must_use]
    pub const fn of_slot(kind: &'static str, view: View, slot: Slot, content: Digest) -> Self {
        Self { kind, pillar: 0, view, slot, content }
    }

    /// About a view.
    #[must_use]
    pub const fn of_view(kind: &'static str, view: View, content: Digest) -> Self {
        Self { kind, pillar: 0, view, slot: Slot(0), content }
    }
}

/// What a quorum of ballots about one thing proves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// What the slot orders of which the ballots speak.
    Slot,
    /// What all slots order up to the one of which the ballots speak.
    UpTo,
    /// The same, where a ballot about a later slot of the same view counts as one about each slot
    /// before it: the ballots need not speak of one slot.
    Cumulative,
    /// The slots that the view's NEW-VIEW takes over. The ballot of this kind with the same content
    /// names the last of them.
    TakenOver(&'static str),
}

/// Ballots that justify a decision: so many replicas, of `n` of which `f` may be faulty, cast one
/// of this kind, with the same content.
#[derive(Clone, Copy, Debug)]
pub struct Grounds {
    /// The kind of ballot.
    pub kind: &'static str,
    /// How many replicas have to cast it. Stated from the paper, apart from the protocol's code.
    pub voters: fn(n: usize, f: usize) -> usize,
    /// Which slots the ballots prove to be final.
    pub reach: Reach,
}

/// What replicas must have sent before one of them decides something, and what they must show when
/// they leave a view. An empty list asks for nothing.
#[derive(Clone, Copy, Debug)]
pub struct Justification {
    /// A replica takes a slot for final: one of these.
    pub of_final: &'static [Grounds],
    /// A replica enters a view: all of these.
    pub of_view: &'static [Grounds],
    /// A replica takes a state for stable: one of these.
    pub of_stable: &'static [Grounds],
    /// A replica casts a ballot of the first kind: the second, about the same view and slot, and
    /// with the same content.
    pub of_ballot: &'static [(&'static str, Grounds)],
    /// Which ballots a replica [shows](Shown) whenever it leaves a view; none if that is not asked.
    pub to_be_shown: Option<&'static str>,
}

impl Justification {
    /// Whether it asks for nothing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        let Self { of_final, of_view, of_stable, of_ballot, .. } = self;
        of_final.is_empty() && of_view.is_empty() && of_stable.is_empty() && of_ballot.is_empty()
    }

    /// The simulator judges no decision.
    pub const NONE: Self =
        Self { of_final: &[], of_view: &[], of_stable: &[], of_ballot: &[], to_be_shown: None };
}

/// What a replica shows of its ballots when it leaves a view, so that no later view forgets them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The pillar of which it speaks; 0 if there is one.
    pub pillar: u8,
    /// The view that it leaves for.
    pub view: View,
    /// The view of which it shows everything: that took over what had to last of the ballots of
    /// lower views. [`View`] 0 if no view did.
    pub since: View,
    /// Its stable checkpoint: it need not show what is not behind it.
    pub stable: Slot,
    /// What the replica shows of each slot: the view of its ballot, and the content.
    pub slots: Vec<(Slot, View, Digest)>,
}

/// More than half of all replicas: what intersects in a group whose faulty members cannot say two
/// things.
#[must_use]
pub const fn majority(n: usize, _f: usize) -> usize {
    n / 2 + 1
}

/// More than half of all and the faulty: two of these share a correct replica.
#[must_use]
pub const fn byzantine_quorum(n: usize, f: usize) -> usize {
    (n + f) / 2 + 1
}

/// All that answer for certain.
#[must_use]
pub const fn all_but_faulty(n: usize, f: usize) -> usize {
    n - f
}

/// Enough that one of them is correct.
#[must_use]
pub const fn one_correct(_n: usize, f: usize) -> usize {
    f + 1
}
