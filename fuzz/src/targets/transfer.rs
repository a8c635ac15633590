//! A replica fetches a state that a quorum vouches for, from two sources of which any may lie. What
//! it installs is that state and no other, and it always has few questions open.

use crate::input::{Input, put_bytes};
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, MemberId, Millis, Slot};
use pentarchy_core::limits::{CHUNK_BYTES_MAX, TRANSFER_CHUNKS_IN_FLIGHT};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Message, Part, Step, Transfer};
use pentarchy_core::tree::{Leaf, Place, Tree};
use pentarchy_core::wire::{Malformed, Wire};
use pentarchy_sim::world::membership;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// The slot at which the one who fetches has a state of its own, and the one that is wanted.
const BASE: Slot = Slot(1);
const SLOT: Slot = Slot(2);
const STEPS_MAX: usize = 500;

const SECTIONS: u32 = 300;

/// Some small sections, and one of three chunks of which two are equal.
struct Pages {
    pages: BTreeMap<u32, Vec<u8>>,
    changed: BTreeSet<u32>,
}

impl Service for Pages {
    /// Changes some sections, and fills the large one.
    fn execute(&mut self, _: &Context, _: &[u8]) -> Vec<u8> {
        let mut large = vec![7; 2 * CHUNK_BYTES_MAX];
        large.extend_from_slice(b"the last chunk is small");
        let small = [(0, b"changed".to_vec()), (17, Vec::new()), (200, b"new".to_vec())];
        for (index, bytes) in small.into_iter().chain([(9, large)]) {
            self.put(index, bytes);
        }
        Vec::new()
    }
    fn query(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn sections(&self) -> u32 {
        SECTIONS
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.pages.get(&index).cloned().unwrap_or_default()
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.put(index, bytes.to_vec());
        Ok(())
    }
}

impl Pages {
    fn put(&mut self, index: u32, bytes: Vec<u8>) {
        self.changed.insert(index);
        self.pages.insert(index, bytes);
    }
}

/// An executor after the first slot.
fn executor() -> Executor {
    let mut pages = Pages { pages: BTreeMap::new(), changed: BTreeSet::new() };
    (0..SECTIONS).step_by(17).for_each(|index| pages.put(index, vec![index as u8; 9]));
    let mut executor = Executor::new(Arc::new(membership(1, 3, 1)), Box::new(pages));
    execute(&mut executor, Vec::new());
    executor
}

fn execute(executor: &mut Executor, requests: Vec<Request>) {
    let draft = Draft { client: ClientId([3; 32]), floor: 0, events: None, requests };
    let envelope = draft.seal(RequestAuth::Signature([0; 64]));
    let digest = envelope.digest;
    let batch = Batch { time: Millis(7), envelopes: vec![Arc::new(envelope)], digest };
    executor.execute(executor.executed().next(), &batch, |_, _| {});
    executor.checkpoint();
}

/// The state that is wanted.
fn wanted() -> &'static Snapshot {
    static WANTED: OnceLock<Snapshot> = OnceLock::new();
    WANTED.get_or_init(|| {
        let mut executor = executor();
        execute(&mut executor, vec![Request { number: 1, operation: Bytes::new() }]);
        executor.latest().expect("it was just taken").clone()
    })
}

struct Fetch {
    transfer: Transfer,
    executor: Executor,
    questions: VecDeque<(MemberId, Message)>,
    installed: bool,
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut fetch = Fetch {
        transfer: Transfer::new(MemberId(0)),
        executor: executor(),
        questions: VecDeque::new(),
        installed: false,
    };
    let (mut now, mut steps) = (0, Vec::new());
    let sources = BTreeSet::from([MemberId(1), MemberId(2)]);
    fetch.transfer.want(SLOT, wanted().digest, sources, &fetch.executor, &mut steps);
    fetch.carry_out(&mut steps);
    for _ in 0..STEPS_MAX {
        if input.is_empty() || fetch.installed {
            break;
        }
        match input.u8() % 4 {
            0 => {
                let from = MemberId(u32::from(input.u8() % 4));
                let bytes = Bytes::copy_from_slice(input.bytes());
                if let Ok(message) = Message::from_bytes(&bytes) {
                    fetch.hear(from, message, &mut steps);
                }
            }
            1 => fetch.answer(input.u8(), &mut steps),
            2 => fetch.spoil(input.u8(), &mut steps),
            _ => {
                now += u64::from(input.u16());
                fetch.transfer.on_round(Millis(now), &mut steps);
            }
        }
        fetch.carry_out(&mut steps);
    }
}

impl Fetch {
    fn hear(&mut self, from: MemberId, message: Message, out: &mut Vec<Step>) {
        self.transfer.on_message(from, message, &self.executor, out);
    }

    /// An honest answer to some question.
    fn answer(&mut self, at: u8, out: &mut Vec<Step>) {
        let at = usize::from(at) % self.questions.len().max(1);
        let Some((source, question)) = self.questions.remove(at) else { return };
        self.hear(source, answer(&question), out);
    }

    /// An answer with other bytes.
    fn spoil(&mut self, at: u8, out: &mut Vec<Step>) {
        let how = at % 3;
        let at = usize::from(at) % self.questions.len().max(1);
        let Some((source, question)) = self.questions.remove(at) else { return };
        let message = match answer(&question) {
            Message::Chunk { slot, section, chunk, bytes } => {
                Message::Chunk { slot, section, chunk, bytes: bytes.slice(1..) }
            }
            Message::Nodes { slot, sections, leaves, mut nodes } => {
                nodes.iter_mut().skip(usize::from(how)).take(1).for_each(|(_, part)| lie(part));
                Message::Nodes { slot, sections, leaves, nodes }
            }
            other => other,
        };
        self.hear(source, message, out);
    }

    fn carry_out(&mut self, steps: &mut Vec<Step>) {
        for step in steps.drain(..) {
            match step {
                Step::Send { to, message } => self.questions.push_back((to, message)),
                Step::Install(snapshot) => {
                    assert_eq!(snapshot.digest, wanted().digest);
                    let section = |index| {
                        let leaf = snapshot.tree.section(index);
                        leaf.and_then(Leaf::joined).map(|bytes| bytes.to_vec()).unwrap_or_default()
                    };
                    let tree = Tree::of(SLOT, (0..snapshot.tree.sections()).map(section));
                    assert_eq!(tree.digest(), wanted().digest);
                    self.executor.install(snapshot).expect("a vouched state can be restored");
                    assert_eq!(self.executor.checkpoint(), wanted().digest);
                    self.installed = true;
                }
            }
        }
        // Answers that were asked for too late still count, so only questions of ours are bounded.
        let mine = |(_, message): &&(MemberId, Message)| message.is_question();
        while self.questions.iter().filter(mine).count() > 64 * TRANSFER_CHUNKS_IN_FLIGHT {
            self.questions.pop_front();
        }
    }
}

fn answer(question: &Message) -> Message {
    if !question.is_question() {
        return question.clone();
    }
    question.answer(Some(wanted()).filter(|snapshot| snapshot.slot == question.slot()))
}

/// Says something else of a node.
fn lie(part: &mut Part) {
    match part {
        Part::Section { bytes, .. } => *bytes = bytes.slice(1..),
        Part::Chunks { digests, .. } => drop(digests.pop()),
        Part::Children { listed, digests, .. } => {
            *listed &= listed.wrapping_sub(1);
            digests.truncate(listed.count_ones() as usize);
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let slot = SLOT;
    let said = |message: &Message| {
        let mut deed = vec![0, 1];
        put_bytes(&message.to_bytes(), &mut deed);
        deed
    };
    let ask = |since, places| Message::AskNodes { slot, since, below: false, places };
    let top = said(&answer(&ask(None, Vec::new())));
    let more = Message::AskNodes { slot, since: None, below: true, places: Vec::new() };
    let more = said(&answer(&more));
    let partial = said(&answer(&ask(Some(BASE), Vec::new())));
    let under = (0..16).map(|prefix| Place { height: wanted().tree.place().height - 1, prefix });
    let under: Vec<Place> = under.filter(|place| wanted().tree.find(*place).is_some()).collect();
    let below = said(&answer(&ask(None, under.clone())));
    let bytes = Bytes::from_static(b"the last chunk is small");
    let section = 9 + wanted().tree.sections() - SECTIONS;
    let small = said(&Message::Chunk { slot, section, chunk: 2, bytes });
    let honest = [1, 0].repeat(20);
    let liars = vec![2, 0, 3, 0xff, 3, 1, 0, 2, 0, 1, 0, 3, 0, 9, 1, 0, 1, 0, 2, 1, 1, 0, 1, 0];
    let gone = [said(&Message::Gone { slot }), vec![3, 0, 9, 1, 0]].concat();
    let asks =
        [said(&ask(Some(BASE), under)), said(&Message::AskChunk { slot, section, chunk: 1 })];
    let late = [top.clone(), vec![3, 0xff, 1, 1, 0]].concat();
    let rest = [1, 0].repeat(12);
    let whole = [top, below, rest.clone(), small.clone()].concat();
    let more = [more, rest.clone()].concat();
    vec![honest, liars, gone, asks.concat(), late, whole, more, [partial, small, rest].concat()]
}
