//! States that are not in memory: nothing else is different, and what is lost is missed.

use crate::toy::{self, batch, write};
use pentarchy_core::batch::Batch;
use pentarchy_core::blobs::{BlobReader, BlobRef, TempBlobs};
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::limits::CHUNK_BYTES_MAX;
use pentarchy_core::ports::client::Place;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::Message;
use std::sync::{Arc, Mutex};

/// A file, and the places in it at which somebody found something wrong.
#[derive(Default)]
pub struct Memory {
    bytes: Mutex<Vec<u8>>,
    spoiled: Mutex<Vec<u64>>,
}

impl BlobReader for Memory {
    fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let all = self.bytes.lock().unwrap();
        all.get(offset as usize..offset as usize + bytes).map(<[u8]>::to_vec)
    }
    fn spoiled(&self, offset: u64) {
        self.spoiled.lock().unwrap().push(offset);
    }
}

pub struct Files(pub Arc<Memory>);

impl TempBlobs for Files {
    fn put(&self, bytes: &[u8]) -> Option<BlobRef> {
        let mut all = self.0.bytes.lock().unwrap();
        let offset = all.len() as u64;
        all.extend_from_slice(bytes);
        Some(BlobRef { shelf: self.0.clone(), offset, bytes: bytes.len() as u32 })
    }
}

impl Memory {
    /// Nothing is what it was any more.
    pub fn rot(&self) {
        self.bytes.lock().unwrap().iter_mut().for_each(|byte| *byte ^= 1);
    }
}

fn cold() -> (Executor, Arc<Memory>) {
    let (mut executor, memory) = (toy::fresh(toy::Toy::boxed()), Arc::<Memory>::default());
    executor.set_spool(Arc::new(Files(memory.clone())));
    (executor, memory)
}

/// A small section and a large one.
fn put(number: u64, seed: u8) -> Batch {
    let large = (2 * CHUNK_BYTES_MAX + 5) as u32;
    batch(1, &[(number, write(0, 3000, seed)), (number + 1, write(1, large, seed))])
}

fn speculate(executor: &mut Executor, batch: Batch) {
    let slot = executor.executed().next();
    let place = Place { view: View(3), slot, history: Digest::of(&slot.0.to_le_bytes()) };
    executor.speculate(place, &Arc::new(batch), true, |_, _| {});
}

fn leaves(snapshot: &Snapshot) -> impl Iterator<Item = (bool, bool)> {
    snapshot.tree.iter().map(|leaf| (leaf.is_cold(), leaf.joined().is_some()))
}

#[test]
fn states_are_the_same_and_are_gone_back_to() {
    let ((mut ours, memory), mut other) = (cold(), toy::fresh(toy::Toy::boxed()));
    for executor in [&mut ours, &mut other] {
        executor.execute(Slot(1), &put(1, 1), |_, _| {});
        let before = executor.checkpoint();
        speculate(executor, put(3, 2));
        executor.rollback(Slot(1));
        executor.execute(Slot(2), &put(5, 3), |_, _| {});
        assert_ne!(executor.checkpoint(), before);
    }
    let (mine, theirs) = (ours.latest().expect("taken"), other.latest().expect("taken"));
    assert_eq!((mine.digest, mine.slot), (theirs.digest, theirs.slot));
    assert!(leaves(mine).all(|leaf| leaf == (true, true)));
    assert!(leaves(theirs).all(|leaf| leaf == (false, true)));
    assert!(memory.spoiled.lock().unwrap().is_empty());
    // What is in memory elsewhere may be taken from there, and the other way round.
    let hot = theirs.tree.clone();
    ours.cool(&hot);
    assert!(leaves(ours.latest().expect("taken")).all(|leaf| leaf == (false, true)));
}

#[test]
fn what_is_lost_comes_back_from_the_service_unless_that_has_gone_on() {
    let (mut executor, memory) = cold();
    executor.execute(Slot(1), &put(1, 1), |_, _| {});
    executor.checkpoint();
    executor.execute(Slot(2), &batch(1, &[(3, write(0, 3000, 9))]), |_, _| {});
    memory.rot();
    let lost = executor.latest().expect("taken");
    assert!(leaves(lost).all(|leaf| leaf == (true, false)));
    assert!(!memory.spoiled.lock().unwrap().is_empty(), "it is told of");
    let (all, sections) = (lost.clone(), lost.tree.sections());
    // Of the rest the service has what it was.
    assert!(executor.mend(0..=sections) > 0);
    let mended = executor.latest().expect("taken");
    assert_eq!(mended.tree.digest(), all.digest);
    let large = mended.tree.iter().find(|leaf| leaf.len() > CHUNK_BYTES_MAX).expect("it is there");
    assert!(!large.is_cold() && large.joined().is_some());
    let small = mended.tree.iter().find(|leaf| leaf.len() == 3000).expect("it is there");
    assert!(small.joined().is_none(), "it has been written over");
}

#[test]
fn who_cannot_go_back_says_so_and_gives_nobody_what_is_not_right() {
    let (mut executor, memory) = cold();
    executor.execute(Slot(1), &put(1, 1), |_, _| {});
    executor.checkpoint();
    let whole = executor.latest().expect("taken").clone();
    let places = vec![whole.tree.place()];
    let ask = Message::AskNodes { slot: Slot(1), since: None, below: true, places };
    let Message::Nodes { nodes, .. } = ask.answer(Some(&whole)) else { panic!("it is there") };
    speculate(&mut executor, put(3, 2));
    memory.rot();
    let Message::Nodes { nodes: fewer, .. } = ask.answer(Some(&whole)) else {
        panic!("digests are in memory")
    };
    assert!(fewer.len() < nodes.len() && nodes.starts_with(&fewer));
    let section = whole.tree.iter().find(|leaf| leaf.len() > CHUNK_BYTES_MAX).expect("large");
    let ask = Message::AskChunk { slot: Slot(1), section: section.section(), chunk: 1 };
    assert_eq!(ask.answer(Some(&whole)), Message::Gone { slot: Slot(1) });
    assert_eq!(executor.failure(), None);
    executor.rollback(Slot(1));
    let failure = executor.failure().expect("it must not go on");
    assert!(failure.contains("cannot be read from the disk"), "{failure}");
}
