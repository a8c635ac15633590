//! A replica fetches a state that a quorum vouches for, from two sources of which any may lie. What
//! it installs is that state and no other, and it always has few questions open.

use crate::input::{Input, put_bytes};
use pentarchy_core::Bytes;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{CHUNK_BYTES_MAX, TRANSFER_CHUNKS_IN_FLIGHT};
use pentarchy_core::service::{Context, SmallService, Whole};
use pentarchy_core::snapshot::{Section, Snapshot};
use pentarchy_core::transfer::{Message, Step, Transfer};
use pentarchy_core::wire::{Malformed, Wire};
use pentarchy_sim::world::membership;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

const SLOT: Slot = Slot(0);
const STEPS_MAX: usize = 500;

/// State of three chunks, two of them equal.
struct Blob(Vec<u8>);

impl SmallService for Blob {
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

fn executor(blob: Vec<u8>) -> Executor {
    Executor::new(Arc::new(membership(1, 3, 1)), Box::new(Whole::new(Blob(blob))))
}

/// The state that is wanted.
fn wanted() -> &'static Snapshot {
    static WANTED: OnceLock<Snapshot> = OnceLock::new();
    WANTED.get_or_init(|| {
        let mut blob = vec![7; 2 * CHUNK_BYTES_MAX];
        blob.extend_from_slice(b"the last chunk is small");
        let mut executor = executor(blob);
        executor.checkpoint();
        executor.latest().expect("it was just taken").clone()
    })
}

struct Fetch {
    transfer: Transfer,
    executor: Executor,
    questions: VecDeque<(ReplicaId, Message)>,
    installed: bool,
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut fetch = Fetch {
        transfer: Transfer::new(ReplicaId(0)),
        executor: executor(b"another state".to_vec()),
        questions: VecDeque::new(),
        installed: false,
    };
    let (mut now, mut steps) = (0, Vec::new());
    let sources = ReplicaSet::from_iter([ReplicaId(1), ReplicaId(2)]);
    fetch.transfer.want(SLOT, wanted().digest, sources, &fetch.executor, &mut steps);
    fetch.carry_out(&mut steps);
    for _ in 0..STEPS_MAX {
        if input.is_empty() || fetch.installed {
            break;
        }
        match input.u8() % 4 {
            0 => {
                let from = ReplicaId(u16::from(input.u8() % 4));
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
    fn hear(&mut self, from: ReplicaId, message: Message, out: &mut Vec<Step>) {
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
        let at = usize::from(at) % self.questions.len().max(1);
        let Some((source, question)) = self.questions.remove(at) else { return };
        let message = match answer(&question) {
            Message::Chunk { slot, index, bytes } => {
                Message::Chunk { slot, index, bytes: bytes.slice(1..) }
            }
            Message::Manifest { slot, mut manifest } => {
                manifest.0.pop();
                Message::Manifest { slot, manifest }
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
                    let cut = |section: &Section| Section::cut(section.joined().to_vec());
                    let sections = snapshot.sections.iter().map(cut).collect();
                    assert_eq!(Snapshot::new(SLOT, sections).digest, wanted().digest);
                    self.executor.install(snapshot).expect("a vouched state can be restored");
                    assert_eq!(self.executor.checkpoint(), wanted().digest);
                    self.installed = true;
                }
            }
        }
        // Answers that were asked for too late still count, so only questions of ours are bounded.
        let mine = |(_, message): &&(ReplicaId, Message)| {
            matches!(message, Message::AskManifest { .. } | Message::AskChunk { .. })
        };
        while self.questions.iter().filter(mine).count() > 64 * TRANSFER_CHUNKS_IN_FLIGHT {
            self.questions.pop_front();
        }
    }
}

fn answer(question: &Message) -> Message {
    match question {
        Message::AskManifest { slot } => {
            Message::Manifest { slot: *slot, manifest: wanted().manifest() }
        }
        Message::AskChunk { slot, index } => match wanted().chunk(*index as usize) {
            Some(bytes) => Message::Chunk { slot: *slot, index: *index, bytes: bytes.clone() },
            None => Message::Gone { slot: *slot },
        },
        other => other.clone(),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let slot = SLOT;
    let said = |message: &Message| {
        let mut deed = vec![0, 1];
        put_bytes(&message.to_bytes(), &mut deed);
        deed
    };
    let manifest = said(&Message::Manifest { slot, manifest: wanted().manifest() });
    let last = wanted().chunk(66).or_else(|| wanted().chunk(2)).cloned().unwrap_or_default();
    let small =
        |index| said(&Message::Chunk { slot, index, bytes: last.slice(..last.len().min(64)) });
    let honest = vec![1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0];
    let liars = vec![2, 0, 3, 0xff, 3, 1, 0, 2, 0, 1, 0, 3, 0, 9, 1, 0, 1, 0, 1, 0];
    let gone = [said(&Message::Gone { slot }), vec![3, 0, 9, 1, 0]].concat();
    let asks = [said(&Message::AskManifest { slot }), said(&Message::AskChunk { slot, index: 1 })]
        .concat();
    let mut chunks = manifest.clone();
    (0..6).for_each(|index| chunks.extend(small(index)));
    vec![honest, liars, gone, asks, [manifest, vec![3, 0xff, 1, 1, 0]].concat(), chunks]
}
