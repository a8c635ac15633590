//! The `pentarchy` command.

mod bench;
mod cli;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::logging();
    match cli::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
