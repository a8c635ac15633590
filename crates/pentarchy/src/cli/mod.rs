//! The commands of the binary, one in each file. The crate `console` has what they share with the
//! benchmarks.

mod args;
mod backup;
mod barrier;
mod clients;
mod config;
mod convert;
mod counter;
mod data_folder;
mod demo;
mod down;
mod explore;
mod faults;
mod gateway;
mod init;
mod joining;
mod listening;
mod machines;
mod members;
mod probe;
mod replica;
mod rescue;
mod service;
mod show;
mod sim;
mod status;
mod top;
mod up;
mod variant;

pub use args::Cli;

use args::{Command, GatewayArgs, ReplicaArgs};
use clap::CommandFactory as _;
use pentarchy::logging;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::output;

/// Does what the command line says.
pub fn run(cli: Cli) -> Outcome {
    let outcome = run_command(cli);
    if outcome.is_ok() && output::is_incomplete() {
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
        Command::Members(args) => members::run(&args),
        Command::Clients(args) => clients::run(&args),
        Command::Reconfigure(args) => members::reconfigure(&args),
        Command::Config(args) => config::run(&args),
        Command::Snapshot(args) => backup::run_snapshot(&args),
        Command::Log(args) => backup::run_log(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Bench(args) => pentarchy_bench::run(&args),
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
        // Simulated replicas fail by the hundred, as they are meant to.
        Command::Sim(_) => logging::start(logging::Format::Text, "warn,pentarchy_machine=off"),
        _ => logging::start(logging::Format::Text, "warn"),
    }
}
