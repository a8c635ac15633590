//! What a group stores before it is measured.

use crate::interrupt::Interrupt;
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::{KeyPair, Pending, node};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_services::kv::{Command, Reply};
use std::collections::VecDeque;
use std::time::Duration;

/// How many bytes of values are under way at a time, ...
const UNDER_WAY_BYTES: usize = 1 << 20;

/// ... and how many values.
const UNDER_WAY: usize = 1024;

/// For one of them.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes so many keys with values of this size.
pub fn fill(
    config: &ClusterConfig,
    keys: u64,
    value_bytes: usize,
    interrupt: &Interrupt,
) -> Outcome {
    let client = node::connect(config, KeyPair::generate())
        .map_err(|error| Failure::Internal(format!("cannot connect: {error}")))?;
    let value = "x".repeat(value_bytes);
    let under_way = UNDER_WAY.min(UNDER_WAY_BYTES / value_bytes.max(1));
    let mut waiting = VecDeque::new();
    for number in 0..keys {
        let words = Command::new(&["SET", &format!("key-{number}"), &value]);
        waiting.push_back(client.submit(words.to_operation()));
        if waiting.len() >= under_way {
            interrupt.check()?;
            wait(waiting.pop_front())?;
        }
    }
    while !waiting.is_empty() {
        wait(waiting.pop_front())?;
    }
    Ok(())
}

fn wait(pending: Option<Pending>) -> Outcome {
    let Some(pending) = pending else { return Ok(()) };
    let failed = |why: String| Failure::Unwell(format!("a key was not written: {why}"));
    let reply = pending.wait_timeout(PATIENCE).map_err(|error| failed(error.to_string()))?;
    match Reply::decode(&reply) {
        Ok(Reply::Ok) => Ok(()),
        other => Err(failed(format!("the service said {other:?}"))),
    }
}
