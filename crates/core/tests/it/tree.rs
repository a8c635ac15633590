//! Trees of many sections: the same whatever way they came about, and moved as what changed.

use crate::cold::{Files, Memory};
use crate::toy;
use pentarchy_core::Bytes;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::executor::{Executor, Untaught};
use pentarchy_core::ids::{MemberId, Millis, Slot};
use pentarchy_core::limits::{CHUNK_BYTES_MAX, TRANSFER_CHUNKS_IN_FLIGHT};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Message, Part, Step, Transfer};
use pentarchy_core::tree::{Change, Chunk, Leaf, Tree};
use pentarchy_core::wire::{Malformed, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Numbers that look random; an LCG suffices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

type Model = BTreeMap<u32, Vec<u8>>;

fn naive(sections: u32, model: &Model) -> Tree {
    let section = |index| model.get(&index).cloned().unwrap_or_default();
    Tree::of(Slot(1), (0..sections).map(section))
}

/// Changes some sections of a model, and says which.
fn change(dice: &mut Dice, sections: u32, model: &mut Model, slot: Slot) -> Vec<Change> {
    let mut changed = BTreeSet::new();
    let spread = [8, 64, u64::from(sections)][dice.roll(3) as usize].min(u64::from(sections));
    for _ in 0..dice.roll(12) {
        let index = dice.roll(spread) as u32;
        changed.insert(index);
        if dice.roll(3) == 0 {
            model.remove(&index);
        } else {
            model.insert(index, vec![dice.roll(256) as u8; 1 + dice.roll(40) as usize]);
        }
    }
    let leaf = |index: &u32| Some(Arc::new(Leaf::new(*index, model.get(index)?.clone(), slot)));
    changed.iter().map(|index| (*index, leaf(index))).collect()
}

#[test]
fn a_tree_is_what_its_sections_are_however_it_came_about() {
    for sections in [1, 2, 15, 16, 17, 300, 5_000] {
        let mut dice = Dice(u64::from(sections));
        let mut model = Model::new();
        let mut tree = Tree::new(sections);
        for round in 1..120 {
            let (before, old) = (tree.clone(), model.clone());
            let changes = change(&mut dice, sections, &mut model, Slot(round));
            tree = tree.changed(&changes, Slot(round));
            let expected = naive(sections, &model);
            assert_eq!(tree.digest(), expected.digest(), "{sections} sections, round {round}");
            assert_eq!(tree.leaves() as usize, model.len());
            let bytes: usize = model.values().map(Vec::len).sum();
            assert_eq!(tree.top().map_or(0, |top| top.bytes()), bytes as u64);
            let found: Model = tree
                .iter()
                .map(|leaf| (leaf.section(), leaf.joined().expect("it is there").to_vec()))
                .collect();
            assert_eq!(found, model);
            let differing: Vec<u32> =
                (0..sections).filter(|index| old.get(index) != model.get(index)).collect();
            let found = tree.changes_since(&before);
            assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), differing);
            assert_eq!(before.changed(&found, Slot(round)).digest(), tree.digest());
        }
    }
}

#[test]
fn the_sections_of_a_range_are_those_that_there_are() {
    let mut dice = Dice(7);
    let all = u32::MAX;
    let sections: BTreeSet<u32> = (0..200).map(|at| dice.roll(1 << (at % 32)) as u32).collect();
    let leaf = |section: &u32| (*section, Some(Arc::new(Leaf::new(*section, vec![1], Slot(1)))));
    let changes: Vec<Change> = sections.iter().map(leaf).collect();
    let tree = Tree::new(all).changed(&changes, Slot(1));
    let within = |first, last| tree.within(first..=last).map(|leaf| leaf.section());
    assert!(within(0, all).eq(sections.iter().copied()));
    for section in &sections {
        let other = dice.roll(u64::from(all)) as u32;
        let (first, last) = (*section.min(&other), *section.max(&other));
        assert!(within(first, last).eq(sections.range(first..=last).copied()));
        assert!(within(*section, *section).eq([*section]));
    }
    assert_eq!(Tree::new(all).within(0..=all).count(), 0);
}

#[test]
fn other_sections_have_another_digest() {
    let trees = [
        Tree::of(Slot(0), [vec![1], vec![2]]),
        Tree::of(Slot(0), [vec![2], vec![1]]),
        Tree::of(Slot(0), [vec![1, 2], vec![]]),
        Tree::of(Slot(0), [vec![], vec![1, 2]]),
        Tree::of(Slot(0), [vec![1], vec![2], vec![]]),
        Tree::of(Slot(0), [vec![1], vec![]]),
        Tree::of(Slot(0), [vec![1]]),
        Tree::new(2),
        Tree::new(3),
    ];
    let digests: BTreeSet<Digest> = trees.iter().map(Tree::digest).collect();
    assert_eq!(digests.len(), trees.len());
}

#[test]
fn the_digest_of_a_state_has_not_moved() {
    let large = vec![5; (256 << 10) + 1];
    let tree = Tree::of(Slot(3), (0..40).map(|index| vec![index; index as usize]).chain([large]));
    assert_eq!(tree.digest().to_string(), FORMAT);
}

/// First bytes of the digest above. If it changes, replicas of the two versions cannot agree.
const FORMAT: &str = "0292cc72";

/// As many keys as there are sections, each with a value.
#[derive(Default)]
struct Wide {
    model: Model,
    changed: BTreeSet<u32>,
}

const WIDE: u32 = 1 << 20;

impl Wide {
    fn of(model: &Model) -> Box<dyn Service> {
        Box::new(Self { model: model.clone(), changed: model.keys().copied().collect() })
    }
}

impl Service for Wide {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        let (index, value) = operation.split_at(4);
        let index = u32::from_le_bytes(index.try_into().unwrap());
        self.restore_section(index, value).unwrap();
        Vec::new()
    }
    /// The digest of all there is.
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new("model");
        for (index, value) in &self.model {
            hasher.u64(u64::from(*index)).bytes(value);
        }
        hasher.finish().0.to_vec()
    }
    fn sections(&self) -> u32 {
        WIDE
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.model.get(&index).cloned().unwrap_or_default()
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.changed.insert(index);
        match bytes {
            [] => drop(self.model.remove(&index)),
            bytes => drop(self.model.insert(index, bytes.to_vec())),
        }
        Ok(())
    }
}

fn many(dice: &mut Dice) -> Model {
    let value = |number: u64| vec![number as u8; 200 + (number % 50) as usize];
    (0..4_000).map(|number| (dice.roll(u64::from(WIDE)) as u32, value(number))).collect()
}

/// Writes to some keys, old and new, and empties some, in one slot; gives the bytes written.
fn write_some(executor: &mut Executor, keys: &[u32], seed: u8) -> usize {
    let operation = |(number, key): (usize, &u32)| {
        let value = if number % 7 == 6 { Vec::new() } else { vec![seed; 220] };
        let bytes = [&key.to_le_bytes()[..], &value].concat();
        (number as u64 + 1, bytes)
    };
    let requests: Vec<_> = keys.iter().enumerate().map(operation).collect();
    let bytes = requests.iter().map(|(_, bytes)| bytes.len() - 4).sum();
    toy::run(executor, &toy::batch(seed, &requests));
    bytes
}

/// What was said until the state was there.
#[derive(Default, Debug)]
struct Talk {
    questions: usize,
    bytes: usize,
    full: usize,
}

/// Fetches a state from two peers, one of which may lie, and installs it.
fn fetch(
    learner: &mut Executor,
    source: &Executor,
    transfer: &mut Transfer,
    mut said: impl FnMut(MemberId, Message) -> Option<Message>,
) -> Talk {
    let wanted = source.latest().unwrap();
    let (mut steps, mut talk, mut now) = (Vec::new(), Talk::default(), 1_000);
    let peers: BTreeSet<MemberId> = [MemberId(1), MemberId(2)].into_iter().collect();
    transfer.want(wanted.slot, wanted.digest, peers, learner, &mut steps);
    loop {
        let mut asked = 0;
        for step in std::mem::take(&mut steps) {
            let (to, question) = match step {
                Step::Send { to, message } => (to, message),
                Step::Install(snapshot) => {
                    assert_eq!(snapshot.tree.digest(), wanted.digest);
                    learner.install(snapshot).unwrap();
                    return talk;
                }
            };
            asked += 1;
            talk.questions += 1;
            talk.full += usize::from(matches!(question, Message::AskNodes { since: None, .. }));
            let question = Message::from_bytes(&question.to_bytes()).unwrap();
            let Some(answer) = said(to, question.answer(source.snapshot(question.slot()))) else {
                continue;
            };
            talk.bytes += answer.to_bytes().len();
            let answer = Message::from_bytes(&answer.to_bytes()).unwrap();
            transfer.on_message(to, answer, learner, &mut steps);
        }
        if asked == 0 {
            now += 500;
            assert!(now < 200_000, "no progress: {:?}", transfer.progress());
            transfer.on_round(Millis(now), &mut steps);
        }
    }
}

fn honest(_: MemberId, message: Message) -> Option<Message> {
    Some(message)
}

fn same(one: &mut Executor, other: &mut Executor) {
    assert_eq!(one.query(&[]), other.query(&[]));
    let keys = [1, 2, 3];
    write_some(one, &keys, 77);
    write_some(other, &keys, 77);
    assert_eq!(one.checkpoint(), other.checkpoint());
}

fn keys_of(model: &Model, each: usize) -> Vec<u32> {
    let old = model.keys().copied().step_by(each);
    old.flat_map(|key| [key, key ^ 1]).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A source that is ahead, one that stayed where both were, and what changed between them.
fn apart(dice: &mut Dice) -> (Executor, Executor, usize) {
    let model = many(dice);
    let mut source = toy::fresh(Wide::of(&model));
    write_some(&mut source, &[5, 6], 1);
    source.checkpoint();
    let mut learner = toy::fresh(Wide::of(&Model::new()));
    learner.install(source.latest().unwrap().clone()).unwrap();
    let changed = write_some(&mut source, &keys_of(&model, 40), 2);
    source.checkpoint();
    (source, learner, changed)
}

#[test]
fn a_large_section_shares_with_its_former_self_what_did_not_change() {
    let before = vec![1; 5 * CHUNK_BYTES_MAX];
    let mut after = before.clone();
    after[2 * CHUNK_BYTES_MAX] = 2;
    after.push(3);
    let before = Leaf::new(7, before, Slot(1));
    let shared = Leaf::after(Some(&before), 7, after.clone(), Slot(2));
    assert_eq!(shared.digest(), Leaf::new(7, after.clone(), Slot(2)).digest());
    assert_eq!(shared.joined().expect("it is in memory"), after);
    let pairs = before.chunks().iter().zip(shared.chunks());
    let at = |chunk: &Chunk| chunk.read().expect("it is in memory").as_ptr();
    let same: Vec<bool> = pairs.map(|(old, new)| at(old) == at(new)).collect();
    assert_eq!(same, [true, true, false, true, true]);
}

#[test]
fn what_changed_is_moved_with_little_else() {
    let (mut source, mut learner, changed) = apart(&mut Dice(4));
    let mut transfer = Transfer::new(MemberId(0));
    let talk = fetch(&mut learner, &source, &mut transfer, honest);
    assert_eq!(talk.full, 0);
    assert!(talk.bytes < 2 * changed, "{talk:?} for {changed} bytes");
    assert!(talk.questions < 60, "{talk:?}");
    same(&mut learner, &mut source);
}

#[test]
fn what_a_machine_learned_before_it_was_a_member_is_not_moved_again() {
    let (mut source, learner, changed) = apart(&mut Dice(6));
    let learned = learner.latest().unwrap();
    let restored = |service: &mut dyn Service, before: Option<&Snapshot>, state: &Snapshot| {
        Executor::teach(service, before, state).unwrap();
        assert!(service.changed_sections().is_empty());
    };
    // From whatever it is to one state, and then to another one.
    let mut service = Wide::of(&Model::from([(3, vec![3])]));
    restored(&mut *service, None, source.latest().unwrap());
    assert_eq!(service.query(&[]), source.query(&[]));
    restored(&mut *service, source.latest(), learned);
    assert_eq!(service.query(&[]), learner.query(&[]));

    let mut member = Executor::taught(toy::membership(), service, learned);
    let mut transfer = Transfer::new(MemberId(0));
    transfer.learned(learned.clone());
    let talk = fetch(&mut member, &source, &mut transfer, honest);
    assert!(talk.bytes < 2 * changed, "{talk:?} for {changed} bytes");
    same(&mut member, &mut source);
}

#[test]
fn no_service_learns_the_state_of_another_one() {
    let (other, ..) = toy::executor(&[(1, 10, 1)]);
    let mut service = Wide::of(&Model::new());
    let learns = Executor::teach(&mut *service, None, other.latest().unwrap());
    assert_eq!(learns, Err(Untaught::Strange));
}

#[test]
fn what_was_asked_before_there_was_a_channel_is_asked_again_at_once() {
    let (source, mut learner, _) = apart(&mut Dice(8));
    let (mut transfer, mut steps) = (Transfer::new(MemberId(0)), Vec::new());
    let (wanted, peer) = (source.latest().unwrap(), MemberId(1));
    let from = BTreeSet::from([peer]);
    transfer.want(wanted.slot, wanted.digest, from, &learner, &mut steps);
    let asked = std::mem::take(&mut steps);
    transfer.on_round(Millis(1), &mut steps);
    assert_eq!((asked.len(), steps.len()), (1, 0), "it waits for the answer");
    transfer.connected(MemberId(2));
    transfer.on_round(Millis(2), &mut steps);
    assert!(steps.is_empty(), "it asked another one");
    transfer.connected(peer);
    transfer.on_round(Millis(3), &mut steps);
    assert_eq!(steps, asked);
    let talk = fetch(&mut learner, &source, &mut transfer, honest);
    assert!(talk.questions > 0);
}

#[test]
fn chunks_that_are_here_are_looked_at_before_they_count() {
    let key = 9u32;
    let write = |executor: &mut Executor, number, last: u8| {
        let mut value = vec![1; 3 * CHUNK_BYTES_MAX];
        value.push(last);
        let bytes = [&key.to_le_bytes()[..], &value].concat();
        toy::run(executor, &toy::batch(1, &[(number, bytes)]));
        executor.checkpoint();
    };
    let mut source = toy::fresh(Wide::of(&Model::new()));
    write(&mut source, 1, 1);
    let mut learner = toy::fresh(Wide::of(&Model::new()));
    learner.install(source.latest().unwrap().clone()).unwrap();
    let memory = Arc::<Memory>::default();
    let files = Files(memory.clone());
    let in_files = learner
        .latest()
        .unwrap()
        .tree
        .replaced(&mut |leaf| Some(Leaf::clone(leaf).spooled(&files)));
    learner.cool(&in_files);
    write(&mut source, 2, 2);
    memory.rot();
    let talk = fetch(&mut learner, &source, &mut Transfer::new(MemberId(0)), honest);
    assert!(talk.bytes > CHUNK_BYTES_MAX, "what has rotted is fetched: {talk:?}");
    assert_eq!(learner.failure(), None);
    assert_eq!(learner.query(&[]), source.query(&[]));
}

#[test]
fn a_source_that_does_not_know_what_changed_serves_as_well() {
    let (source, mut learner, changed) = apart(&mut Dice(5));
    // As after a restart: all of it is as old as its snapshot.
    let mut restarted = toy::fresh(Wide::of(&Model::new()));
    let snapshot = source.latest().unwrap();
    let mut copy = snapshot.clone();
    let leaves: Vec<Change> = snapshot
        .tree
        .iter()
        .map(|leaf| {
            let fresh = Leaf::new(
                leaf.section(),
                leaf.joined().expect("it is there").to_vec(),
                snapshot.slot,
            );
            (leaf.section(), Some(Arc::new(fresh)))
        })
        .collect();
    copy.tree = Tree::new(snapshot.tree.sections()).changed(&leaves, snapshot.slot);
    restarted.install(copy).unwrap();
    let mut transfer = Transfer::new(MemberId(0));
    let talk = fetch(&mut learner, &restarted, &mut transfer, honest);
    let wasted = talk.bytes.saturating_sub(12 * changed);
    assert!(talk.bytes > 2 * changed, "{talk:?} for {changed}");
    assert!(wasted < CHUNK_BYTES_MAX, "one answer shows what the source does not know: {talk:?}");
    same(&mut learner, &mut restarted);
}

#[test]
fn who_has_nothing_gets_all_of_it() {
    let (mut source, ..) = apart(&mut Dice(6));
    let mut learner = toy::fresh(Wide::of(&Model::new()));
    let talk = fetch(&mut learner, &source, &mut Transfer::new(MemberId(0)), honest);
    let bytes = source.latest().unwrap().tree.top().unwrap().bytes() as usize;
    assert!(talk.bytes > bytes && talk.bytes < bytes * 3 / 2, "{talk:?} for {bytes}");
    let answers = talk.bytes.div_ceil(CHUNK_BYTES_MAX);
    assert!(talk.questions < 6 * answers, "what is below comes as well: {talk:?}");
    same(&mut learner, &mut source);
}

#[test]
fn a_base_that_the_sources_do_not_share_costs_bytes_only() {
    let (mut source, mut learner, _) = apart(&mut Dice(7));
    // A slot of the learner's own, which no source has seen.
    write_some(&mut learner, &[9, 1 << 19], 9);
    learner.checkpoint();
    write_some(&mut source, &[9], 4);
    source.checkpoint();
    let talk = fetch(&mut learner, &source, &mut Transfer::new(MemberId(0)), honest);
    assert!(talk.full > 0, "{talk:?}");
    same(&mut learner, &mut source);
}

#[test]
fn lies_about_nodes_cost_time_only() {
    let spoil = |part: &mut Part, kind: u64| match part {
        Part::Section { section, bytes } => match kind {
            0 => *bytes = Bytes::from_static(b"another"),
            1 => *section ^= 1,
            _ => *bytes = Bytes::new(),
        },
        Part::Children { present, listed, digests } => match kind {
            0 => (*listed, *digests) = (0, Vec::new()),
            1 => *present |= 1 << 15,
            _ => digests.iter_mut().for_each(|digest| *digest = Digest([9; 32])),
        },
        Part::Chunks { .. } => {}
    };
    let mut told = 0;
    for seed in 0..60 {
        let mut dice = Dice(100 + seed);
        let (mut source, mut learner, _) = apart(&mut dice);
        if seed % 2 == 0 {
            learner = toy::fresh(Wide::of(&Model::new()));
        }
        let liar = |from, mut message| {
            if from == MemberId(1) && dice.roll(3) > 0 {
                told += 1;
                match (&mut message, dice.roll(5)) {
                    (_, 0) => return None,
                    (message, 1) => {
                        return Some(Message::Gone { slot: message.slot() });
                    }
                    (Message::Nodes { nodes, .. }, 2) => nodes.reverse(),
                    (Message::Nodes { nodes, .. }, 3) => nodes.clear(),
                    (Message::Nodes { nodes, .. }, _) => {
                        let at = dice.roll(nodes.len() as u64) as usize;
                        spoil(&mut nodes[at].1, dice.roll(3));
                    }
                    _ => {}
                }
            }
            Some(message)
        };
        fetch(&mut learner, &source, &mut Transfer::new(MemberId(0)), liar);
        same(&mut learner, &mut source);
    }
    assert!(told > 60, "{told} lies");
}

#[test]
fn what_was_fetched_for_a_state_that_passed_is_not_fetched_again() {
    let (mut source, ..) = apart(&mut Dice(9));
    let mut learner = toy::fresh(Wide::of(&Model::new()));
    let mut transfer = Transfer::new(MemberId(0));
    let bytes = source.latest().unwrap().tree.top().unwrap().bytes() as usize;
    // Half of it comes; then nobody answers, and the group goes on.
    let (mut steps, mut moved) = (Vec::new(), 0);
    let peers: BTreeSet<MemberId> = [MemberId(1)].into_iter().collect();
    let wanted = source.latest().unwrap();
    transfer.want(wanted.slot, wanted.digest, peers, &learner, &mut steps);
    while moved < bytes / 2 {
        assert!(steps.len() <= TRANSFER_CHUNKS_IN_FLIGHT);
        let step = steps.remove(0);
        let Step::Send { message, .. } = step else { panic!("half of it is not all") };
        let answer = message.answer(Some(wanted));
        moved += answer.to_bytes().len();
        transfer.on_message(MemberId(1), answer, &learner, &mut steps);
    }
    write_some(&mut source, &[1, 2, 3, 1 << 18], 3);
    source.checkpoint();
    source.stable(source.executed());
    let talk = fetch(&mut learner, &source, &mut transfer, honest);
    let mut other = toy::fresh(Wide::of(&Model::new()));
    let whole = fetch(&mut other, &source, &mut Transfer::new(MemberId(0)), honest);
    assert!(talk.bytes + moved < whole.bytes * 11 / 10, "{talk:?} after {moved} of {whole:?}");
    same(&mut learner, &mut source);
}
