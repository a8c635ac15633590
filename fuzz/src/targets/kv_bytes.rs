//! Operations and results of the key-value store as bytes: an even first byte says operation, an
//! odd one result. The decoders agree with each other, and each value has one encoding.

use super::kv_commands;
use super::wire::round_trip;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Wire;
use pentarchy_services::kv::command::Args;
use pentarchy_services::kv::{Command, Kv, Reply};

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    match input.u8() % 2 {
        0 => operation(&input.shared()),
        _ => result(input.rest()),
    }
}

fn operation(bytes: &Bytes) {
    round_trip::<Command>(bytes);
    let borrowed = bounded(bytes.len(), || Args::parse(bytes));
    let owned = Command::from_bytes(bytes);
    assert_eq!(borrowed.is_ok(), owned.is_ok(), "one decoder refuses what the other takes");
    if let (Ok(borrowed), Ok(owned)) = (&borrowed, &owned) {
        assert!(borrowed.iter().copied().eq(owned.args.iter().map(|arg| &arg[..])));
    }
    let mut kv = Kv::default();
    let context = Context::new(Slot(1), 0, Millis(0), ClientId::default(), Digest::default());
    let executed = kv.execute(&context, bytes);
    // Packs, transactions and requests about sessions have results of their own kinds.
    let is_command = !matches!(bytes.first(), Some(1..=3));
    for result in [kv.query(bytes)].into_iter().chain(is_command.then_some(executed)) {
        let reply = Reply::decode(&result).expect("results decode");
        assert_eq!(reply.encode(), result);
        assert!(owned.is_ok() || matches!(reply, Reply::Error(..)), "nonsense is answered so");
    }
}

fn result(bytes: &[u8]) {
    if let Ok(reply) = bounded(bytes.len(), || Reply::decode(bytes)) {
        assert_eq!(reply.encode(), bytes, "one encoding of {reply:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let words = |line: &str| Command::new(&line.split(' ').collect::<Vec<_>>());
    let commands = kv_commands::SCRIPT.lines().map(|line| words(line).to_operation());
    let mut seeds: Vec<Vec<u8>> =
        commands.map(|operation| [&[0][..], &operation].concat()).collect();
    let mut kv = Kv::default();
    let mut results = kv_commands::execute(&mut kv, kv_commands::SCRIPT.as_bytes());
    results.sort();
    results.dedup();
    seeds.extend(results.iter().map(|result| [&[1][..], result].concat()));
    seeds
}
