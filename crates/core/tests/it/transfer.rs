//! State transfer between executors, message by message.

use crate::toy::{self, batch, run, write};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, TRANSFER_CHUNKS_IN_FLIGHT};
use pentarchy_core::snapshot::{Manifest, SectionDigests, Snapshot};
use pentarchy_core::transfer::{Message, Step, Transfer};
use pentarchy_core::wire::{Malformed, Wire, Writer};

const LEARNER: ReplicaId = ReplicaId(0);
const PEERS: [ReplicaId; 2] = [ReplicaId(1), ReplicaId(2)];
const CHUNK: u32 = CHUNK_BYTES_MAX as u32;

/// One replica that fetches, and peers that answer as the test says.
struct World {
    transfer: Transfer,
    executor: Executor,
    /// Questions that were asked and not yet answered.
    asked: Vec<(ReplicaId, Message)>,
    installed: Option<Snapshot>,
    now: u64,
    /// Chunks that arrived, by source.
    moved: Vec<ReplicaId>,
}

impl World {
    fn new(executor: Executor) -> Self {
        let transfer = Transfer::new(LEARNER);
        // A clock far from zero, as real ones are.
        let now = 1_700_000_000_000;
        Self { transfer, executor, asked: Vec::new(), installed: None, now, moved: Vec::new() }
    }

    fn take(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send { to, message } => {
                    assert_ne!(to, LEARNER);
                    self.asked.push((to, message));
                }
                Step::Install(snapshot) => self.installed = Some(snapshot),
            }
        }
        // Those of a source that was just given up are asked of another before it has answered.
        assert!(self.asked.len() <= TRANSFER_CHUNKS_IN_FLIGHT * 3 / 2);
    }

    fn want(&mut self, slot: Slot, state: Digest) {
        let mut out = Vec::new();
        let from = PEERS.into_iter().chain([LEARNER]).collect::<ReplicaSet>();
        self.transfer.want(slot, state, from, &self.executor, &mut out);
        self.take(out);
    }

    fn hear(&mut self, from: ReplicaId, message: Message) {
        if matches!(message, Message::Chunk { .. }) {
            self.moved.push(from);
        }
        let mut out = Vec::new();
        let message = Message::from_bytes(&message.to_bytes()).unwrap();
        self.transfer.on_message(from, message, &self.executor, &mut out);
        self.take(out);
    }

    /// Lets time pass until something is due.
    fn round(&mut self) {
        let mut out = Vec::new();
        let due = self.transfer.wake_at().expect("a transfer goes on");
        self.now = self.now.max(due.0);
        self.transfer.on_round(Millis(self.now), &mut out);
        self.take(out);
    }

    /// Answers one question by what `peer` makes of the honest answer; `None` is silence.
    fn answer(
        &mut self,
        source: &Executor,
        peer: &mut dyn FnMut(ReplicaId, Message) -> Option<Message>,
    ) {
        let (to, question) = self.asked.remove(0);
        let mut out = Vec::new();
        Transfer::new(to).on_message(LEARNER, question, source, &mut out);
        let [Step::Send { to: LEARNER, message }] = &out[..] else { panic!("one answer") };
        if let Some(message) = peer(to, message.clone()) {
            self.hear(to, message);
        }
    }

    /// Until the state is there; gives the number of rounds in which nothing was left to answer.
    fn finish(
        &mut self,
        source: &Executor,
        mut peer: impl FnMut(ReplicaId, Message) -> Option<Message>,
    ) -> usize {
        let mut idle = 0;
        while self.installed.is_none() {
            while !self.asked.is_empty() {
                self.answer(source, &mut peer);
            }
            if self.installed.is_none() {
                idle += 1;
                assert!(idle < 100, "no progress: {:?}", self.transfer.progress());
                self.round();
            }
        }
        assert_eq!(self.transfer.progress(), None);
        assert_eq!(self.transfer.wake_at(), None);
        idle
    }

    /// The end of every transfer: both go on as one.
    fn install_and_compare(&mut self, source: &mut Executor) {
        let snapshot = self.installed.take().expect("the state is here");
        assert_eq!(Snapshot::new(snapshot.slot, snapshot.sections.clone()), snapshot);
        self.executor.install(snapshot).unwrap();
        let next = batch(3, &[(1, write(2, 5, 5))]);
        assert_eq!(run(&mut self.executor, &next), run(source, &next));
        assert_eq!(self.executor.checkpoint(), source.checkpoint());
    }
}

fn honest(_: ReplicaId, message: Message) -> Option<Message> {
    Some(message)
}

fn fresh() -> Executor {
    toy::fresh(toy::Toy::boxed())
}

#[test]
fn a_whole_state_moves_from_several_sources() {
    let (mut source, slot, digest) = toy::executor(&[(0, 12 * CHUNK + 1, 1), (1, 0, 2), (2, 3, 3)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    assert_eq!(world.finish(&source, honest), 0, "no clock is needed when all answer");
    for peer in PEERS {
        let share = world.moved.iter().filter(|from| **from == peer).count();
        assert!(share > 4, "{peer} moved {share} of {}", world.moved.len());
    }
    world.install_and_compare(&mut source);
}

#[test]
fn a_state_without_chunks_beside_the_header_needs_few_messages() {
    let (mut source, slot, digest) = toy::executor(&[]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    world.finish(&source, honest);
    world.install_and_compare(&mut source);
}

#[test]
fn a_manifest_of_empty_sections_is_a_whole_state() {
    let manifest = Manifest(vec![SectionDigests::default(); 71]);
    let mut world = World::new(fresh());
    world.want(Slot(4), manifest.digest());
    let asked = world.asked.pop().unwrap();
    assert_eq!(asked, (ReplicaId(1), Message::AskManifest { slot: Slot(4) }));
    world.hear(ReplicaId(1), Message::Manifest { slot: Slot(4), manifest });
    assert_eq!(world.installed.map(|snapshot| snapshot.sections.len()), Some(71));
}

#[test]
fn only_chunks_that_differ_move() {
    let writes = [(0, 8 * CHUNK, 1), (1, 5 * CHUNK, 2)];
    let (mut source, ..) = toy::executor(&writes);
    let (learner, ..) = toy::executor(&writes);
    run(&mut source, &batch(9, &[(1, write(1, CHUNK + 1, 3))]));
    let (digest, slot) = (source.checkpoint(), source.executed());
    let mut world = World::new(learner);
    world.want(slot, digest);
    world.finish(&source, honest);
    // Header, the client's section, the service's counter and two chunks of the page.
    assert_eq!(world.moved.len(), 5);
    world.install_and_compare(&mut source);
}

#[test]
fn equal_chunks_move_once() {
    // Pages filled with one seed begin with the same chunk.
    let (mut source, slot, digest) = toy::executor(&[(0, CHUNK, 1), (1, CHUNK, 1), (2, CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    world.finish(&source, honest);
    assert_eq!(world.moved.len(), 4, "header, client, counter and one page");
    world.install_and_compare(&mut source);
}

#[test]
fn a_liar_costs_time_only() {
    let (mut source, slot, digest) = toy::executor(&[(0, 10 * CHUNK, 1)]);
    let manifest = |message| match message {
        Message::Manifest { slot, mut manifest } => {
            manifest.0[3].0.push(Digest::of(b"more"));
            Message::Manifest { slot, manifest }
        }
        other => other,
    };
    let chunk = |message| match message {
        Message::Chunk { slot, index, .. } => {
            Message::Chunk { slot, index, bytes: Bytes::from_static(b"lie") }
        }
        other => other,
    };
    let gone = |_| Message::Gone { slot };
    let lies: [&dyn Fn(Message) -> Message; 3] = [&manifest, &chunk, &gone];
    for lie in lies {
        let mut told = 0;
        let mut world = World::new(fresh());
        world.want(slot, digest);
        let idle = world.finish(&source, |from, message| {
            let said = if from == PEERS[0] { lie(message.clone()) } else { message.clone() };
            told += usize::from(said != message);
            Some(said)
        });
        assert!(told > 0);
        assert_eq!(idle, 0, "the other source has everything");
        world.install_and_compare(&mut source);
        (source, ..) = toy::executor(&[(0, 10 * CHUNK, 1)]);
    }
}

#[test]
fn a_dead_source_is_given_up_and_not_asked_again_at_once() {
    let (mut source, slot, digest) = toy::executor(&[(0, 20 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    let mut unanswered = 0;
    world.finish(&source, |from, message| {
        unanswered += usize::from(from == PEERS[0]);
        (from != PEERS[0]).then_some(message)
    });
    assert!((1..=TRANSFER_CHUNKS_IN_FLIGHT).contains(&unanswered), "{unanswered} asked in vain");
    world.install_and_compare(&mut source);
}

#[test]
fn a_late_answer_is_taken() {
    let (mut source, slot, digest) = toy::executor(&[(0, 2 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    let mut late = Vec::new();
    while world.installed.is_none() {
        // Everything is answered, but only after it was given up.
        while !world.asked.is_empty() {
            let mut answer = None;
            world.answer(&source, &mut |from, message| {
                answer = Some((from, message));
                None
            });
            late.extend(answer);
        }
        world.round();
        world.round();
        for (from, message) in late.drain(..) {
            world.hear(from, message);
        }
    }
    world.install_and_compare(&mut source);
}

#[test]
fn when_nobody_has_it_all_are_asked_again_ever_more_slowly() {
    let (source, slot, digest) = toy::executor(&[(0, 10, 1)]);
    let empty = fresh();
    let mut world = World::new(fresh());
    let begun = world.now;
    world.want(slot, digest);
    let mut questions = 0;
    for _ in 0..40 {
        while !world.asked.is_empty() {
            questions += 1;
            world.answer(&empty, &mut honest);
        }
        world.round();
    }
    assert!(questions >= 10, "{questions} questions");
    let pace = (world.now - begun) / questions;
    assert!(pace > 1_000, "a question each {pace} ms");
    world.finish(&source, honest);
}

#[test]
fn a_newer_wish_keeps_what_is_still_of_use() {
    let (mut source, first, digest) = toy::executor(&[(0, 6 * CHUNK, 1), (1, 6 * CHUNK, 2)]);
    let mut world = World::new(fresh());
    world.want(first, digest);
    for _ in 0..11 {
        world.answer(&source, &mut honest);
    }
    let before = world.moved.len();
    assert_eq!(before, 10);
    let stale: Vec<_> = world.asked.drain(..).collect();

    run(&mut source, &batch(1, &[(9, write(1, 6 * CHUNK, 3))]));
    let (digest, second) = (source.checkpoint(), source.executed());
    world.want(second, digest);
    let (to, _) = stale[0].clone();
    world.hear(to, Message::Chunk { slot: first, index: 3, bytes: Bytes::from_static(b"stale") });
    world.hear(world.asked[0].0, Message::Gone { slot: first });
    assert_eq!(world.asked.len(), 1, "what is said of another slot is no answer");
    world.finish(&source, honest);
    // The first page is as before and had arrived; the stale chunk moved in vain.
    let own = 3;
    assert_eq!(world.moved.len(), before + 1 + own + 6);
    world.install_and_compare(&mut source);
}

#[test]
fn the_same_wish_again_changes_the_sources_only() {
    let (mut source, slot, digest) = toy::executor(&[(0, 20 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    for _ in 0..5 {
        world.answer(&source, &mut honest);
    }
    let before = world.transfer.progress().unwrap();
    assert_eq!((before.chunks_have, before.chunks_total), (4, 23));
    assert!(before.bytes > 0);
    world.want(slot, digest);
    assert_eq!(world.transfer.progress(), Some(before));
    world.finish(&source, honest);
    world.install_and_compare(&mut source);
}

#[test]
fn a_state_that_is_held_is_installed_without_a_word() {
    let (mut executor, slot, digest) = toy::executor(&[(0, 10, 1)]);
    run(&mut executor, &batch(1, &[(9, write(1, 1, 3))]));
    let mut world = World::new(executor);
    world.want(slot, digest);
    assert!(world.asked.is_empty());
    assert_eq!(world.installed.map(|snapshot| snapshot.slot), Some(slot));
}

#[test]
fn what_was_not_asked_for_changes_nothing() {
    let (source, slot, digest) = toy::executor(&[(0, 3 * CHUNK, 1)]);
    let manifest = source.snapshot(slot).unwrap().manifest();
    let mut world = World::new(fresh());
    world.hear(PEERS[0], Message::Manifest { slot, manifest: manifest.clone() });
    assert_eq!(world.transfer.progress(), None);
    world.want(slot, digest);
    let outsider = ReplicaId(7);
    world.hear(outsider, Message::Manifest { slot, manifest });
    world.hear(PEERS[0], Message::Chunk { slot, index: 0, bytes: Bytes::new() });
    world.hear(outsider, Message::Gone { slot });
    assert_eq!(world.transfer.progress().unwrap().chunks_total, 0);
    world.answer(&source, &mut honest);
    world.hear(PEERS[1], Message::Chunk { slot, index: u32::MAX, bytes: Bytes::new() });
    assert_eq!(world.transfer.progress().unwrap().chunks_have, 0);
}

#[test]
fn questions_without_an_answer_are_answered_gone() {
    let (source, slot, _) = toy::executor(&[(0, 1, 1)]);
    for (question, at) in [
        (Message::AskManifest { slot: slot.next() }, slot.next()),
        (Message::AskChunk { slot: slot.next(), index: 0 }, slot.next()),
        (Message::AskChunk { slot, index: u32::MAX }, slot),
    ] {
        let mut out = Vec::new();
        Transfer::new(LEARNER).on_message(PEERS[0], question, &source, &mut out);
        assert_eq!(out, [Step::Send { to: PEERS[0], message: Message::Gone { slot: at } }]);
    }
}

#[test]
fn an_oversize_message_is_malformed() {
    let mut chunk = Writer::default();
    chunk.u8(3);
    chunk.u64(1);
    chunk.u32(0);
    chunk.bytes(&vec![0; CHUNK_BYTES_MAX + 1]);
    assert_eq!(Message::from_bytes(&chunk.into_bytes()), Err(Malformed));

    let half = SectionDigests(vec![Digest::default(); CHUNKS_MAX / 2 + 1]);
    let manifest = Manifest(vec![half.clone(), half]);
    let message = Message::Manifest { slot: Slot(1), manifest };
    assert_eq!(Message::from_bytes(&message.to_bytes()), Err(Malformed));
}
