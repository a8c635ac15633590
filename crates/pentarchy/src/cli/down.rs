//! `down`: stops a cluster that `up` started.

use super::args::DownArgs;
use super::backup::newest_slot;
use super::failure::{Failure, Outcome};
use super::folder;
use super::say;
use pentarchy::data::DATA_FOLDER;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Longer than the supervisor takes for a last checkpoint and its own two grace periods.
const LIMIT: Duration = Duration::from_secs(30);

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
    for part in &running.replicas {
        let data = part.folder.join(DATA_FOLDER);
        if data.exists() {
            let checkpoint = match newest_slot(&data) {
                Some(slot) => format!("a checkpoint at slot {slot}"),
                None => "no checkpoint".to_owned(),
            };
            say(&format!("  {}: {} has {checkpoint}", part.name, data.display()));
        }
    }
    Ok(())
}
