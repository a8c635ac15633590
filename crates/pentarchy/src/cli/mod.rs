//! The commands. Each file holds one; what several share is in [`failure`], [`folder`], [`stop`]
//! and [`supervisor`].

mod approach;
pub mod args;
mod backup;
mod barrier;
mod child_log;
mod counter;
mod demo;
pub mod descriptors;
mod down;
mod explore;
pub mod failure;
pub mod faults;
pub mod folder;
mod gateway;
mod init;
mod probe;
mod replica;
mod rescue;
pub mod sim;
pub mod status;
pub mod stop;
pub mod supervisor;
pub mod table;
mod top;
pub mod up;

pub use args::Cli;

use args::{Command, GatewayArgs, ReplicaArgs};
use clap::CommandFactory as _;
use failure::{Failure, Outcome};
use pentarchy::logging;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does what the command line says.
pub fn run(cli: Cli) -> Outcome {
    let outcome = run_command(cli);
    if outcome.is_ok() && LOST_OUTPUT.load(Ordering::Relaxed) {
        let what = "cannot write to standard output; what was written there is not complete";
        return Err(Failure::Internal(what.to_owned()));
    }
    outcome
}

fn run_command(cli: Cli) -> Outcome {
    match cli.command {
        Command::Up(args) => up::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Replica(args) => replica::run(&args),
        Command::Counter(args) => counter::run(&args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Break(args) => faults::break_replica(&args),
        Command::Heal(args) => faults::heal_replicas(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Snapshot(args) => backup::run_snapshot(&args),
        Command::Log(args) => backup::run_log(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Bench(args) => crate::bench::run(&args),
        Command::Completions { shell } => {
            let (mut command, name) = (Cli::command(), "pentarchy");
            clap_complete::generate(shell, &mut command, name, &mut std::io::stdout());
            Ok(())
        }
    }
}

/// Starts the program's log. What runs for long says more than what ends soon.
pub fn logging(cli: &Cli) {
    match &cli.command {
        Command::Replica(ReplicaArgs { log_format, .. })
        | Command::Gateway(GatewayArgs { log_format, .. }) => {
            logging::start((*log_format).into(), "info");
            logging::report_dropped();
        }
        _ => logging::start(logging::Format::Text, "warn"),
    }
}

/// Whether something that was said did not reach standard output.
static LOST_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Prints to standard output; a reader that has gone away (`| head`) is no error.
pub fn say(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        LOST_OUTPUT.fetch_or(error.kind() != ErrorKind::BrokenPipe, Ordering::Relaxed);
    }
}

/// Prints to standard error, where nothing can be done if that fails: the disk with the log may be
/// full, which is no reason to stop.
pub fn complain(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "pentarchy: {text}");
}
