//! A machine for a group that `up` started: `up` makes and starts it, too.

use super::args::Asked;
use crate::cli::machines::{self, read_card};
use pentarchy::card::Card;
use pentarchy::config::ClusterConfig;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::{Running, identity};
use pentarchy_console::status::cluster;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// How long `up` may take to start one.
const LIMIT: Duration = Duration::from_secs(10);

const LOOK: Duration = Duration::from_millis(50);

/// The card of a machine that runs and waits to become a member: one that waits already, or one
/// that `up` starts now.
pub fn new(asked: &Asked) -> Outcome<Card> {
    if asked.config.is_some() {
        let what = "give the card of the machine that joins: `pentarchy members prepare` makes one";
        return Err(Failure::Usage(what.to_owned()));
    }
    let group = machines::present(&asked.data)?;
    let running = running(asked)?;
    if let Some(card) = waiting(&running, &group) {
        return Ok(card);
    }
    let pid = i32::try_from(running.supervisor).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::Internal("cluster.json is damaged".to_owned()))?;
    kill_process(pid, Signal::USR2)
        .map_err(|error| Failure::Unwell(format!("cannot reach `up` (pid {pid:?}): {error}")))?;
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(card) = waiting(&self::running(asked)?, &group) {
            return Ok(card);
        }
        if Instant::now() >= deadline {
            return Err(Failure::Unwell(format!(
                "`up` has started no machine within {} s; where it runs, or in {}, it says why",
                LIMIT.as_secs(),
                asked.data.join("up.log").display()
            )));
        }
        std::thread::sleep(LOOK);
    }
}

fn running(asked: &Asked) -> Outcome<Running> {
    let (_, running) = cluster(None, &asked.data)?;
    running.ok_or_else(|| Failure::Internal("nothing runs there".to_owned()))
}

/// The card of a machine that runs and has never been a member. One that has been leaves.
fn waiting(running: &Running, group: &ClusterConfig) -> Option<Card> {
    let alive = running.replicas.iter().filter(|part| part.pid != 0);
    let is_new = |key| !group.has_had(&key);
    let waiting = alive.filter(|part| identity(&part.folder).is_some_and(is_new));
    waiting.map(|part| part.folder.join("card")).find_map(|card| read_card(&card).ok())
}
