//! The command that runs models.

#![forbid(unsafe_code)]

use pentarchy_models::{Case, MODELS, Model, Searched, run_all};
use pico_args::Arguments;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Instant;

const USAGE: &str = "\
Runs models of the rules that protocols rest on, or searches their small cases.

usage: pentarchy-models [MODEL] [--runs N] [--seed FIRST] [--without RULE | --broken] [--jobs N]
       pentarchy-models [MODEL] --search [--case CASE] [--states N] [--without RULE | --broken]

  MODEL           one of those that --list names; all if none is given
  --runs N        runs of each (100000 if not given)
  --seed FIRST    the first seed (0 if not given)
  --without RULE  leaves this rule out; exits with 1 as soon as a run breaks
  --broken        leaves out each rule in turn, and exits with 1 if a rule is missed by nobody
  --jobs N        threads (as many as there are processors if not given)
  --search        visits every state of small cases, on one thread; with --broken, looks for the
                  first case in which a rule is missed, and exits with 0 if there is none
  --case CASE     only this one of those that --list names
  --states N      ends each search after so many states, and exits with 1 (5000000 if not given)
  --rows          prints what searches found as rows for docs/results
  --list          names the models, their rules and their small cases

examples: pentarchy-models roster --runs 1000000
          pentarchy-models roster --search";

/// What the command line says.
struct Options {
    runs: u64,
    first: u64,
    jobs: u64,
    without: Option<String>,
    broken: bool,
    search: bool,
    case: Option<String>,
    states: u64,
    rows: bool,
    list: bool,
    model: Option<String>,
}

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
    let options = options(args)?;
    let is_chosen = |model: &&Model| options.model.as_deref().is_none_or(|it| it == model.name);
    let chosen: Vec<&Model> = MODELS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err("there is no such model; --list names them".to_owned());
    }
    if options.list {
        chosen.iter().for_each(|model| list(model));
        return Ok(true);
    }
    if let Some(rule) = options.without.as_deref()
        && !chosen.iter().any(|model| model.rules.iter().any(|(name, _)| *name == rule))
    {
        return Err(format!("no model has a rule of the name {rule}; --list names them"));
    }
    if options.search { search(&chosen, &options) } else { Ok(run_models(&chosen, &options)) }
}

fn options(mut args: Arguments) -> Result<Options, String> {
    let text = |args: &mut Arguments, name: &'static str| {
        args.opt_value_from_str::<_, String>(name).map_err(|error| error.to_string())
    };
    let number = |args: &mut Arguments, name: &'static str, default| {
        let given: Option<u64> =
            args.opt_value_from_str(name).map_err(|error| error.to_string())?;
        Ok::<_, String>(given.unwrap_or(default))
    };
    let processors = available_parallelism().map_or(1, |count| count.get() as u64);
    let mut options = Options {
        runs: number(&mut args, "--runs", 100_000)?,
        first: number(&mut args, "--seed", 0)?,
        jobs: number(&mut args, "--jobs", processors)?,
        without: text(&mut args, "--without")?,
        broken: args.contains("--broken"),
        search: args.contains("--search"),
        case: text(&mut args, "--case")?,
        states: number(&mut args, "--states", 5_000_000)?,
        rows: args.contains("--rows"),
        list: args.contains("--list"),
        model: None,
    };
    options.model = args.opt_free_from_str().map_err(|error| error.to_string())?;
    match args.finish().first() {
        Some(word) => Err(format!("{}: not understood; see --help", word.to_string_lossy())),
        None => Ok(options),
    }
}

/// Whether no run broke; with `--broken`, whether one did without each rule.
fn run_models(models: &[&Model], options: &Options) -> bool {
    let mut good = true;
    for model in models {
        if options.broken {
            for (rule, about) in model.rules {
                good &= !report(model, Some(rule), options, about);
            }
        } else {
            good &= report(model, options.without.as_deref(), options, model.about);
        }
    }
    good
}

/// Runs, and prints a line. Whether no run broke.
fn report(model: &Model, without: Option<&str>, options: &Options, about: &str) -> bool {
    let Options { first, runs, jobs, .. } = *options;
    let summary = run_all(model, without, first, runs, jobs as usize);
    let rules = rules(without);
    match &summary.first {
        None => println!("{} {rules}: {} runs, nothing broke ({about})", model.name, summary.runs),
        Some(it) => {
            println!("{} {rules}: broke in seed {} ({about})", model.name, it.seed);
            println!("  {}", it.broken);
        }
    }
    summary.first.is_none()
}

fn rules(without: Option<&str>) -> String {
    without.map_or("all rules".to_owned(), |rule| format!("without {rule}"))
}

/// Searches small cases. Whether all of them were searched whole and nothing broke, or something
/// was to.
fn search(models: &[&Model], options: &Options) -> Result<bool, String> {
    let is_chosen = |case: &&Case| options.case.as_deref().is_none_or(|name| name == case.name);
    let cases_of = |model: &Model| model.cases.iter().filter(is_chosen).collect::<Vec<_>>();
    let models: Vec<(&Model, Vec<&Case>)> =
        models.iter().map(|&model| (model, cases_of(model))).collect();
    if models.iter().all(|(_, cases)| cases.is_empty()) {
        return Err("there is no such case; --list names them".to_owned());
    }
    let mut good = true;
    for (model, cases) in models.iter().filter(|(_, cases)| !cases.is_empty()) {
        if options.broken {
            for (rule, about) in model.rules {
                good &= search_without(model, cases, rule, about, options);
            }
            continue;
        }
        for case in cases {
            good &= search_case(model, case, options);
        }
    }
    Ok(good)
}

/// Searches a case, and prints what came of it.
fn search_case(model: &Model, case: &Case, options: &Options) -> bool {
    let begin = Instant::now();
    let searched = (case.search)(options.without.as_deref(), options.states as usize);
    let seconds = begin.elapsed().as_secs_f64();
    let Searched { states, transitions, depth, waiting_max, is_whole, found } = searched;
    let (name, about) = (case.name, case.about);
    if options.rows {
        println!(
            "    [\"`{name}`\", \"{about}\", {states}, {transitions}, {depth}, {seconds:.1}],"
        );
        return is_whole;
    }
    let rules = rules(options.without.as_deref());
    println!("{}, case {name}, {rules}: {about}", model.name);
    println!(
        "  {states} states, {transitions} transitions, depth {depth}, at most {waiting_max} \
         states waiting, {seconds:.1} s: {}",
        match (&found, is_whole) {
            (Some(found), _) => format!("broke after {} steps", found.steps.len()),
            (None, true) => "all states met, nothing broke".to_owned(),
            (None, false) => "stopped before all states were met".to_owned(),
        }
    );
    if let Some(found) = &found {
        for (number, step) in (1..).zip(&found.steps) {
            println!("  {number:3}. {step}");
        }
        println!("  {}", found.broken);
    }
    is_whole
}

/// Looks for the first case in which a rule is missed, and prints what came of it. Whether such a
/// case was found, or all of them were searched whole.
fn search_without(
    model: &Model,
    cases: &[&Case],
    rule: &str,
    about: &str,
    options: &Options,
) -> bool {
    let mut is_whole = true;
    for case in cases {
        let searched = (case.search)(Some(rule), options.states as usize);
        let Some(found) = searched.found else {
            is_whole &= searched.is_whole;
            continue;
        };
        let (name, steps, property) = (case.name, found.steps.len(), found.broken.property);
        if options.rows {
            println!(
                "    [\"`{rule}`\", \"`{name}`\", {steps}, {}, \"{property}\"],",
                searched.states
            );
        } else {
            println!("{} without {rule}: broke in case {name} ({about})", model.name);
            println!("  after {steps} steps, {} states: {}", searched.states, found.broken);
        }
        return true;
    }
    if options.rows {
        println!("    [\"`{rule}`\", \"none\", null, null, null],");
    } else {
        let end = if is_whole { "broke in no case" } else { "stopped before all states were met" };
        println!("{} without {rule}: {end} ({about})", model.name);
    }
    is_whole
}

fn list(model: &Model) {
    println!("{}: {}", model.name, model.about);
    for (rule, about) in model.rules {
        println!("  {rule}: {about}");
    }
    for Case { name, about, .. } in model.cases {
        println!("  case {name}: {about}");
    }
}
