//! Keys and values in buckets by hash.
//!
//! Every key has a position, the upper 63 bits of its BLAKE3 hash. A bucket holds a run of
//! positions and keeps its keys in their order, so that the order of the whole store is the order
//! of positions: the same on every replica, not of a client's choosing, and a place in it is a
//! number, which is what a `SCAN` cursor is. A bucket is a section of the snapshot.

use super::error::Error;
use super::list::List;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::ops::Bound;
use pentarchy_core::digest::Digest;

/// Buckets, and so sections.
pub const BUCKETS: usize = 1024;

/// Bits of a position; one less than a word, as some clients read cursors as signed.
const POSITION_BITS: u32 = 63;

/// What a key costs beside its bytes and its value's: nodes, lengths, allocator.
const KEY_COST: u64 = 96;

/// What an element of a list costs beside its bytes.
pub const ITEM_COST: u64 = 32;

/// A byte string that does not grow.
pub type Text = Box<[u8]>;

/// What a key holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    String(Vec<u8>),
    List(List),
}

impl Value {
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
        }
    }

    pub const fn empty_string() -> Self {
        Self::String(Vec::new())
    }

    pub fn empty_list() -> Self {
        Self::List(List::default())
    }

    pub const fn as_string(&self) -> Result<&Vec<u8>, Error> {
        match self {
            Self::String(string) => Ok(string),
            Self::List(_) => Err(Error::WRONG_TYPE),
        }
    }

    pub const fn as_list(&self) -> Result<&List, Error> {
        match self {
            Self::List(list) => Ok(list),
            Self::String(_) => Err(Error::WRONG_TYPE),
        }
    }

    pub const fn as_string_mut(&mut self) -> Result<&mut Vec<u8>, Error> {
        match self {
            Self::String(string) => Ok(string),
            Self::List(_) => Err(Error::WRONG_TYPE),
        }
    }

    pub const fn as_list_mut(&mut self) -> Result<&mut List, Error> {
        match self {
            Self::List(list) => Ok(list),
            Self::String(_) => Err(Error::WRONG_TYPE),
        }
    }

    /// Memory that the value takes, as the limit counts it: by its content, never by what an
    /// allocator did, so that all replicas count alike. No less than its encoding.
    pub const fn cost(&self) -> u64 {
        match self {
            Self::String(string) => string.len() as u64,
            Self::List(list) => list.cost(),
        }
    }

    fn is_empty_list(&self) -> bool {
        matches!(self, Self::List(list) if list.is_empty())
    }
}

/// A key's place in the order of the store.
fn position_of(key: &[u8]) -> u64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = Digest::of(key);
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1
}

const fn bucket_of(position: u64) -> usize {
    (position >> (POSITION_BITS - BUCKETS.ilog2())) as usize
}

/// A stored key.
#[derive(Clone, Debug)]
pub struct Key {
    position: u64,
    bytes: Text,
}

/// A key as looked up: lets a borrowed one be compared with a stored one.
trait Place {
    fn place(&self) -> (u64, &[u8]);
}

impl Place for Key {
    fn place(&self) -> (u64, &[u8]) {
        (self.position, &self.bytes)
    }
}

impl Place for (u64, &[u8]) {
    fn place(&self) -> (u64, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn Place + 'a> for Key {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl Eq for dyn Place + '_ {}
impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

type Bucket = BTreeMap<Key, Value>;

/// All keys and values.
pub struct Store {
    buckets: Vec<Bucket>,
    keys: usize,
    cost: u64,
    cost_max: u64,
    /// One bit for each bucket that may have changed since it was last asked.
    changed: [u64; BUCKETS / 64],
}

impl Store {
    pub fn new(cost_max: u64) -> Self {
        let buckets = (0..BUCKETS).map(|_| Bucket::new()).collect();
        Self { buckets, keys: 0, cost: 0, cost_max, changed: [u64::MAX; BUCKETS / 64] }
    }

    pub const fn len(&self) -> usize {
        self.keys
    }

    /// What keys and values cost, in bytes.
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether so much more would go over the limit, or is over it already.
    pub const fn is_full(&self, more: u64) -> bool {
        self.cost.saturating_add(more) >= self.cost_max
    }

    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        let place = (position_of(key), key);
        self.buckets[bucket_of(place.0)].get(&place as &dyn Place)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// The string of a key, if there is a key.
    pub fn string(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        self.get(key).map(|value| value.as_string().map(|string| &string[..])).transpose()
    }

    /// The list of a key, if there is a key.
    pub fn list(&self, key: &[u8]) -> Result<Option<&List>, Error> {
        self.get(key).map(Value::as_list).transpose()
    }

    /// Replaces whatever a key holds, and says whether it held something.
    pub fn insert(&mut self, key: &[u8], value: Value) -> bool {
        self.remove_or_replace(key, Some(value)).is_some()
    }

    /// Sets a key to a string, in the room that a string had there before.
    pub fn set_string(&mut self, key: &[u8], string: &[u8]) {
        let replaced = self.edit(key, None, |value| match value {
            Value::String(old) => overwrite(old, string),
            Value::List(_) => *value = Value::String(string.to_vec()),
        });
        if replaced.is_none() {
            self.insert(key, Value::String(string.to_vec()));
        }
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<Value> {
        self.remove_or_replace(key, None)
    }

    fn remove_or_replace(&mut self, key: &[u8], value: Option<Value>) -> Option<Value> {
        let position = position_of(key);
        let bucket = bucket_of(position);
        let map = &mut self.buckets[bucket];
        let new = value.as_ref().map(|value| cost(key, value));
        let old = match value {
            Some(value) => map.insert(Key { position, bytes: key.into() }, value),
            None => map.remove(&(position, key) as &dyn Place),
        };
        if let Some(cost) = new {
            self.cost += cost;
            self.keys += 1;
        }
        if let Some(old) = &old {
            self.cost -= cost(key, old);
            self.keys -= 1;
        }
        if old.is_some() || new.is_some() {
            self.mark(bucket);
        }
        old
    }

    /// Changes a value in place; nothing if there is none and no default to begin with. A list
    /// that becomes empty goes, and its key with it.
    pub fn edit<R>(
        &mut self,
        key: &[u8],
        default: Option<fn() -> Value>,
        change: impl FnOnce(&mut Value) -> R,
    ) -> Option<R> {
        let result = self.try_edit(key, default, |value| Ok(change(value)));
        result.expect("the change cannot fail")
    }

    /// [`Self::edit`] with a change that may refuse; one that does must have changed nothing.
    pub fn try_edit<R>(
        &mut self,
        key: &[u8],
        default: Option<fn() -> Value>,
        change: impl FnOnce(&mut Value) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        let place = (position_of(key), key);
        let bucket = bucket_of(place.0);
        let Some(value) = self.buckets[bucket].get_mut(&place as &dyn Place) else {
            let Some(default) = default else { return Ok(None) };
            let mut value = default();
            let result = change(&mut value)?;
            if !value.is_empty_list() {
                self.insert(key, value);
            }
            return Ok(Some(result));
        };
        let before = value.cost();
        let result = change(value)?;
        self.cost = self.cost - before + value.cost();
        let emptied = value.is_empty_list();
        self.mark(bucket);
        if emptied {
            self.remove(key);
        }
        Ok(Some(result))
    }

    pub fn clear(&mut self) {
        for bucket in 0..BUCKETS {
            if !self.buckets[bucket].is_empty() {
                self.buckets[bucket].clear();
                self.mark(bucket);
            }
        }
        (self.keys, self.cost) = (0, 0);
    }

    /// Keys and values from a position on, with their positions, in order.
    pub fn iter_from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], &Value)> {
        let start = bucket_of(position).min(BUCKETS);
        self.buckets[start..].iter().flat_map(move |bucket| {
            let from: (u64, &[u8]) = (position, &[]);
            let from: &dyn Place = &from;
            bucket
                .range::<dyn Place, _>((Bound::Included(from), Bound::Unbounded))
                .map(|(key, value)| (key.position, &*key.bytes, value))
        })
    }

    /// Keys and values of one bucket, in order.
    pub fn bucket(&self, bucket: usize) -> impl ExactSizeIterator<Item = (&[u8], &Value)> {
        self.buckets[bucket].iter().map(|(key, value)| (&*key.bytes, value))
    }

    /// Empties one bucket.
    pub fn clear_bucket(&mut self, bucket: usize) {
        for (key, value) in core::mem::take(&mut self.buckets[bucket]) {
            self.cost -= cost(&key.bytes, &value);
            self.keys -= 1;
        }
        self.mark(bucket);
    }

    /// Adds a key behind all others of a bucket, if that is where it belongs.
    pub fn push(&mut self, bucket: usize, key: &[u8], value: Value) -> bool {
        let place = (position_of(key), key);
        let last = self.buckets[bucket].last_key_value();
        let behind = last.is_none_or(|(last, _)| last.place() < place);
        if !behind || bucket_of(place.0) != bucket || value.is_empty_list() {
            return false;
        }
        self.insert(key, value);
        true
    }

    const fn mark(&mut self, bucket: usize) {
        self.changed[bucket / 64] |= 1 << (bucket % 64);
    }

    /// The buckets that may have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let changed = core::mem::take(&mut self.changed);
        (0..BUCKETS as u32)
            .filter(|bucket| changed[*bucket as usize / 64] >> (bucket % 64) & 1 == 1)
            .collect()
    }
}

fn cost(key: &[u8], value: &Value) -> u64 {
    KEY_COST + key.len() as u64 + value.cost()
}

/// Puts other bytes in a string's place, and gives back room if most of it would lie idle.
pub fn overwrite(string: &mut Vec<u8>, bytes: &[u8]) {
    string.clear();
    if string.capacity() > 2 * bytes.len() + 64 {
        string.shrink_to(bytes.len());
    }
    string.extend_from_slice(bytes);
}

const _: () = assert!(BUCKETS.is_power_of_two());
