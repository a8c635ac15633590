//! The project's own chores: `cargo xtask check` is the check, `cargo xtask fix` mends what a
//! machine can mend, `cargo xtask fuzz` looks for inputs that break something, `cargo xtask tidy`
//! and `cargo xtask tcb` are parts that also run alone.

mod check;
mod fuzz;
mod instructions;
mod lines;
mod results;
mod spec;
mod spec_runs;
mod specifications;
mod tcb;
mod tidy;
mod tree;
mod upgrade;
mod wrap;

use check::Depth;
use pico_args::Arguments;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  check                             what every commit must pass; writes nothing but build files
  check --deep                      all that a release must pass
  check --slice K                   what every commit must pass, and slice K of the rest; auto is
                                    the one whose turn it is by the number of commits
  check --only STEP [--seeds N]     one step (a sweep of the simulator runs N seeds of minbft, and
                                    a quarter as many of every protocol)
  fix                               formats, wraps comments, applies what clippy can apply
  fuzz [TARGET] [--seconds N]       looks for inputs that break something, N seconds each target
                                    (60 if not given); all targets if none is given
  fuzz TARGET --input FILE          runs one input
  fuzz [TARGET] --renew             makes the corpora anew, from what honest nodes say, what was
                                    kept and what runs found
  instructions [--bless]            counts the instructions of a request's path, if valgrind is
                                    there, and compares with docs/instructions.md, or renews it
  lines                             counts code, comments and tests of each crate
  results                           writes the tables of figures in the documents from the files in
                                    docs/results
  spec                              checks the specifications with TLC; needs Java and Python
  spec --runs N [--mutant NAME]     has TLC follow what replicas did in simulated worlds of N
                                    seeds; with a seeded bug it is to refuse some. NAME may be
                                    `all`: those of which that is claimed
  tidy                              the rules that no other tool knows
  tcb                               counts the lines of the trusted devices
  upgrade COMMIT                    starts a group with the program of that commit, replaces it on
                                    one machine after another by the present one, and back";

/// What went wrong, in words for whoever typed the command.
type Failure = String;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut arguments = Arguments::from_env();
    let root = root();
    let command = arguments.subcommand().map_err(|error| error.to_string())?;
    match command.as_deref() {
        Some("check") => {
            let usage = |error: pico_args::Error| format!("{error}\n\n{USAGE}");
            let only: Option<String> = arguments.opt_value_from_str("--only").map_err(usage)?;
            let seeds: Option<u64> = arguments.opt_value_from_str("--seeds").map_err(usage)?;
            let slice: Option<String> = arguments.opt_value_from_str("--slice").map_err(usage)?;
            let depth = match slice {
                Some(slice) => Depth::slice(&slice, &root)?,
                None if arguments.contains("--deep") => Depth::Deep,
                None => Depth::Commit,
            };
            finish(arguments)?;
            check::check(&root, depth, only.as_deref(), seeds)
        }
        Some("fix") => finish(arguments).and_then(|()| check::fix(&root)),
        Some("fuzz") => fuzz::command(&root, arguments),
        Some("instructions") => {
            let bless = arguments.contains("--bless");
            finish(arguments).and_then(|()| instructions::run(&root, bless))
        }
        Some("lines") => finish(arguments).and_then(|()| lines::lines(&root)),
        Some("results") => finish(arguments).and_then(|()| results::write(&root)),
        Some("spec") => {
            let usage = |error: pico_args::Error| format!("{error}\n\n{USAGE}");
            let seeds: Option<u64> = arguments.opt_value_from_str("--runs").map_err(usage)?;
            let mutant: Option<String> = arguments.opt_value_from_str("--mutant").map_err(usage)?;
            finish(arguments)?;
            match seeds {
                Some(seeds) => spec_runs::runs(&root, seeds, mutant.as_deref()),
                None => spec::spec(&root),
            }
        }
        Some("tidy") => finish(arguments).and_then(|()| tidy::tidy(&root)),
        Some("upgrade") => {
            let commit: String = arguments.free_from_str().map_err(|error| error.to_string())?;
            finish(arguments).and_then(|()| upgrade::upgrade(&root, &commit))
        }
        Some("tcb") => finish(arguments).and_then(|()| tcb::tcb(&root)),
        Some("help") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Refuses what no command took.
fn finish(arguments: Arguments) -> Result<(), Failure> {
    match arguments.finish().first() {
        None => Ok(()),
        Some(extra) => Err(format!("unknown argument {}\n\n{USAGE}", extra.to_string_lossy())),
    }
}

/// The workspace, wherever the command was typed.
fn root() -> PathBuf {
    // Cargo says it when it runs us; a binary that is started by hand knows where it was built.
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().expect("this crate is a directory of the workspace").to_path_buf()
}
