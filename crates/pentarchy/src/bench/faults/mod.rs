//! `bench failover`, `bench faults`, `bench soak`: what faults cost. A local cluster of real
//! processes, counting clients, and a replica that is broken and healed while they count.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | options |
//! | [`failover`], [`timeline`], [`soak`] | the commands, each a file |
//! | [`cluster`] | the cluster that is broken |
//! | [`count`], [`record`] | clients that count and check the count; when what was completed |
//! | [`slope`], [`chart`] | a straight line through samples; plots |

pub mod args;
mod chart;
mod cluster;
mod count;
mod failover;
mod record;
mod slope;
mod soak;
mod timeline;

use super::interrupt::Interrupt;
use super::machine::{Machine, Program};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::stop::stop_signal;
use args::FaultBench;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs one of the commands.
pub fn run(command: &FaultBench) -> Outcome {
    super::warn_of_debug(&Program::this());
    let interrupt = Interrupt::new(stop_signal(false)?);
    match command {
        FaultBench::Failover(args) => failover::run(args, &interrupt),
        FaultBench::Faults(args) => timeline::run(args, &interrupt),
        FaultBench::Soak(args) => soak::run(args, &interrupt),
        FaultBench::Overload(args) => super::overload::run(args, &interrupt),
    }
}

/// A result with where it was measured.
#[derive(Serialize)]
struct Figures<T> {
    /// Changes with the meaning of any field.
    format: u32,
    machine: Machine,
    program: Program,
    #[serde(flatten)]
    result: T,
}

/// Writes the result as JSON, if a file is named.
pub(super) fn write_json(path: Option<&Path>, machine: Machine, result: impl Serialize) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    let figures = Figures { format: 1, machine, program: Program::this(), result };
    let text = serde_json::to_string_pretty(&figures)
        .map_err(|error| Failure::Internal(format!("cannot write JSON: {error}")))?;
    write_file(Some(path), || text + "\n")
}

/// Writes a file, if one is named.
fn write_file(path: Option<&Path>, text: impl FnOnce() -> String) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))
}

/// Fails before anything is measured if a result could not be written where it is to go.
fn check_writable(paths: [Option<&Path>; 2]) -> Outcome {
    for path in paths.into_iter().flatten() {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        opened
            .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// What is going on, for who waits at a terminal.
pub(super) fn spinner() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    // The template is a constant; the default style stands in for one that is wrong.
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Sleeps; fails if this process is to stop.
pub(super) fn sleep(interrupt: &Interrupt, time: Duration) -> Outcome {
    if interrupt.sleep_until(Instant::now() + time) {
        Ok(())
    } else {
        Err(Failure::Unwell("interrupted".to_owned()))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
