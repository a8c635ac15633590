//! `explore`: every order of events in a small group, within budgets.

use super::args::ExploreArgs;
use super::{sim, variant};
use indicatif::ProgressBar;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::shown;
use pentarchy_console::say;
use pentarchy_core::ids::ReplicaId;
use pentarchy_protocols::Descriptor;
use pentarchy_sim::explorer::{Explored, Plan, Report, explore};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// Runs the command.
pub fn run(args: &ExploreArgs) -> Outcome {
    let entry = sim::protocol(&args.protocol)?;
    let plan = plan(args, entry)?;
    variant::choose(args.variant.as_deref())?;
    let interrupted = sim::interrupted()?;
    let progress = progress(args);
    let explored = Explored {
        rules: entry.rules,
        start: &entry.start,
        forger: entry.forger,
        is_settled: entry.is_settled,
    };
    let report = explore(&plan, &explored, |states| {
        progress.set_position(states as u64);
        !interrupted.load(Ordering::Relaxed)
    });
    progress.finish_and_clear();
    let report = report.map_err(Failure::Usage)?;
    say(&if args.json { to_json(args, &report) } else { report.to_string() });
    if report.found.is_some() {
        Err(Failure::NotWell)
    } else if interrupted.load(Ordering::Relaxed) {
        Err(Failure::Unwell("interrupted before the search had ended".to_owned()))
    } else {
        Ok(())
    }
}

fn plan(args: &ExploreArgs, entry: &Descriptor) -> Outcome<Plan> {
    let default = Plan::default();
    let alphabet = match args.alphabet.is_empty() {
        true => default.alphabet.clone(),
        false => args.alphabet.clone(),
    };
    Ok(Plan {
        f: usize::from(args.f),
        liar: args.liar.map(ReplicaId),
        lies: args.lies,
        alphabet,
        requests: args.requests,
        timeouts: args.timeouts,
        resends: args.resends,
        states_max: args.states as usize,
        deep: args.deep,
        start: args.start.as_deref().map_or(Ok(String::new()), |start| script(start, entry))?,
        ..default
    })
}

/// The steps of a start: by its name, or from a file.
fn script(start: &str, entry: &Descriptor) -> Outcome<String> {
    if let Some((_, script)) = entry.starts.iter().find(|(name, _)| *name == start) {
        return Ok((*script).to_owned());
    }
    std::fs::read_to_string(start).map_err(|error| {
        let names: Vec<&str> = entry.starts.iter().map(|(name, _)| *name).collect();
        Failure::Usage(format!("--start {start}: {error}; known names: {}", names.join(", ")))
    })
}

fn progress(args: &ExploreArgs) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    shown(ProgressBar::new(u64::from(args.states)), "{wide_bar} {pos}/{len} states, {per_sec}")
}

/// For programs.
#[derive(Serialize)]
struct Json<'a> {
    protocol: &'a str,
    variant: Option<&'a str>,
    states: usize,
    transitions: u64,
    depth: usize,
    outcomes: usize,
    slots: usize,
    replica_states: usize,
    messages: usize,
    complete: bool,
    seconds: f64,
    states_per_second: f64,
    broken: Option<Broken<'a>>,
}

#[derive(Serialize)]
struct Broken<'a> {
    property: &'a str,
    detail: &'a str,
    steps: usize,
    run: &'a [String],
}

fn to_json(args: &ExploreArgs, report: &Report) -> String {
    let broken = report.found.as_ref().map(|found| Broken {
        property: found.broken.property,
        detail: &found.broken.detail,
        steps: found.steps,
        run: &found.lines,
    });
    let json = Json {
        protocol: &args.protocol,
        variant: args.variant.as_deref(),
        states: report.states,
        transitions: report.transitions,
        depth: report.depth,
        outcomes: report.outcomes,
        slots: report.slots,
        replica_states: report.replica_states,
        messages: report.messages,
        complete: report.complete,
        seconds: report.took.as_secs_f64(),
        states_per_second: report.states_per_second(),
        broken,
    };
    serde_json::to_string_pretty(&json).unwrap_or_default()
}
