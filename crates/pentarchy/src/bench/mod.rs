//! `bench`: the measuring instrument. It starts groups of replica processes, drives them with
//! clients of its own, and compares them with one unreplicated server on the same host code.
//! `docs/benchmarks.md` says what the figures mean.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | options, and the plan that they ask for |
//! | [`case`] | conditions, and the systems that are compared |
//! | [`measure`] | one measurement: group, warm-up, window |
//! | [`group`], [`load`], [`counting`], [`status`] | replicas; clients; what both used |
//! | [`sample`], [`stats`] | what a measurement found; figures over repeats |
//! | [`overload`] | what too much load costs: `bench overload` |
//! | [`faults`] | what faults cost: `bench failover` and so on |
//! | [`report`], [`machine`] | JSON, CSV, table; where it was measured |

mod args;
mod case;
mod counting;
mod faults;
mod group;
mod interrupt;
mod load;
mod machine;
mod measure;
mod overload;
mod report;
mod sample;
mod stats;
mod status;

pub use args::BenchArgs;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::stop::stop_signal;
use crate::cli::{complain, say};
use args::Plan;
use case::Case;
use indicatif::{ProgressBar, ProgressStyle};
use interrupt::Interrupt;
use machine::{Machine, Program};
use measure::measure;
use report::{CaseReport, FORMAT, Report, Settings};
use sample::{CaseSamples, SystemSamples};
use std::io::IsTerminal as _;

/// Runs the command.
pub fn run(args: &BenchArgs) -> Outcome {
    if let Some(command) = &args.faults {
        return faults::run(command);
    }
    let plan = args.plan()?;
    let (machine, program) = (Machine::here(), Program::this());
    warn_of_debug(&program);
    let interrupt = Interrupt::new(stop_signal(false)?);
    let progress = progress(&plan);
    let mut cases = Vec::new();
    let mut result = Ok(());
    for case in &plan.cases {
        match measure_case(case, &plan, &interrupt, &progress) {
            Ok(Some(systems)) => cases.push((*case, systems)),
            Ok(None) => result = Err(Failure::Unwell("interrupted".to_owned())),
            Err(failure) => result = Err(failure),
        }
        if result.is_err() {
            break;
        }
    }
    progress.finish_and_clear();
    if !cases.is_empty() {
        print(args, &plan, &cases, machine, program)?;
    }
    result
}

fn warn_of_debug(program: &Program) {
    if !program.release {
        complain("this is a debug build; measure with a release build");
    }
}

/// Measures all systems in turn, `repeats` times, so that whatever drifts on this machine drifts
/// for all of them. `None` if it was interrupted.
fn measure_case(
    case: &Case,
    plan: &Plan,
    interrupt: &Interrupt,
    progress: &ProgressBar,
) -> Outcome<Option<Vec<SystemSamples>>> {
    let mut systems: Vec<_> =
        plan.systems.iter().map(|system| (system.clone(), Vec::new())).collect();
    for repeat in 1..=plan.timing.repeats {
        for (system, samples) in &mut systems {
            let repeats = plan.timing.repeats;
            progress.set_message(format!("{case}: {system}, repeat {repeat} of {repeats}"));
            match measure(case, system, plan.timing, interrupt) {
                Ok(Some(sample)) => samples.push(sample),
                Ok(None) => return Ok(None),
                Err(Failure::Unwell(why)) => {
                    return Err(Failure::Unwell(format!("{case}: {system}: {why}")));
                }
                Err(failure) => return Err(failure),
            }
            progress.inc(1);
        }
    }
    Ok(Some(systems))
}

fn progress(plan: &Plan) -> ProgressBar {
    let measurements = plan.cases.len() * plan.systems.len() * plan.timing.repeats;
    // Results on a pipe need no bar on the terminal, but whoever waits for them may want one.
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(measurements as u64);
    // The template is a constant; the default style stands in for one that is wrong.
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn print(
    args: &BenchArgs,
    plan: &Plan,
    cases: &[CaseSamples],
    machine: Machine,
    program: Program,
) -> Outcome {
    if args.csv {
        let text = report::write_csv(cases, &machine, &program)
            .map_err(|error| Failure::Internal(format!("cannot write CSV: {error}")))?;
        say(text.trim_end());
        return Ok(());
    }
    let reports = cases.iter().filter_map(|(case, systems)| CaseReport::new(case, systems));
    let report = Report {
        format: FORMAT,
        machine,
        program,
        settings: Settings::new(plan.timing),
        complete: cases.len() == plan.cases.len(),
        cases: reports.collect(),
    };
    if args.json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::Internal(format!("cannot write JSON: {error}")))?;
        say(&json);
    } else {
        say(&report::render(&report));
    }
    Ok(())
}
