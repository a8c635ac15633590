//! What a checkpoint and catching up cost, in processor time, bytes and memory, when a part of a
//! large store changed.
//!
//! ```sh
//! cargo run --release -p pentarchy-services --example catch_up -- [keys] [changed per 10,000]
//! ```
//!
//! A million keys of 1 KiB need about 6 GiB of memory, as the one who serves and the one who
//! fetches are in one process. Memory is what Linux says of the process.

use pentarchy_core::batch::Batch;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::MemberId;
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Message, Step, Transfer};
use pentarchy_core::wire::Wire;
use pentarchy_services::kv::{Command, Kv, STATE_BYTES_MAX};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

const VALUE_BYTES: usize = 1024;
const MEBIBYTE: f64 = (1 << 20) as f64;

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let keys: u64 = words.next().unwrap_or(1_000_000);
    let changed = keys * words.next().unwrap_or(100) / 10_000;
    println!("{keys} keys of {VALUE_BYTES} bytes, {changed} of them change");

    let empty = resident("VmRSS");
    let (mut source, mut requests) = (executor(), 0);
    write(&mut source, 0..keys, 1, &mut requests);
    let live = resident("VmRSS");
    println!("live state: {:.0} MiB", live - empty);
    checkpoint(&mut source, "first checkpoint");
    let kept = resident("VmRSS");
    let each = (kept - empty) * MEBIBYTE / keys as f64;
    println!("with its snapshot: {:.0} MiB, {each:.0} bytes for each key", kept - empty);
    checkpoint(&mut source, "checkpoint when little changed");

    let mut learner = executor();
    let begun = Instant::now();
    learner.install(source.latest().expect("just taken").clone()).expect("a state of ours");
    println!("installing all of it: {:.2?}", begun.elapsed());
    write(&mut source, chosen(keys, changed), 2, &mut requests);
    checkpoint(&mut source, "checkpoint of the changes");
    let wanted = source.latest().expect("just taken");
    reset_peak();
    let before = resident("VmRSS");
    println!("from a source that does not know what changed:");
    fetch(wanted, &learner, changed, true);
    println!("from one that knows:");
    let begun = Instant::now();
    learner.install(fetch(wanted, &learner, changed, false)).expect("a state of ours");
    println!("with the installation: {:.2?}", begun.elapsed());
    println!("memory above what it was before, at most: {:.0} MiB", resident("VmHWM") - before);
    assert_eq!(learner.checkpoint(), wanted.digest, "the state is the other one's");
}

/// Fetches a state, and says what it took. `full`: as from a source that was just restarted.
fn fetch(wanted: &Snapshot, learner: &Executor, changed: u64, full: bool) -> Snapshot {
    let (mut transfer, mut steps) = (Transfer::new(MemberId(0)), Vec::new());
    let (mut moved, mut asked, mut questions) = (0, 0, 0);
    let begun = Instant::now();
    let from = [MemberId(1), MemberId(2)].into_iter().collect();
    transfer.want(wanted.slot, wanted.digest, from, learner, &mut steps);
    let fetched = 'fetched: loop {
        for step in std::mem::take(&mut steps) {
            let (to, question) = match step {
                Step::Send { to, message } => (to, message),
                Step::Install(snapshot) => break 'fetched snapshot,
            };
            asked += question.to_bytes().len();
            questions += 1;
            let question = match question {
                Message::AskNodes { slot, below, places, .. } if full => {
                    Message::AskNodes { slot, since: None, below, places }
                }
                question => question,
            };
            let answer = question.answer(Some(wanted)).to_bytes();
            moved += answer.len();
            let answer = Wire::from_bytes(&answer).expect("an answer of ours");
            transfer.on_message(to, answer, learner, &mut steps);
        }
    };
    let values = changed as usize * VALUE_BYTES;
    println!(
        "{:.2} MiB moved for {:.2} MiB of values that changed, {:.3} times; \
         {questions} questions of {:.2} MiB in {:.2?}",
        moved as f64 / MEBIBYTE,
        values as f64 / MEBIBYTE,
        moved as f64 / values as f64,
        f64::from(asked as u32) / MEBIBYTE,
        begun.elapsed(),
    );
    fetched
}

fn executor() -> Executor {
    let members = (0..3).map(|id| ([id; 32], Life::mac(Incarnation(1))));
    let membership = Membership::of_keys(GroupId([5; 16]), 1, members);
    Executor::new(Arc::new(membership), Box::new(Kv::new(STATE_BYTES_MAX)))
}

/// Different keys that were chosen by chance, always the same.
fn chosen(keys: u64, count: u64) -> BTreeSet<u64> {
    let (mut state, mut chosen) = (1_u64, BTreeSet::new());
    while (chosen.len() as u64) < count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        chosen.insert((state >> 33) % keys);
    }
    chosen
}

fn write(
    executor: &mut Executor,
    keys: impl IntoIterator<Item = u64>,
    seed: u8,
    requests: &mut u64,
) {
    let mut waiting = Vec::new();
    for key in keys {
        let value: Vec<u8> = (0..VALUE_BYTES).map(|at| (at as u64 * key) as u8 ^ seed).collect();
        let name = format!("key:{key:012}");
        let operation = Command::new(&[b"SET", name.as_bytes(), &value]).to_operation();
        waiting.push(Request { number: *requests, operation });
        *requests += 1;
        if waiting.len() == 500 {
            execute(executor, std::mem::take(&mut waiting));
        }
    }
    execute(executor, waiting);
}

fn execute(executor: &mut Executor, requests: Vec<Request>) {
    let Some(floor) = requests.first().map(|request| request.number) else { return };
    let draft = Draft { client: ClientId([9; 32]), floor, events: None, requests };
    let envelope = draft.seal(RequestAuth::Signature([0; 64]));
    let digest = envelope.digest;
    let batch = Batch { time: Millis(7), envelopes: vec![Arc::new(envelope)], digest };
    executor.execute(executor.executed().next(), &batch, |_, _| {});
}

fn checkpoint(executor: &mut Executor, what: &str) {
    // Another slot, so that it is another state.
    let batch = Batch { time: Millis(8), envelopes: Vec::new(), digest: Default::default() };
    executor.execute(executor.executed().next(), &batch, |_, _| {});
    let begun = Instant::now();
    executor.checkpoint();
    println!("{what}: {:.2?}", begun.elapsed());
}

/// A line of `/proc/self/status`, in MiB.
fn resident(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let kibibytes = line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    kibibytes.unwrap_or(0.0) / 1024.0
}

/// From now on `VmHWM` is the peak since now.
fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process do that");
}
