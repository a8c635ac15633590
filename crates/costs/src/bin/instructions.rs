//! What callgrind counts: one case, named on the command line, on real cores with keys that do
//! nothing. `cargo xtask instructions` runs it; without arguments it lists its cases.
//!
//! Nothing in here is random, and there is one thread, so equal programs take equal instructions.

use pentarchy_core::digest::hashed;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_costs::group::Group;
use pentarchy_costs::stand_in::{Calls, Plain, clients, keys, membership};
use pentarchy_costs::{Job, Node, Probe, Unwatched, steps};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

/// Faulty replicas that the group tolerates.
const FAULTS: usize = 1;
/// Bytes of each operation and of each result.
const OPERATION_BYTES: usize = 64;
/// Slots that are ordered before counting begins, and that are counted: one checkpoint in each.
const SLOTS: u64 = CHECKPOINT_SLOTS;

const PRIMARY: ReplicaId = ReplicaId(0);
const BACKUP: ReplicaId = ReplicaId(1);

/// What is counted.
struct Case {
    name: &'static str,
    protocol: &'static Descriptor,
    /// At which replica.
    replica: ReplicaId,
    /// Which of its work; all of it if there is no list.
    steps: Option<&'static [&'static str]>,
    /// Clients with one request each in every slot.
    batch: usize,
}

impl Case {
    /// The case's name: with its protocol, unless that is the default.
    fn full_name(&self) -> String {
        match self.protocol.rules.name {
            protocol if protocol == DEFAULT.rules.name => self.name.to_owned(),
            protocol => format!("{protocol}-{}", self.name),
        }
    }
}

const fn step(name: &'static str, replica: ReplicaId, steps: &'static [&'static str]) -> Case {
    Case { name, protocol: DEFAULT, replica, steps: Some(steps), batch: 10 }
}

const fn whole(name: &'static str, replica: ReplicaId, batch: usize) -> Case {
    Case { name, protocol: DEFAULT, replica, steps: None, batch }
}

/// The same of the protocol that is split: also where its order is not, its code differs.
const fn split(case: Case) -> Case {
    Case { protocol: EXAMPLES.split, ..case }
}

static CASES: [Case; 22] = [
    step("request-in", PRIMARY, &["request", steps::ADMIT]),
    step("propose", PRIMARY, &[steps::ROUND]),
    step("prepare", BACKUP, &["prepare"]),
    step("commit", PRIMARY, &["commit"]),
    step("execute", PRIMARY, &[steps::EXECUTE]),
    step("reply", PRIMARY, &[steps::REPLY]),
    step("checkpoint", PRIMARY, &["checkpoint", steps::SNAPSHOT]),
    whole("primary-1", PRIMARY, 1),
    whole("primary-10", PRIMARY, 10),
    whole("primary-100", PRIMARY, 100),
    whole("backup-1", BACKUP, 1),
    whole("backup-10", BACKUP, 10),
    whole("backup-100", BACKUP, 100),
    split(step("propose", PRIMARY, &[steps::ROUND])),
    split(step("prepare", BACKUP, &["prepare"])),
    split(step("commit", PRIMARY, &["commit"])),
    split(whole("primary-1", PRIMARY, 1)),
    split(whole("primary-10", PRIMARY, 10)),
    split(whole("primary-100", PRIMARY, 100)),
    split(whole("backup-1", BACKUP, 1)),
    split(whole("backup-10", BACKUP, 10)),
    split(whole("backup-100", BACKUP, 100)),
];

/// Callgrind counts while this runs, by its name. Never a jump to the work: the end of this
/// function is where counting ends.
#[inline(never)]
fn collect_instructions(work: &mut dyn FnMut()) -> u8 {
    work();
    black_box(1)
}

/// The same while this runs within that: callgrind does not count.
#[inline(never)]
fn collect_instructions_not(work: &mut dyn FnMut()) -> u8 {
    work();
    black_box(2)
}

/// Has the chosen work counted, and counts what it asks of keys.
struct Collecting<'a> {
    case: &'a Case,
    calls: Arc<Calls>,
    is_collecting: bool,
    hashes: (u64, u64),
    asked: [u64; 5],
    /// Both, when collecting began.
    before: ((u64, u64), [u64; 5]),
}

impl Collecting<'_> {
    fn count(&self) -> ((u64, u64), [u64; 5]) {
        (hashed(), self.calls.by_name().map(|(_, count)| count))
    }

    fn begin(&mut self) {
        self.is_collecting = true;
        self.before = self.count();
    }

    fn end(&mut self) {
        self.is_collecting = false;
        let ((hashes, bytes), asked) = self.count();
        let (before, asked_before) = self.before;
        self.hashes.0 += hashes - before.0;
        self.hashes.1 += bytes - before.1;
        for (sum, (now, before)) in self.asked.iter_mut().zip(asked.into_iter().zip(asked_before)) {
            *sum += now - before;
        }
    }
}

impl Probe for Collecting<'_> {
    fn around(&mut self, node: Node, step: &'static str, work: Job<'_>) {
        let is_chosen = self.case.steps.is_none_or(|steps| steps.contains(&step));
        match (self.is_collecting, node == Node::Replica(self.case.replica) && is_chosen) {
            (false, true) => {
                self.begin();
                collect_instructions(&mut || work(self));
                self.end();
            }
            (true, false) => {
                self.end();
                collect_instructions_not(&mut || work(self));
                self.begin();
            }
            _ => work(self),
        }
    }
}

fn run(case: &Case) {
    let calls: Vec<Arc<Calls>> = (0..=2 * FAULTS).map(|_| Arc::default()).collect();
    let membership = membership(FAULTS);
    let of = |id: ReplicaId| keys(&calls[usize::from(id.0)]);
    let mut group =
        Group::new(case.protocol, &membership, of, clients(case.batch), Box::new(Plain));
    group.level(&mut Unwatched);
    let calls = calls[usize::from(case.replica.0)].clone();
    let (hashes, asked) = ((0, 0), [0; 5]);
    let before = (hashes, asked);
    let mut collecting = Collecting { case, calls, is_collecting: false, hashes, asked, before };
    for slot in 1..=2 * SLOTS {
        group.submit(1, OPERATION_BYTES);
        let is_counted = slot > SLOTS;
        let probe: &mut dyn Probe = if is_counted { &mut collecting } else { &mut Unwatched };
        group.settle(slot as usize, probe);
    }
    let names = collecting.calls.by_name().map(|(name, _)| name);
    println!("requests {}", SLOTS * case.batch as u64);
    println!("digests {}", collecting.hashes.0);
    println!("digested_bytes {}", collecting.hashes.1);
    names.iter().zip(collecting.asked).for_each(|(name, count)| println!("{name} {count}"));
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let case = CASES.iter().find(|case| Some(case.full_name()) == wanted);
    match case {
        Some(case) => run(case),
        None if wanted.is_none() => CASES.iter().for_each(|case| println!("{}", case.full_name())),
        None => {
            eprintln!("no such case; without an argument all are listed");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
