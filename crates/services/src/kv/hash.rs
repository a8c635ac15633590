//! A hash that knows how large it is. Its fields lie by their positions.

use super::place::{Key, Place, position_of};
use super::ranked::Ranked;
use super::text::Text;

/// What a hash costs beside its fields.
const OWN_COST: u64 = 128;

/// What a field costs beside its bytes and its value's.
const FIELD_COST: u64 = 96;

#[derive(Clone, PartialEq, Debug)]
struct Field {
    key: Key,
    value: Text,
}

/// Byte strings by byte strings.
#[derive(Clone, PartialEq, Debug)]
pub struct Hash {
    fields: Ranked<Field>,
    cost: u64,
}

impl Default for Hash {
    fn default() -> Self {
        Self { fields: Ranked::default(), cost: OWN_COST }
    }
}

impl Hash {
    pub const fn len(&self) -> usize {
        self.fields.len()
    }

    pub const fn cost(&self) -> u64 {
        self.cost
    }

    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        let place = (position_of(field), field);
        self.fields.find(|field| field.key.place().cmp(&place)).map(|field| &*field.value)
    }

    /// Whether the field was new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let place = (position_of(field), field);
        self.cost += value.len() as u64;
        if let Some(old) = self.fields.find_mut(|field| field.key.place().cmp(&place)) {
            self.cost -= old.value.len() as u64;
            old.value = value.into();
            return false;
        }
        self.cost += FIELD_COST + field.len() as u64;
        let new = Field { key: Key::at(place), value: value.into() };
        self.fields.insert(new, |field| field.key.place() < place);
        true
    }

    /// Sets a field, if its place is behind all others.
    pub fn push(&mut self, field: &[u8], value: &[u8]) -> bool {
        let place = (position_of(field), field);
        self.fields.last().is_none_or(|last| last.key.place() < place) && self.set(field, value)
    }

    /// Whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let place = (position_of(field), field);
        let Some(old) = self.fields.remove(|field| field.key.place().cmp(&place)) else {
            return false;
        };
        self.cost -= FIELD_COST + (field.len() + old.value.len()) as u64;
        true
    }

    pub fn at(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        self.fields.get(rank).map(|field| (field.key.bytes(), &*field.value))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.key.bytes(), &*field.value))
    }

    /// The fields from a position on, with their positions.
    pub fn iter_from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        let fields = self.fields.iter_from(move |field| field.key.position() < position);
        fields.map(|field| (field.key.position(), field.key.bytes(), &*field.value))
    }
}
