//! A store whose file fails says so and does not answer.

use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis, Slot, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::Place;
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::wire::Wire;
use pentarchy_store::scratch::Scratch;
use pentarchy_store::{Answer, Limits, Operation, Store};
use redb::StorageBackend;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk that is full from some moment on.
#[derive(Debug)]
struct Full(Scratch, Arc<AtomicBool>);

impl StorageBackend for Full {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write(0, &[]).and_then(|()| self.0.set_len(len))
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(offset, data),
        }
    }
}

fn executor(store: Store) -> Executor {
    let members = (0..3).map(|id| ([id; 32], Life::mac(Incarnation(1))));
    let membership = Membership::of_keys(GroupId([5; 16]), 1, members);
    Executor::new(Arc::new(membership), Box::new(store))
}

/// A batch of one put, of so many bytes.
fn batch(number: u64, value: u8, bytes: usize) -> Arc<Batch> {
    let operation = Operation::Put(vec![number as u8 + 1], vec![value; bytes]).to_bytes();
    let requests = vec![Request { number, operation }];
    let draft = Draft { client: ClientId([9; 32]), floor: 0, events: None, requests };
    let envelope = draft.seal(RequestAuth::Signature([0; 64]));
    let digest = envelope.digest;
    Arc::new(Batch { time: Millis(7), envelopes: vec![Arc::new(envelope)], digest })
}

fn get(executor: &Executor, key: u8) -> Answer {
    let told = executor.query(&Operation::Get(vec![key]).to_bytes());
    Answer::from_bytes(&told).expect("answers decode")
}

#[test]
fn nobody_hears_of_what_was_executed_on_a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = Scratch::create(folder.path()).expect("it is made");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0, "no name");
    let is_full = Arc::new(AtomicBool::new(false));
    // So that it writes what it is told, and does not remember it.
    let limits = Limits { cache_bytes: 0, ..Limits::default() };
    let store = Store::over(Full(scratch, is_full.clone()), limits).expect("it is made");
    let mut executor = executor(store);
    let mut told = 0;
    executor.execute(Slot(1), &batch(0, 1, 300_000), |_, _| told += 1);
    executor.checkpoint();
    assert_eq!((told, executor.failure()), (1, None));
    is_full.store(true, Ordering::Relaxed);
    executor.execute(Slot(2), &batch(1, 2, 300_000), |_, _| told += 1);
    let failure = executor.failure().expect("it must not go on");
    assert!(failure.contains("the store's file cannot be used"), "{failure}");
    assert_eq!(told, 1, "what came of it is not told");
    is_full.store(false, Ordering::Relaxed);
    executor.execute(Slot(3), &batch(2, 3, 10), |_, _| told += 1);
    assert_eq!((told, executor.failure()), (1, Some(failure)), "nothing heals it");
}

#[test]
fn what_was_speculated_is_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::create(folder.path(), Limits::default()).expect("it is made");
    let mut executor = executor(store);
    executor.execute(Slot(1), &batch(0, 1, 10), |_, _| {});
    let before = executor.checkpoint();
    let place = Place { view: View(0), slot: Slot(2), history: Digest::default() };
    executor.speculate(place, &batch(1, 2, 20_000_000 / 64), true, |_, _| {});
    executor.speculate(Place { slot: Slot(3), ..place }, &batch(0, 9, 10), true, |_, _| {});
    assert_eq!(get(&executor, 2), Answer::Value(vec![2; 20_000_000 / 64]));
    executor.rollback(Slot(1));
    assert_eq!(
        (get(&executor, 1), get(&executor, 2)),
        (Answer::Value(vec![1; 10]), Answer::Absent)
    );
    assert_eq!(executor.checkpoint(), before);
}
