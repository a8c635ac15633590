//! The `pentarchy` command.

mod cli;

use clap::Parser as _;
use std::process::ExitCode;

/// Counts for `bench` what operations ask of memory.
#[cfg(feature = "count-allocations")]
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    cli::logging(&cli);
    match cli::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
