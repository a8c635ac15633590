//! A sorted set that knows how large it is: members by position with their scores, and once more
//! by score.
//!
//! Scores are IEEE 754 doubles and never NaN. What is done with them is comparison, addition and
//! multiplication, one at a time, whose results the standard fixes to the bit; see
//! [`super::float`].

use super::place::{Key, Place, position_of};
use super::ranked::Ranked;
use super::text::Text;
use core::cmp::Ordering;

/// What a sorted set costs beside its members.
const OWN_COST: u64 = 256;

/// What a member costs beside its bytes, which count twice.
const MEMBER_COST: u64 = 160;

#[derive(Clone, Debug)]
struct Scored {
    key: Key,
    score: f64,
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.score.to_bits() == other.score.to_bits()
    }
}

/// A place in the order of scores.
#[derive(Clone, Debug)]
pub struct Ranking {
    pub score: f64,
    pub member: Text,
}

impl Ranking {
    fn compare(&self, score: f64, member: &[u8]) -> Ordering {
        compare(self.score, score).then_with(|| (*self.member).cmp(member))
    }
}

/// Scores that are no NaN have an order.
pub fn compare(one: f64, two: f64) -> Ordering {
    one.partial_cmp(&two).unwrap_or(Ordering::Equal)
}

/// The score itself, and 0 for -0. Redis keeps -0 in large sorted sets and not in small ones.
pub fn unsigned_zero(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score }
}

/// Byte strings with scores, in the order of the scores and, where they are equal, of the bytes.
#[derive(Clone, Debug)]
pub struct Sorted {
    members: Ranked<Scored>,
    ranking: Ranked<Ranking>,
    cost: u64,
}

impl PartialEq for Sorted {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
    }
}

impl Default for Sorted {
    fn default() -> Self {
        Self { members: Ranked::default(), ranking: Ranked::default(), cost: OWN_COST }
    }
}

/// What a member adds to the cost of a sorted set.
pub const fn member_cost(member: &[u8]) -> u64 {
    MEMBER_COST + 2 * member.len() as u64
}

impl Sorted {
    /// Bytes of all members.
    pub const fn member_bytes(&self) -> u64 {
        (self.cost - OWN_COST - self.len() as u64 * MEMBER_COST) / 2
    }

    pub const fn len(&self) -> usize {
        self.members.len()
    }

    pub const fn cost(&self) -> u64 {
        self.cost
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        let place = (position_of(member), member);
        self.members.find(|scored| scored.key.place().cmp(&place)).map(|scored| scored.score)
    }

    /// Adds a member or gives it another score, which is not NaN; its score before.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let (place, score) = ((position_of(member), member), unsigned_zero(score));
        let found = self.members.find_mut(|scored| scored.key.place().cmp(&place));
        let old = found.map(|scored| core::mem::replace(&mut scored.score, score));
        match old {
            Some(old) => {
                self.ranking.remove(|ranking| ranking.compare(old, member));
            }
            None => {
                let new = Scored { key: Key::at(place), score };
                self.members.insert(new, |scored| scored.key.place() < place);
                self.cost += MEMBER_COST + 2 * member.len() as u64;
            }
        }
        let new = Ranking { score, member: member.into() };
        self.ranking.insert(new, |ranking| ranking.compare(score, member).is_lt());
        old
    }

    /// Adds a member, if its place among the members is behind all others and the score is one.
    pub fn push(&mut self, member: &[u8], score: f64) -> bool {
        let place = (position_of(member), member);
        let behind = self.members.last().is_none_or(|last| last.key.place() < place);
        let valid = !score.is_nan() && score.to_bits() == unsigned_zero(score).to_bits();
        behind && valid && self.set(member, score).is_none()
    }

    /// The score that a member had which is gone now.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let place = (position_of(member), member);
        let gone = self.members.remove(|scored| scored.key.place().cmp(&place))?;
        self.ranking.remove(|ranking| ranking.compare(gone.score, member));
        self.cost -= MEMBER_COST + 2 * member.len() as u64;
        Some(gone.score)
    }

    /// How many come before a member, if it is one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.ranking.rank(|ranking| ranking.compare(score, member).is_lt()))
    }

    /// How many are `before`, which holds for all up to some rank and for none behind it.
    pub fn count(&self, before: impl Fn(&Ranking) -> bool) -> usize {
        self.ranking.rank(before)
    }

    pub fn at(&self, rank: usize) -> Option<&Ranking> {
        self.ranking.get(rank)
    }

    /// The members from one rank up to, but without, another.
    pub fn range(&self, from: usize, to: usize) -> impl DoubleEndedIterator<Item = &Ranking> {
        self.ranking.range(from, to)
    }

    /// The members by position, with their scores.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.iter_from(0).map(|(_, member, score)| (member, score))
    }

    /// The members from a position on, with their positions and scores.
    pub fn iter_from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], f64)> {
        let members = self.members.iter_from(move |scored| scored.key.position() < position);
        members.map(|scored| (scored.key.position(), scored.key.bytes(), scored.score))
    }
}
