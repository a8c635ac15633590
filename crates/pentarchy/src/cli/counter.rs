//! `counter`: a replica's trusted counter, in a process of its own.

use clap::{Args, ValueEnum};
use pentarchy::config::CounterPlace;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_trusted::backend::process::serve::serve;
use std::path::PathBuf;

/// `--counter`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CounterChoice {
    /// In the replica's process
    InProcess,
    /// In a process of its own, so that what shows the replica's memory does not show its secret
    Process,
}

impl From<CounterChoice> for CounterPlace {
    fn from(choice: CounterChoice) -> Self {
        match choice {
            CounterChoice::InProcess => Self::InProcess,
            CounterChoice::Process => Self::Process,
        }
    }
}

/// `counter`.
#[derive(Args)]
pub struct CounterArgs {
    /// File with the group's secret
    pub secret: PathBuf,
}

/// Is a trusted counter until the replica that started this ends.
pub fn run(args: &CounterArgs) -> Outcome {
    serve(&args.secret).map_err(|error| Failure::Usage(error.to_string()))
}
