//! State transfer between executors, message by message.

use crate::toy::{self, batch, run, write};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{MemberId, Millis, Slot};
use pentarchy_core::limits::{
    CHUNK_BYTES_MAX, CHUNKS_MAX, TRANSFER_ANSWER_NODES_MAX, TRANSFER_CHUNKS_IN_FLIGHT,
    TRANSFER_NODES_MAX, TRANSFER_PIN_MILLIS,
};
use pentarchy_core::service::{Context, SmallService, Whole};
use pentarchy_core::sessions::SESSION_SECTIONS;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Message, Part, Step, Transfer};
use pentarchy_core::tree::{Place, Tree};
use pentarchy_core::wire::{Malformed, Wire, Writer};
use std::collections::BTreeSet;

const LEARNER: MemberId = MemberId(0);
const PEERS: [MemberId; 2] = [MemberId(1), MemberId(2)];
const CHUNK: u32 = CHUNK_BYTES_MAX as u32;

/// One replica that fetches, and peers that answer as the test says.
struct World {
    transfer: Transfer,
    executor: Executor,
    /// Questions that were asked and not yet answered.
    asked: Vec<(MemberId, Message)>,
    installed: Option<Snapshot>,
    now: u64,
    /// Chunks that arrived, by source.
    moved: Vec<MemberId>,
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
        let from = PEERS.into_iter().chain([LEARNER]).collect::<BTreeSet<MemberId>>();
        self.transfer.want(slot, state, from, &self.executor, &mut out);
        self.take(out);
    }

    fn hear(&mut self, from: MemberId, message: Message) {
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
        peer: &mut dyn FnMut(MemberId, Message) -> Option<Message>,
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
        mut peer: impl FnMut(MemberId, Message) -> Option<Message>,
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
        let sections = (0..snapshot.tree.sections()).map(|section| {
            snapshot
                .tree
                .section(section)
                .map(|leaf| leaf.joined().expect("it is there").to_vec())
                .unwrap_or_default()
        });
        assert_eq!(Tree::of(snapshot.slot, sections).digest(), snapshot.digest);
        self.executor.install(snapshot).unwrap();
        let next = batch(3, &[(1, write(2, 5, 5))]);
        assert_eq!(run(&mut self.executor, &next), run(source, &next));
        assert_eq!(self.executor.checkpoint(), source.checkpoint());
    }
}

fn honest(_: MemberId, message: Message) -> Option<Message> {
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
fn only_chunks_that_differ_move() {
    let writes = [(0, 8 * CHUNK, 1), (1, 5 * CHUNK, 2)];
    let (mut source, ..) = toy::executor(&writes);
    let (learner, ..) = toy::executor(&writes);
    run(&mut source, &batch(9, &[(1, write(1, CHUNK + 1, 3))]));
    let (digest, slot) = (source.checkpoint(), source.executed());
    let mut world = World::new(learner);
    world.want(slot, digest);
    world.finish(&source, honest);
    // Two chunks of the page; all else is in nodes.
    assert_eq!(world.moved.len(), 2);
    world.install_and_compare(&mut source);
}

#[test]
fn equal_chunks_of_a_section_move_once() {
    let page = || Whole::new(Page(vec![7; 3 * CHUNK_BYTES_MAX + 1]));
    let mut source = toy::fresh(Box::new(page()));
    let digest = source.checkpoint();
    let mut world = World::new(toy::fresh(Box::new(Whole::new(Page(Vec::new())))));
    world.want(Slot(0), digest);
    world.finish(&source, honest);
    assert_eq!(world.moved.len(), 2);
    world.executor.install(world.installed.take().unwrap()).unwrap();
    assert_eq!(world.executor.checkpoint(), digest);
}

/// A state of one section.
struct Page(Vec<u8>);

impl SmallService for Page {
    fn execute(&mut self, _: &Context, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn query(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn save(&self) -> Vec<u8> {
        self.0.clone()
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.0 = bytes.to_vec();
        Ok(())
    }
}

#[test]
fn a_liar_costs_time_only() {
    let (mut source, slot, digest) = toy::executor(&[(0, 10 * CHUNK, 1)]);
    let of_nodes = |message, lie: fn(&mut Part)| match message {
        Message::Nodes { slot, sections, leaves, mut nodes } => {
            nodes.iter_mut().for_each(|(_, part)| lie(part));
            Message::Nodes { slot, sections, leaves, nodes }
        }
        other => other,
    };
    let digest_of_a_child = |message| {
        of_nodes(message, |part| {
            if let Part::Children { digests, .. } = part {
                digests[0] = Digest::of(b"another");
            }
        })
    };
    let left_out = |message| {
        of_nodes(message, |part| {
            if let Part::Children { listed, digests, .. } = part {
                (*listed, *digests) = (0, Vec::new());
            }
        })
    };
    let section = |message| {
        of_nodes(message, |part| match part {
            Part::Section { bytes, .. } => *bytes = Bytes::from_static(b"lie"),
            Part::Chunks { digests, .. } => digests.push(Digest::of(b"more")),
            Part::Children { .. } => {}
        })
    };
    let other_shape = |message| match message {
        Message::Nodes { slot, nodes, .. } => {
            Message::Nodes { slot, sections: u32::MAX, leaves: u32::MAX, nodes }
        }
        other => other,
    };
    let nothing = |message| match message {
        Message::Nodes { slot, sections, leaves, .. } => {
            Message::Nodes { slot, sections, leaves, nodes: Vec::new() }
        }
        other => other,
    };
    let chunk = |message| match message {
        Message::Chunk { slot, section, chunk, .. } => {
            Message::Chunk { slot, section, chunk, bytes: Bytes::from_static(b"lie") }
        }
        other => other,
    };
    let gone = |_| Message::Gone { slot };
    let lies: [&dyn Fn(Message) -> Message; 7] =
        [&digest_of_a_child, &left_out, &section, &other_shape, &nothing, &chunk, &gone];
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
        assert!(idle <= 2, "the other source has everything");
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

/// A source stops while it is asked, and the other one has a newer state only. Two seconds are the
/// time that a slow link has.
#[test]
fn who_has_a_newer_state_only_is_asked_for_it_when_all_others_are_silent() {
    let (mut source, first, digest) = toy::executor(&[(0, 4 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(first, digest);
    run(&mut source, &batch(1, &[(9, write(0, 1, 3))]));
    let (digest, second) = (source.checkpoint(), source.executed());
    world.want(second, digest);
    let begun = world.now;
    let only_newer = |from, message: Message| match message.slot() {
        _ if from == PEERS[0] => None,
        slot if slot == first => Some(Message::Gone { slot }),
        _ => Some(message),
    };
    world.finish(&source, only_newer);
    assert_eq!(world.installed.as_ref().map(|snapshot| snapshot.slot), Some(second));
    assert!(world.now - begun < 1_000, "{} ms", world.now - begun);
    world.install_and_compare(&mut source);
}

/// The other one is slow, and who says that it has a newer one has it never.
#[test]
fn a_slow_source_has_its_time_although_another_has_nothing() {
    let mut world = World::new(fresh());
    let state = |slot: u64| Digest::of(&slot.to_le_bytes());
    let mut slots = Vec::new();
    world.want(Slot(64), state(64));
    let begun = world.now;
    for newer in 1..=40 {
        while let Some((to, question)) = world.asked.pop() {
            if to == PEERS[1] {
                world.hear(to, Message::Gone { slot: question.slot() });
            }
        }
        world.want(Slot(64 + newer), state(64 + newer));
        let goal = world.transfer.progress().expect("a goal").slot;
        if slots.last().is_none_or(|(slot, _)| *slot != goal) {
            slots.push((goal, world.now - begun));
        }
        world.round();
    }
    let lasted: Vec<u64> = slots.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let short = |lasted: &u64| *lasted < 1_500;
    assert!(lasted.len() > 2 && lasted.iter().any(short), "{lasted:?}");
    assert!(!lasted.windows(2).any(|pair| pair.iter().all(short)), "{lasted:?}");
}

/// A group that takes a checkpoint while a silent source is waited for: who had the state has the
/// next one only, again and again, unless somebody else is asked first.
#[test]
fn a_dead_source_is_not_waited_for_until_the_others_have_moved_on() {
    const BETWEEN_CHECKPOINTS_MS: u64 = 300;
    let (mut source, slot, digest) = toy::executor(&[(0, 3 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    let begun = world.now;
    let mut moves_on = begun + BETWEEN_CHECKPOINTS_MS;
    while world.installed.is_none() {
        while !world.asked.is_empty() && world.installed.is_none() {
            world.answer(&source, &mut |from, message| (from != PEERS[0]).then_some(message));
        }
        if world.installed.is_some() {
            break;
        }
        assert!(world.now < begun + 20_000, "no progress: {:?}", world.transfer.progress());
        if world.transfer.wake_at().is_some_and(|due| due.0 < moves_on) {
            world.round();
            continue;
        }
        world.now = moves_on;
        moves_on += BETWEEN_CHECKPOINTS_MS;
        run(&mut source, &batch(9, &[(world.now, write(1, 5, world.now as u8))]));
        let (digest, slot) = (source.checkpoint(), source.executed());
        source.stable(slot);
        world.want(slot, digest);
    }
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
fn a_source_that_comes_later_is_asked_for_what_is_fetched_and_for_nothing_else() {
    let (source, slot, digest) = toy::executor(&[(0, 10, 1)]);
    let mut transfer = Transfer::new(MemberId(0));
    let empty = fresh();
    let mut steps = Vec::new();
    transfer.want(slot, digest, BTreeSet::new(), &empty, &mut steps);
    for (slot, digest) in [(slot.next(), digest), (slot, Digest::default())] {
        transfer.want_also_from((slot, digest), MemberId(7), &mut steps);
    }
    transfer.want_also_from((slot, digest), MemberId(0), &mut steps);
    assert_eq!(steps, [], "nobody can be asked for it");
    transfer.want_also_from((slot, digest), MemberId(7), &mut steps);
    assert!(matches!(steps[..], [Step::Send { to: MemberId(7), .. }]), "{steps:?}");
    assert_eq!(source.executed(), slot);
}

/// Of those that vouched for the state with which an epoch begins, one lost its memory and the
/// others left. A member that was none of them has fetched it meanwhile.
#[test]
fn when_those_that_vouched_have_it_no_more_any_member_is_asked() {
    let finds = |vouchers: &[u32]| {
        let (source, slot, digest) = toy::executor(&[(0, 10, 1)]);
        let mut transfer = Transfer::new(LEARNER);
        transfer.begin_epoch([LEARNER, MemberId(1), MemberId(7)]);
        let (mut now, empty) = (1_700_000_000_000, fresh());
        let (mut steps, mut answers) = (Vec::new(), Vec::new());
        let from = vouchers.iter().copied().map(MemberId).collect();
        transfer.want(slot, digest, from, &empty, &mut steps);
        for _ in 0..100 {
            for step in std::mem::take(&mut steps) {
                match step {
                    Step::Send { to: MemberId(7), message } => {
                        let mut of_source = Transfer::new(MemberId(7));
                        answers.push((MemberId(7), of_source.answer(LEARNER, &message, &source)));
                    }
                    Step::Send { to, message } if to == MemberId(1) => {
                        answers.push((to, Transfer::new(to).answer(LEARNER, &message, &empty)));
                    }
                    Step::Send { .. } => {}
                    Step::Install(snapshot) => return snapshot.digest == digest,
                }
            }
            for (from, answer) in std::mem::take(&mut answers) {
                transfer.on_message(from, answer, &empty, &mut steps);
            }
            now += 100;
            transfer.on_round(Millis(now), &mut steps);
        }
        false
    };
    for vouchers in [&[1][..], &[1, 2], &[2], &[]] {
        assert!(finds(vouchers), "{vouchers:?} vouched for it");
        #[cfg(feature = "mutants")]
        {
            let bug = Some("transfer.asks-vouchers-only");
            let is_found = pentarchy_core::mutant::with(bug, || finds(vouchers));
            assert!(!is_found, "{vouchers:?}: nobody else is asked");
        }
    }
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
    while world.moved.len() < 10 {
        world.answer(&source, &mut honest);
    }
    let stale: Vec<_> = world.asked.drain(..).collect();
    let (goal, one) = (first, 1 + SESSION_SECTIONS + 2);

    run(&mut source, &batch(1, &[(9, write(1, 6 * CHUNK, 3))]));
    let (digest, second) = (source.checkpoint(), source.executed());
    world.want(second, digest);
    assert_eq!(world.transfer.progress().map(|it| it.slot), Some(goal), "it goes on");
    for peer in PEERS {
        world.hear(peer, Message::Gone { slot: first });
    }
    assert_eq!(world.transfer.progress().map(|it| it.slot), Some(second), "nobody has it");
    world.asked.retain(|(_, question)| question.slot() == second);
    let (to, _) = stale[0].clone();
    let bytes = Bytes::from_static(b"stale");
    world.hear(to, Message::Chunk { slot: first, section: one, chunk: 3, bytes });
    world.hear(world.asked[0].0, Message::Gone { slot: first });
    assert_eq!(world.asked.len(), 1, "what is said of another slot is no answer");
    world.finish(&source, honest);
    // Of the page that is as before at least four chunks had arrived; the stale one moved in vain.
    assert!((10 + 1 + 6..=10 + 1 + 6 + 2).contains(&world.moved.len()), "{}", world.moved.len());
    world.install_and_compare(&mut source);
}

#[test]
fn a_state_is_fetched_to_its_end_however_many_newer_ones_there_are() {
    let (source, first, digest) = toy::executor(&[(0, 12 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(first, digest);
    let mut newer = 0;
    while world.installed.is_none() {
        newer += 1;
        world.want(Slot(first.0 + newer), Digest::of(&newer.to_le_bytes()));
        world.answer(&source, &mut honest);
    }
    assert!(newer > 5);
    assert_eq!(world.moved.len(), 12, "nothing was moved in vain");
    assert_eq!(world.installed.map(|snapshot| snapshot.slot), Some(first));
}

#[test]
fn a_state_of_which_nothing_comes_gives_way_to_a_newer_one() {
    let (mut source, first, digest) = toy::executor(&[(0, 4 * CHUNK, 1)]);
    let mut world = World::new(fresh());
    world.want(first, digest);
    world.answer(&source, &mut honest);
    run(&mut source, &batch(1, &[(9, write(0, 1, 3))]));
    let (digest, second) = (source.checkpoint(), source.executed());
    world.want(second, digest);
    let begun = world.now;
    while world.transfer.progress().is_some_and(|it| it.slot == first) {
        world.asked.clear();
        world.round();
    }
    assert!(world.now > begun + 1_000, "a slow link has its time");
    assert!(world.now < begun + 10_000);
    world.asked.retain(|(_, question)| question.slot() == second);
    world.finish(&source, honest);
    assert_eq!(world.installed.as_ref().map(|snapshot| snapshot.slot), Some(second));
    world.install_and_compare(&mut source);
}

/// Asks a source for a state's top every second, until it says that it has it no more.
fn kept_for(seconds: u64, between: u64) -> u64 {
    let (mut executor, slot, _) = toy::executor(&[(0, 10, 1)]);
    let mut source = Transfer::new(PEERS[0]);
    let (mut now, mut out) = (1_700_000_000_000, Vec::new());
    source.on_round(Millis(now), &mut out);
    let begun = now;
    while now < begun + seconds * 1_000 {
        let ask = Message::AskNodes { slot, since: None, below: true, places: Vec::new() };
        source.on_message(LEARNER, ask, &executor, &mut out);
        let said = out.pop();
        assert!(out.is_empty());
        if matches!(said, Some(Step::Send { message: Message::Gone { .. }, .. })) {
            break;
        }
        // The group goes on.
        run(&mut executor, &batch(1, &[(now, write(1, 10, 2))]));
        executor.checkpoint();
        executor.stable(executor.executed());
        now += between;
        source.on_round(Millis(now), &mut out);
    }
    now - begun
}

#[test]
fn a_state_is_kept_for_who_fetches_it_but_not_for_ever() {
    assert_eq!(kept_for(1_000, 1_000), TRANSFER_PIN_MILLIS);
    assert_eq!(kept_for(1_000, 10_000), 10_000, "who asks no more does not need it");
}

#[test]
fn what_was_given_up_is_kept_for_the_next_wish() {
    let (mut source, slot, digest) = toy::executor(&[(0, 6 * CHUNK, 1), (1, 6 * CHUNK, 2)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    while world.moved.len() < 9 {
        world.answer(&source, &mut honest);
    }
    world.transfer.give_up();
    world.asked.clear();
    assert_eq!((world.transfer.progress(), world.transfer.wake_at()), (None, None));
    world.want(slot, digest);
    world.finish(&source, honest);
    assert_eq!(world.moved.len(), 12);
    world.install_and_compare(&mut source);
}

#[test]
fn the_same_wish_again_changes_the_sources_only() {
    let (mut source, slot, digest) = toy::executor(&[(0, 20 * CHUNK, 1), (1, 9, 1)]);
    let mut world = World::new(fresh());
    world.want(slot, digest);
    while world.moved.len() < 5 {
        world.answer(&source, &mut honest);
    }
    let before = world.transfer.progress().unwrap();
    // The header, the client's section, the counter and two pages.
    assert_eq!(before.chunks_total, 5);
    assert!(before.bytes > u64::from(5 * CHUNK));
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
    let ask = Message::AskNodes { slot, since: None, below: false, places: Vec::new() };
    let top = ask.answer(source.snapshot(slot));
    let mut world = World::new(fresh());
    world.hear(PEERS[0], top.clone());
    assert_eq!(world.transfer.progress(), None);
    world.want(slot, digest);
    let outsider = MemberId(7);
    world.hear(outsider, top);
    world.hear(PEERS[0], Message::Chunk { slot, section: 9, chunk: 0, bytes: Bytes::new() });
    world.hear(outsider, Message::Gone { slot });
    assert_eq!(world.transfer.progress().unwrap().chunks_total, 0);
    world.answer(&source, &mut honest);
    let before = world.transfer.progress().unwrap();
    assert_eq!(before.chunks_total, 4);
    let bytes = Bytes::from_static(b"x");
    let places = [(0, 7), (0, u32::MAX), (8, 0), (8, u32::MAX), (2, 0)];
    let node = |(height, prefix)| {
        let part = Part::Section { section: 7, bytes: bytes.clone() };
        (Place { height, prefix }, part)
    };
    let nodes = places.map(node).to_vec();
    world.hear(PEERS[1], Message::Nodes { slot, sections: 71, leaves: 5, nodes });
    world.hear(PEERS[1], Message::Chunk { slot, section: 0, chunk: u32::MAX, bytes });
    assert_eq!(world.transfer.progress(), Some(before));
}

#[test]
fn questions_without_an_answer_are_answered_gone() {
    let (source, slot, _) = toy::executor(&[(0, 1, 1)]);
    let (since, next) = (None, slot.next());
    let nowhere = [(1, u32::MAX), (9, 0), (0, u32::MAX), (0, 50)];
    let nowhere = nowhere.map(|(height, prefix)| Place { height, prefix });
    let nowhere =
        nowhere.map(|place| Message::AskNodes { slot, since, below: false, places: vec![place] });
    let others = [
        Message::AskNodes { slot: next, since, below: false, places: Vec::new() },
        Message::AskChunk { slot: next, section: 0, chunk: 0 },
        Message::AskChunk { slot, section: u32::MAX, chunk: 0 },
        Message::AskChunk { slot, section: 0, chunk: 0 },
    ];
    for question in nowhere.into_iter().chain(others) {
        let (mut out, slot) = (Vec::new(), question.slot());
        Transfer::new(LEARNER).on_message(PEERS[0], question, &source, &mut out);
        assert_eq!(out, [Step::Send { to: PEERS[0], message: Message::Gone { slot } }]);
    }
}

#[test]
fn an_oversize_message_is_malformed() {
    let slot = Slot(1);
    let bytes = Bytes::from(vec![0; CHUNK_BYTES_MAX + 1]);
    let chunk = Message::Chunk { slot, section: 0, chunk: 0, bytes: bytes.clone() };
    let place = Place { height: 0, prefix: 0 };
    let places = vec![place; TRANSFER_NODES_MAX + 1];
    let asks = Message::AskNodes { slot, since: None, below: false, places };
    let nodes = |parts: Vec<Part>| {
        let nodes = parts.into_iter().map(|part| (place, part)).collect();
        Message::Nodes { slot, sections: 1, leaves: 1, nodes }
    };
    let small = Part::Section { section: 0, bytes: Bytes::new() };
    let many = nodes(vec![small; TRANSFER_ANSWER_NODES_MAX + 1]);
    let section = nodes(vec![Part::Section { section: 0, bytes }]);
    let absent =
        nodes(vec![Part::Children { present: 1, listed: 3, digests: vec![Digest([1; 32]); 2] }]);
    let digests = vec![Digest::default(); CHUNKS_MAX + 1];
    let chunks = nodes(vec![Part::Chunks { section: 0, digests }]);
    for message in [chunk, asks, many, section, absent, chunks] {
        assert_eq!(Message::from_bytes(&message.to_bytes()), Err(Malformed));
    }
    let mut high = Writer::default();
    high.u8(0);
    high.u64(1);
    high.u8(0);
    high.sequence(&[Place { height: 9, prefix: 0 }]);
    assert_eq!(Message::from_bytes(&high.into_bytes()), Err(Malformed));
}

/// A liar shows who comes back an old state that a quorum vouched for once, and that nobody has any
/// more but itself. It gives a piece of it every 1.9 seconds. The other source has a newer state.
#[test]
fn who_is_given_an_old_state_drop_by_drop_takes_the_newer_one() {
    let [liar, other] = PEERS;
    let (mut source, old, old_state) = toy::executor(&[(0, 120 * CHUNK + 1, 1)]);
    run(&mut source, &batch(3, &[(1, write(2, 5, 5))]));
    let new_state = source.checkpoint();
    let new = source.executed();
    let mut world = World::new(fresh());
    world.want(old, old_state);
    world.want(new, new_state);
    let begun = world.now;
    let mut said_at = begun;
    while world.installed.is_none() && world.now < begun + 120_000 {
        let (mut kept, mut said) = (Vec::new(), false);
        for (to, question) in std::mem::take(&mut world.asked) {
            let mut out = Vec::new();
            Transfer::new(to).on_message(LEARNER, question.clone(), &source, &mut out);
            let [Step::Send { message, .. }] = &out[..] else { panic!("one answer") };
            let message = message.clone();
            if to == other {
                let gone = question.slot() == old;
                let answer = if gone { Message::Gone { slot: old } } else { message };
                world.hear(other, answer);
            } else if question.slot() == old && !said && world.now >= said_at + 1_900 {
                (said, said_at) = (true, world.now);
                let first = match message {
                    Message::Nodes { slot, sections, leaves, mut nodes } => {
                        nodes.truncate(1);
                        Message::Nodes { slot, sections, leaves, nodes }
                    }
                    other => other,
                };
                world.hear(liar, first);
            } else if question.slot() == old {
                kept.push((to, question));
            }
        }
        // The liar remembers what it was asked.
        kept.truncate(4);
        world.asked.extend(kept);
        world.now += 100;
        let mut out = Vec::new();
        world.transfer.on_round(Millis(world.now), &mut out);
        world.take(out);
    }
    let installed = world.installed.as_ref().map(|snapshot| snapshot.slot);
    assert_eq!(installed, Some(new), "after {} s", (world.now - begun) / 1000);
}
