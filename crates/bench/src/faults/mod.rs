//! `bench failover`, `bench faults`, `bench recovery`, `bench soak`, `bench changes`, `bench life`:
//! what faults and changes cost. A local cluster of real processes, clients that check what they
//! are told, and a replica that is broken and healed, or that another one follows, meanwhile.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | options |
//! | [`failover`], [`timeline`], [`recovery`], [`soak`], [`changes`], [`life`] | the commands |
//! | [`cluster`], [`changing`] | the cluster that is broken, and the group that changes |
//! | [`fill`] | what the group stores before |
//! | [`count`], [`record`] | clients that count and check the count; when what was completed |
//! | [`slope`] | a straight line through samples |
//! | [`pauses`] | replicas that are frozen and go on at random |

pub mod args;
mod changes;
mod changing;
mod cluster;
mod count;
mod failover;
mod fill;
mod life;
mod pauses;
mod record;
mod recovery;
mod slope;
mod soak;
mod timeline;

use super::files::{check_writable, write_file, write_json};
use super::interrupt::Interrupt;
use super::machine::Program;
use args::FaultBench;
use pentarchy_console::failure::{Failure, Outcome};
use record::Record;
use std::time::{Duration, Instant};

/// A group that answers is one that has answered this recently.
const RECENT: Duration = Duration::from_millis(100);

/// How long a group may take to answer again.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Runs one of the commands.
pub fn run(command: &FaultBench) -> Outcome {
    Program::this().warn_of_debug();
    let interrupt = Interrupt::watch()?;
    match command {
        FaultBench::Changes(args) => changes::run(args, &interrupt),
        FaultBench::Failover(args) => failover::run(args, &interrupt),
        FaultBench::Faults(args) => timeline::run(args, &interrupt),
        FaultBench::Life(args) => life::run(args, &interrupt),
        FaultBench::Recovery(args) => recovery::run(args, &interrupt),
        FaultBench::Soak(args) => soak::run(args, &interrupt),
        FaultBench::Overload(args) => super::overload::run(args, &interrupt),
    }
}

/// Waits until the group answers: a wait that is not over is not cut in two.
fn await_answers(record: &Record, interrupt: &Interrupt) -> Outcome {
    let deadline = Instant::now() + ANSWER_LIMIT;
    while record.silence() > RECENT {
        if Instant::now() >= deadline {
            let what = format!("no answer for {} s", record.silence().as_secs());
            return Err(Failure::Unwell(what));
        }
        interrupt.sleep(Duration::from_millis(50))?;
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
