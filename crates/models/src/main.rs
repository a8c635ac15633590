//! The command that runs models.

#![forbid(unsafe_code)]

use pentarchy_models::{MODELS, Model, run_all};
use pico_args::Arguments;
use std::process::ExitCode;
use std::thread::available_parallelism;

const USAGE: &str = "\
Runs randomized models of the rules that protocols rest on.

usage: pentarchy-models [MODEL] [--runs N] [--seed FIRST] [--without RULE | --broken] [--jobs N]

  MODEL           one of those that --list names; all if none is given
  --runs N        runs of each (100000 if not given)
  --seed FIRST    the first seed (0 if not given)
  --without RULE  leaves this rule out; exits with 1 as soon as a run breaks
  --broken        leaves out each rule in turn, and exits with 1 if a rule is missed by nobody
  --jobs N        threads (as many as there are processors if not given)
  --list          names the models and their rules

example: pentarchy-models roster --runs 1000000";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let mut args = Arguments::from_env();
    if args.contains(["-h", "--help"]) {
        println!("{USAGE}");
        return Ok(true);
    }
    let lists = args.contains("--list");
    let number = |args: &mut Arguments, name: &'static str, default| {
        let given: Option<u64> =
            args.opt_value_from_str(name).map_err(|error| error.to_string())?;
        Ok::<_, String>(given.unwrap_or(default))
    };
    let runs = number(&mut args, "--runs", 100_000)?;
    let first = number(&mut args, "--seed", 0)?;
    let jobs = number(&mut args, "--jobs", available_parallelism().map_or(1, |n| n.get() as u64))?;
    let without: Option<String> =
        args.opt_value_from_str("--without").map_err(|error| error.to_string())?;
    let broken = args.contains("--broken");
    let name: Option<String> = args.opt_free_from_str().map_err(|error| error.to_string())?;
    if let Some(word) = args.finish().first() {
        return Err(format!("{}: not understood; see --help", word.to_string_lossy()));
    }
    let chosen: Vec<&Model> = MODELS
        .iter()
        .filter(|model| name.as_deref().is_none_or(|name| name == model.name))
        .collect();
    if chosen.is_empty() {
        return Err("there is no such model; --list names them".to_owned());
    }
    if lists {
        chosen.iter().for_each(|model| list(model));
        return Ok(true);
    }
    if let Some(rule) = without.as_deref()
        && !chosen.iter().any(|model| model.rules.iter().any(|(name, _)| *name == rule))
    {
        return Err(format!("no model has a rule of the name {rule}; --list names them"));
    }
    let mut good = true;
    for model in chosen {
        if broken {
            for (rule, about) in model.rules {
                good &= !report(model, Some(rule), (first, runs, jobs), about);
            }
        } else {
            good &= report(model, without.as_deref(), (first, runs, jobs), model.about);
        }
    }
    Ok(good)
}

/// Runs, and prints a line. Whether no run broke.
fn report(
    model: &Model,
    without: Option<&str>,
    (first, runs, jobs): (u64, u64, u64),
    about: &str,
) -> bool {
    let summary = run_all(model, without, first, runs, jobs as usize);
    let rules = without.map_or("all rules".to_owned(), |rule| format!("without {rule}"));
    match &summary.first {
        None => println!("{} {rules}: {} runs, nothing broke ({about})", model.name, summary.runs),
        Some(it) => {
            println!("{} {rules}: broke in seed {} ({about})", model.name, it.seed);
            println!("  {}", it.broken);
        }
    }
    summary.first.is_none()
}

fn list(model: &Model) {
    println!("{}: {}", model.name, model.about);
    for (rule, about) in model.rules {
        println!("  {rule}: {about}");
    }
}
