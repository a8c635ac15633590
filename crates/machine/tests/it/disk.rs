//! A disk that writes when the test says so.

use crate::bench::{client, disk};
use bytes::Bytes;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_machine::Disk;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{
    Backing, Certificates, DurableStore, Entry, EntryLog, EpochStart, Job, Kept, Measured, Needed,
    Past, Scrubs, Stepped,
};
use pentarchy_storage::log::Options;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::{fs, io};
use tempfile::TempDir;

/// A machine has one of these, and the test another.
#[derive(Clone)]
pub struct SlowDisk {
    stepped: Rc<RefCell<Stepped>>,
    /// Removed with the last of them.
    folder: Rc<TempDir>,
}

impl SlowDisk {
    /// An empty one.
    pub fn new(identity: Identity, membership: Arc<Membership>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut data = OsFolder::open(folder.path()).expect("a new folder");
        let options = Options::new([7; 32]);
        let kept = Kept::create(&mut data, identity, membership, options).expect("it is empty");
        Self { stepped: Rc::new(RefCell::new(Stepped::new(kept))), folder: Rc::new(folder) }
    }

    /// What a crash leaves of it: what was written. `first` is the group as it began.
    pub fn reopened(&self, identity: Identity, first: &Arc<Membership>) -> (Self, Past) {
        let folder = tempfile::tempdir().expect("a folder");
        copy(self.folder.path(), folder.path()).expect("what is there can be read");
        let mut data = OsFolder::open(folder.path()).expect("it is a copy");
        let opened = Kept::open(&mut data, identity, first, Options::new([7; 32]));
        let (kept, past) = opened.expect("it is whole");
        let stepped = Rc::new(RefCell::new(Stepped::new(kept)));
        (Self { stepped, folder: Rc::new(folder) }, past)
    }

    /// Writes all that was handed over.
    pub fn catch_up(&self) {
        let mut stepped = self.stepped.borrow_mut();
        assert!(stepped.begin(Job::Log), "nothing waits");
        stepped.end(Job::Log).expect("a disk that works");
    }

    /// Writes all entries and states that were handed over, if any were.
    pub fn settle(&self) {
        let mut stepped = self.stepped.borrow_mut();
        while Job::ALL.into_iter().any(|job| stepped.begin(job)) {
            Job::ALL.into_iter().for_each(|job| stepped.end(job).expect("a disk that works"));
        }
    }
}

/// Copies a folder, but not the lock that its owner has on it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let there = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&there)?;
            copy(&entry.path(), &there)?;
        } else if entry.file_name() != "lock" {
            fs::copy(entry.path(), there)?;
        }
    }
    Ok(())
}

impl EntryLog for SlowDisk {
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError> {
        self.stepped.borrow_mut().append(entry)
    }
    fn next(&self) -> u64 {
        self.stepped.borrow().next()
    }
    fn durable(&self) -> Result<u64, StorageError> {
        self.stepped.borrow().durable()
    }
    fn full(&self) -> Option<u64> {
        self.stepped.borrow().full()
    }
    fn is_behind(&self) -> bool {
        self.stepped.borrow().is_behind()
    }
}

impl Backing for SlowDisk {
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.stepped.borrow_mut().begin_epoch(start)
    }
    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError> {
        self.stepped.borrow_mut().save(snapshot)
    }
    fn saved(&self) -> Result<u64, StorageError> {
        self.stepped.borrow().saved()
    }
    fn asks_again(&mut self) -> Option<Slot> {
        self.stepped.borrow_mut().asks_again()
    }
    fn begin_cut(&mut self) {
        self.stepped.borrow_mut().begin_cut();
    }
    fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError> {
        self.stepped.borrow_mut().stable(slot, needed)
    }
}

impl Disk for SlowDisk {
    fn write(&mut self) {}
    fn has_state_for_log(&self) -> bool {
        false
    }
    fn measured(&mut self) -> Measured {
        Measured::default()
    }
    fn scrubs(&mut self) -> Scrubs {
        self.stepped.borrow_mut().scrubs()
    }
    fn cooled(&mut self) -> Option<Snapshot> {
        self.stepped.borrow_mut().cooled()
    }
    fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        self.stepped.borrow_mut().repair(states);
    }
    fn newest(&self) -> Option<Slot> {
        self.stepped.borrow().newest()
    }
}

/// Or else a client could have any amount of it wait for the disk.
#[test]
fn what_a_core_tells_clients_counts_by_its_bytes_while_it_waits() {
    let slow = disk(ReplicaId(2));
    let mut store = DurableStore::new(slow.clone(), None, Certificates::default());
    store.barrier_mut().hold(CoreEffect::Persist(Bytes::from_static(b"record"))).unwrap();
    store.executed();
    let (id, large) = (client(1), Bytes::from(vec![0; 1_000]));
    let result = Reply { number: 1, outcome: Outcome::Done(large.clone()) };
    let told =
        [ToClient::Protocol(large), ToClient::Replies { view: View(0), replies: vec![result] }];
    for (count, message) in (1..).zip(told) {
        assert_eq!(store.hold_answer(id, message), None);
        assert!(store.answer_bytes(&id) >= count * 1_000);
        assert!(store.waiting_bytes() >= store.answer_bytes(&id));
    }
    slow.catch_up();
    store.look().unwrap();
    assert_eq!([store.next_answer(), store.next_answer()].iter().flatten().count(), 2);
    assert_eq!((store.answer_bytes(&id), store.waiting_bytes()), (0, 0));
}
