//! `down`: stops a cluster that `up` started.

use super::args::DownArgs;
use super::backup::newest_slot;
use pentarchy::data::DATA_FOLDER;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::{self, Stopped};
use pentarchy_console::say;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Longer than the supervisor takes for a last checkpoint and its own two grace periods.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs the command.
pub fn run(args: &DownArgs) -> Outcome {
    let Some(running) = folder::running(&args.data)? else {
        say(&format!("Nothing runs in {}.", args.data.display()));
        return Ok(());
    };
    // The folder's lock is held, so the process that wrote this number still lives.
    let pid = i32::try_from(running.supervisor).ok().and_then(Pid::from_raw).ok_or_else(|| {
        Failure::Internal(format!("{}: cluster.json is damaged", args.data.display()))
    })?;
    kill_process(pid, Signal::TERM).map_err(|error| {
        Failure::Internal(format!("cannot stop process {}: {error}", running.supervisor))
    })?;
    if !folder::wait_until_stopped(&args.data, LIMIT)? {
        return Err(Failure::Unwell(format!(
            "process {} has not stopped within {} s; its children end with it: kill -9 {0}",
            running.supervisor,
            LIMIT.as_secs()
        )));
    }
    say(&format!("Stopped {} replicas and the gateway.", running.replicas.len()));
    let mut keeps = false;
    for part in &running.replicas {
        let data = part.folder.join(DATA_FOLDER);
        if data.exists() {
            keeps = true;
            let checkpoint = match newest_slot(&data) {
                Some(slot) => format!("a checkpoint at slot {slot}"),
                None => "no checkpoint".to_owned(),
            };
            say(&format!("  {}: {} has {checkpoint}", part.name, data.display()));
        }
    }
    if !keeps {
        return Ok(());
    }
    let last = last_checkpoint(folder::stopped(&args.data), running.replicas.len());
    last.map(|said| say(&said))
}

/// What the supervisor said of the group's last checkpoint.
fn last_checkpoint(stopped: Option<Stopped>, replicas: usize) -> Outcome<String> {
    let problem = match stopped {
        Some(Stopped { slot: Some(slot), time, .. }) => {
            let time = time.as_deref().unwrap_or("unknown");
            return Ok(format!(
                "The checkpoint at slot {slot}, at the group's time {time}, has all that was \
                 acknowledged; every replica that answered has it or a later one."
            ));
        }
        Some(Stopped { problem, .. }) => {
            problem.unwrap_or_else(|| "the supervisor recorded no reason".to_owned())
        }
        None => "the supervisor recorded no checkpoint".to_owned(),
    };
    Err(Failure::Unwell(format!(
        "the group came to NO last checkpoint: {problem}. With durability `async`, what was \
         acknowledged behind the checkpoints above is LOST; with `sync` it is in the logs of these \
         {replicas} replicas: start them again, or save every folder"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_was_not_reached_is_no_success() {
        let stopped = |slot, time: Option<&str>, problem: Option<&str>| {
            let (time, problem) = (time.map(str::to_owned), problem.map(str::to_owned));
            last_checkpoint(Some(Stopped { slot, time, problem }), 3)
        };
        let said = stopped(Some(64), Some("2026-01-01 00:00:00 UTC"), None).expect("it has one");
        assert!(said.contains("at slot 64, at the group's time 2026-01-01 00:00:00 UTC"), "{said}");
        let failed = stopped(None, None, Some("not in time")).expect_err("there is none");
        assert!(failed.code() == 1 && failed.to_string().contains("NO last checkpoint: not in"));
        assert!(last_checkpoint(None, 3).is_err());
    }
}
