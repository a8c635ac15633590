//! Keys and values in buckets by hash, and when keys end.
//!
//! A bucket holds a run of positions ([`super::place`]) and keeps its keys in their order, so that
//! the order of the whole store is the order of positions. A section of the snapshot is a shorter
//! run of positions, of which a bucket has many: at millions of keys a section has one or none.
//!
//! A key whose deadline has come is due: every look-up passes it over, and whatever writes to it
//! begins with removing it. Others that are due are removed a few with each operation
//! ([`Store::advance`]). All of it follows from the order and its agreed time alone.

use super::error::Error;
use super::interest::Interest;
use super::list::List;
use super::place::{Key, POSITION_BITS, Place, position_of};
use super::value::{Kind, Value};
use super::work::Work;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;
use pentarchy_core::mutant;

/// Buckets.
const BUCKETS: usize = 1024;

/// Sections of keys; the clock is one more. So many that of a million keys not one in ten has
/// another beside it, for what changes and is moved is a section.
pub const KEY_SECTIONS: u32 = 1 << 24;

/// Sections of keys that a bucket has.
const BUCKET_SECTIONS: u32 = KEY_SECTIONS / BUCKETS as u32;

const SECTION_SHIFT: u32 = POSITION_BITS - KEY_SECTIONS.ilog2();

/// What a key costs beside its bytes and its value's: nodes, lengths, allocator.
const KEY_COST: u64 = 96;

/// What a deadline costs beside the bytes of its key, which it repeats.
const DEADLINE_COST: u64 = 64;

/// Keys that are due and go with one operation. More than one operation can give a deadline to, so
/// that they do not pile up for good.
const SWEEP_KEYS: usize = 16;

const fn bucket_of(position: u64) -> usize {
    (position >> (POSITION_BITS - BUCKETS.ilog2())) as usize
}

const fn section_of(position: u64) -> u32 {
    (position >> SECTION_SHIFT) as u32
}

/// A value and when it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub value: Value,
    /// In milliseconds of agreed time; the key is due from then on.
    pub deadline: Option<u64>,
}

impl Entry {
    fn cost(&self, key: &[u8]) -> u64 {
        let deadline = if self.deadline.is_some() { deadline_cost(key) } else { 0 };
        KEY_COST + key.len() as u64 + self.value.cost() + deadline
    }

    fn is_due(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

const fn deadline_cost(key: &[u8]) -> u64 {
    DEADLINE_COST + key.len() as u64
}

type Bucket = BTreeMap<Key, Entry>;

/// All keys and values.
pub struct Store {
    buckets: Vec<Bucket>,
    /// The keys that have a deadline, the first to end first.
    deadlines: BTreeSet<(u64, Key)>,
    keys: usize,
    cost: u64,
    cost_max: u64,
    /// Agreed time of the last executed operation, in milliseconds.
    now: u64,
    /// Keys whose changes somebody waits for.
    pub interest: Interest,
    /// What the operation that is executed may still do.
    pub work: Work,
    /// Sections of keys that may have changed since they were last asked for.
    changed: BTreeSet<u32>,
    /// Whether the clock may have.
    clock_changed: bool,
}

impl Store {
    pub fn new(cost_max: u64) -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::new()).collect(),
            deadlines: BTreeSet::new(),
            keys: 0,
            cost: 0,
            cost_max,
            now: 0,
            interest: Interest::default(),
            work: Work::default(),
            changed: BTreeSet::new(),
            clock_changed: true,
        }
    }

    /// Keys, those that are due and still here included, as Redis counts.
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

    /// Agreed time of the last executed operation, in milliseconds.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Every change of a key comes here: its value, its deadline, that it comes or goes. Called
    /// after it; never without one.
    fn touch(&mut self, (position, key): (u64, &[u8])) {
        self.changed.insert(section_of(position));
        self.interest.touch(key);
    }

    /// An operation is going to be executed at this time. Removes some of the keys that are due.
    pub fn advance(&mut self, now: u64) {
        if now > self.now {
            self.set_clock(now);
        }
        for _ in 0..SWEEP_KEYS {
            let Some((deadline, key)) = self.deadlines.first() else { break };
            if *deadline > self.now {
                break;
            }
            let key = key.clone();
            self.detach(key.place());
        }
    }

    /// Sets the time, as a snapshot says.
    pub fn set_clock(&mut self, now: u64) {
        self.now = now;
        self.clock_changed = !mutant!("kv.clock-not-noted");
    }

    /// What a key holds, unless it is due.
    pub fn entry(&self, key: &[u8]) -> Option<&Entry> {
        let place = (position_of(key), key);
        let entry = self.buckets[bucket_of(place.0)].get(&place as &dyn Place);
        entry.filter(|entry| !entry.is_due(self.now))
    }

    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.entry(key).is_some()
    }

    /// The value of a key, if there is a key, which must be of this type.
    pub fn read<K: Kind>(&self, key: &[u8]) -> Result<Option<&K>, Error> {
        self.get(key).map(|value| K::of(value).ok_or(Error::WRONG_TYPE)).transpose()
    }

    /// The string of a key, if there is a key.
    pub fn string(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        self.read::<Vec<u8>>(key).map(|string| string.map(|string| &string[..]))
    }

    /// The list of a key, if there is a key.
    pub fn list(&self, key: &[u8]) -> Result<Option<&List>, Error> {
        self.read(key)
    }

    /// Removes a key that is due and still here.
    pub fn purge(&mut self, key: &[u8]) {
        if !self.contains(key) {
            self.remove(key);
        }
    }

    /// Replaces whatever a key holds, and when it ends; nothing is left if that is void.
    pub fn put(&mut self, key: &[u8], entry: Entry) {
        let place = (position_of(key), key);
        self.detach(place);
        if !entry.value.is_void() {
            self.attach(place, entry);
        }
    }

    /// Sets a key to a string that does not end, in the room that a string had there before.
    pub fn set_string(&mut self, key: &[u8], string: &[u8]) {
        self.set_string_until(key, string, None);
    }

    /// Sets a key to a string.
    pub fn set_string_until(&mut self, key: &[u8], string: &[u8], deadline: Option<u64>) {
        let place = (position_of(key), key);
        let entry = self.buckets[bucket_of(place.0)].get_mut(&place as &dyn Place);
        if let Some(Entry { value: Value::String(old), deadline: old_deadline }) = entry
            && *old_deadline == deadline
        {
            self.cost = self.cost - old.len() as u64 + string.len() as u64;
            overwrite(old, string);
            self.touch(place);
        } else {
            self.put(key, Entry { value: Value::String(string.to_vec()), deadline });
        }
    }

    /// Removes a key; what it held unless it was due.
    pub fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let now = self.now;
        self.detach((position_of(key), key)).filter(|entry| !entry.is_due(now))
    }

    /// Sets or clears when a key ends; whether there is such a key.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> bool {
        let Some(mut entry) = self.remove(key) else { return false };
        entry.deadline = deadline;
        self.attach((position_of(key), key), entry);
        true
    }

    /// Changes a value of this type in place; nothing if there is none. `change` says with its
    /// result whether it changed something, and one that fails has not. A collection that becomes
    /// void goes, and its key with it.
    pub fn edit<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> Result<(R, bool), Error>,
    ) -> Result<Option<R>, Error> {
        let place = (position_of(key), key);
        let bucket = bucket_of(place.0);
        let Some(entry) = self.buckets[bucket].get_mut(&place as &dyn Place) else {
            return Ok(None);
        };
        if entry.is_due(self.now) {
            self.detach(place);
            return Ok(None);
        }
        let before = entry.value.cost();
        let kind = K::of_mut(&mut entry.value).ok_or(Error::WRONG_TYPE)?;
        let (result, changed) = change(kind)?;
        let void = entry.value.is_void();
        self.cost = self.cost - before + entry.value.cost();
        if void {
            self.detach(place);
        } else if changed && !mutant!("kv.edited-not-noted") {
            self.touch(place);
        }
        Ok(Some(result))
    }

    /// [`Self::edit`], of an empty value if there is none.
    pub fn upsert<K: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> Result<(R, bool), Error>,
    ) -> Result<R, Error> {
        if self.contains(key) {
            let result = self.edit(key, change)?;
            return Ok(result.expect("it was just there"));
        }
        let mut kind = K::default();
        let (result, changed) = change(&mut kind)?;
        if changed {
            self.put(key, Entry { value: kind.wrap(), deadline: None });
        }
        Ok(result)
    }

    /// Puts an entry where there is none.
    fn attach(&mut self, place: (u64, &[u8]), entry: Entry) {
        let key = Key::at(place);
        if let Some(deadline) = entry.deadline {
            self.deadlines.insert((deadline, key.clone()));
        }
        self.cost += entry.cost(place.1);
        self.keys += 1;
        let bucket = bucket_of(place.0);
        self.buckets[bucket].insert(key, entry);
        self.touch(place);
    }

    fn detach(&mut self, place: (u64, &[u8])) -> Option<Entry> {
        let bucket = bucket_of(place.0);
        let (key, entry) = self.buckets[bucket].remove_entry(&place as &dyn Place)?;
        self.cost -= entry.cost(place.1);
        self.keys -= 1;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, key));
        }
        self.touch(place);
        Some(entry)
    }

    pub fn clear(&mut self) {
        (0..BUCKETS).for_each(|bucket| self.clear_bucket(bucket));
    }

    /// Keys and values that are not due, from a position on, with their positions, in order.
    pub fn iter_from(&self, position: u64) -> impl Iterator<Item = (u64, &[u8], &Value)> {
        let start = bucket_of(position).min(BUCKETS);
        self.buckets[start..].iter().flat_map(move |bucket| {
            let from: (u64, &[u8]) = (position, &[]);
            let from: &dyn Place = &from;
            bucket
                .range::<dyn Place, _>((Bound::Included(from), Bound::Unbounded))
                .filter(|(_, entry)| !entry.is_due(self.now))
                .map(|(key, entry)| (key.position(), key.bytes(), &entry.value))
        })
    }

    /// Keys of one section and what they hold, those that are due included, in order.
    pub fn section(&self, section: u32) -> impl Iterator<Item = (&Key, &Entry)> {
        let from: (u64, &[u8]) = (u64::from(section) << SECTION_SHIFT, &[]);
        let to: (u64, &[u8]) = ((u64::from(section) + 1) << SECTION_SHIFT, &[]);
        let range: (Bound<&dyn Place>, Bound<&dyn Place>) =
            (Bound::Included(&from), Bound::Excluded(&to));
        self.buckets[(section / BUCKET_SECTIONS) as usize].range::<dyn Place, _>(range)
    }

    /// The sections of keys in which there are any, in order.
    pub fn filled(&self) -> impl Iterator<Item = u32> {
        let mut last = None;
        let keys = self.buckets.iter().flat_map(Bucket::keys);
        keys.map(|key| section_of(key.position()))
            .filter(move |section| last.replace(*section) != Some(*section))
    }

    fn clear_bucket(&mut self, bucket: usize) {
        for (key, entry) in core::mem::take(&mut self.buckets[bucket]) {
            self.cost -= entry.cost(key.bytes());
            self.keys -= 1;
            self.touch(key.place());
            if let Some(deadline) = entry.deadline {
                self.deadlines.remove(&(deadline, key));
            }
        }
    }

    /// Empties one section.
    pub fn clear_section(&mut self, section: u32) {
        let keys: Vec<Key> = self.section(section).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.detach(key.place());
        }
    }

    /// Adds a key behind all others of a section, if that is where it belongs.
    pub fn push(&mut self, section: u32, key: &[u8], entry: Entry) -> bool {
        let place = (position_of(key), key);
        let behind = self.section(section).last().is_none_or(|(last, _)| last.place() < place);
        if !behind || section_of(place.0) != section || entry.value.is_void() {
            return false;
        }
        self.attach(place, entry);
        true
    }

    /// The sections of keys that may have changed since the last call, and whether the clock has.
    pub fn take_changed(&mut self) -> (Vec<u32>, bool) {
        let changed = core::mem::take(&mut self.changed).into_iter().collect();
        (changed, core::mem::take(&mut self.clock_changed))
    }
}

/// Puts other bytes in a string's place, and gives back room if most of it would lie idle.
pub fn overwrite(string: &mut Vec<u8>, bytes: &[u8]) {
    string.clear();
    if string.capacity() > 2 * bytes.len() + 64 {
        string.shrink_to(bytes.len());
    }
    string.extend_from_slice(bytes);
}

const _: () = assert!(BUCKETS.is_power_of_two() && KEY_SECTIONS.is_power_of_two());
const _: () = assert!(KEY_SECTIONS as usize > BUCKETS);
