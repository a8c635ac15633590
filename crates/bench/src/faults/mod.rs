//! `bench failover`, `bench faults`, `bench recovery`, `bench soak`: what faults cost. A local
//! cluster of real processes, counting clients, and a replica that is broken and healed while they
//! count.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | options |
//! | [`failover`], [`timeline`], [`recovery`], [`soak`] | the commands, each a file |
//! | [`cluster`] | the cluster that is broken |
//! | [`count`], [`record`] | clients that count and check the count; when what was completed |
//! | [`slope`] | a straight line through samples |
//! | [`pauses`] | replicas that are frozen and go on at random |

pub mod args;
mod cluster;
mod count;
mod failover;
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
use pentarchy_console::failure::Outcome;
use std::time::Duration;

/// Runs one of the commands.
pub fn run(command: &FaultBench) -> Outcome {
    Program::this().warn_of_debug();
    let interrupt = Interrupt::watch()?;
    match command {
        FaultBench::Failover(args) => failover::run(args, &interrupt),
        FaultBench::Faults(args) => timeline::run(args, &interrupt),
        FaultBench::Recovery(args) => recovery::run(args, &interrupt),
        FaultBench::Soak(args) => soak::run(args, &interrupt),
        FaultBench::Overload(args) => super::overload::run(args, &interrupt),
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
