//! A set that knows how large it is. Its members lie by their positions.

use super::place::{Key, Place, position_of};
use super::ranked::Ranked;

/// What a set costs beside its members.
const OWN_COST: u64 = 128;

/// What a member costs beside its bytes.
const MEMBER_COST: u64 = 64;

/// A set of byte strings.
#[derive(Clone, PartialEq, Debug)]
pub struct Set {
    members: Ranked<Key>,
    cost: u64,
}

impl Default for Set {
    fn default() -> Self {
        Self { members: Ranked::default(), cost: OWN_COST }
    }
}

impl Set {
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    pub const fn cost(&self) -> u64 {
        self.cost
    }

    pub fn contains(&self, member: &[u8]) -> bool {
        let place = (position_of(member), member);
        self.members.find(|key| key.place().cmp(&place)).is_some()
    }

    /// Whether it was new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        let place = (position_of(member), member);
        if self.members.find(|key| key.place().cmp(&place)).is_some() {
            return false;
        }
        self.members.insert(Key::at(place), |key| key.place() < place);
        self.cost += MEMBER_COST + member.len() as u64;
        true
    }

    /// Whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let place = (position_of(member), member);
        let found = self.members.remove(|key| key.place().cmp(&place)).is_some();
        if found {
            self.cost -= MEMBER_COST + member.len() as u64;
        }
        found
    }

    pub fn get(&self, rank: usize) -> Option<&[u8]> {
        self.members.get(rank).map(Key::bytes)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(Key::bytes)
    }

    /// The members from a position on, with their positions.
    pub fn iter_from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8])> {
        self.members.iter_from(move |key| key.position() < position).map(Key::place)
    }
}
