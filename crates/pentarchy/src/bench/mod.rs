//! `bench`: the measuring instrument. It starts groups of replica processes, drives them with
//! clients of its own, and compares them with one unreplicated server on the same host code.
//! `docs/benchmarks.md` says what the figures mean.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`], [`conditions`] | options, and the plan that they ask for |
//! | [`case`] | conditions, and the systems that are compared |
//! | [`measure`] | one measurement: group, warm-up, window |
//! | [`group`], [`status`], [`process`] | replicas, and what they used |
//! | [`drive`], [`load`], [`crowd`] | clients: who drives them; one to a thread; many to a thread |
//! | [`operations`], [`counting`] | what clients ask for; what they sent |
//! | [`disk`] | what the disk under the logs does by itself |
//! | [`sample`], [`stats`] | what a measurement found; figures over repeats |
//! | [`protocols`] | all protocols beside each other: `bench protocols` |
//! | [`wan`] | latency over slow links, in virtual time: `bench wan` |
//! | [`scaling`] | how far pillars go on side by side: `bench ordering`, `bench model` |
//! | [`overload`] | what too much load costs: `bench overload` |
//! | [`faults`] | what faults cost: `bench failover` and so on |
//! | [`saturate`] | how much load is borne: `bench saturate` |
//! | [`compare`] | whether two results differ: `bench compare` |
//! | [`report`], [`grid`], [`chart`] | JSON, CSV, HTML; tables; plots |
//! | [`machine`], [`files`], [`progress`] | where it was measured; result files; how far it is |

mod args;
mod case;
mod chart;
mod compare;
mod conditions;
mod counting;
mod crowd;
mod disk;
mod drive;
mod faults;
mod files;
mod grid;
mod group;
mod interrupt;
mod load;
mod machine;
mod measure;
mod operations;
mod overload;
mod process;
mod progress;
mod protocols;
mod report;
mod sample;
mod saturate;
mod scaling;
mod stats;
mod status;
mod wan;

pub use args::BenchArgs;
pub use conditions::at_least_one;

use crate::cli::failure::{Failure, Outcome};
use crate::cli::stop::stop_signal;
use crate::cli::{complain, descriptors, say};
use args::{BenchCommand, Plan, Timing};
use case::{Case, System};
use conditions::PlannedCase;
use disk::DiskReport;
use files::{check_writable, write_file};
use indicatif::ProgressBar;
use interrupt::Interrupt;
use machine::{Machine, Program};
use measure::measure;
use pentarchy::config::Durability;
use report::{CaseReport, FORMAT, Report, Settings};
use sample::{CaseSamples, SystemSamples};

/// Runs the command.
pub fn run(args: &BenchArgs) -> Outcome {
    match &args.command {
        Some(BenchCommand::Fault(command)) => return faults::run(command),
        Some(BenchCommand::Saturate(saturate)) => return saturate::run(saturate),
        Some(BenchCommand::Protocols(protocols)) => return protocols::run(protocols),
        Some(BenchCommand::Wan(wan)) => return wan::run(wan),
        Some(BenchCommand::Ordering(ordering)) => return scaling::ordering::run(ordering),
        Some(BenchCommand::Model(model)) => return scaling::model::run(model),
        Some(BenchCommand::Compare(compare)) => return compare::run(compare),
        None => {}
    }
    let plan = args.plan()?;
    check_writable([args.html.as_deref()])?;
    let Measured { cases, report, result } = measure_all(&plan)?;
    if !cases.is_empty() {
        print(args, &cases, &report)?;
    }
    result
}

/// What came of a plan.
struct Measured {
    /// The samples of those cases that were finished.
    cases: Vec<CaseSamples>,
    /// The same as figures.
    report: Report,
    /// Why that is not all, if it is not.
    result: Outcome,
}

/// Measures all that is planned, until it fails or is interrupted.
fn measure_all(plan: &Plan) -> Outcome<Measured> {
    let (machine, program) = (Machine::here(), Program::this());
    warn_of_debug(&program);
    descriptors::raise();
    let interrupt = Interrupt::new(stop_signal(false)?);
    let systems = plan.cases.iter().map(|(_, systems)| systems.len()).sum::<usize>();
    let progress = progress::bar(systems * plan.timing.repeats);
    let is_kept = |(case, _): &PlannedCase| case.durability != Durability::Memory;
    let disk = plan.cases.iter().any(is_kept).then(DiskReport::measure).transpose()?;
    let mut cases = Vec::new();
    let mut result = Ok(());
    for (case, systems) in &plan.cases {
        match measure_case(case, systems, plan.timing, &interrupt, &progress) {
            Ok(Some(systems)) => cases.push((*case, systems)),
            Ok(None) => result = Err(Failure::Unwell("interrupted".to_owned())),
            Err(failure) => result = Err(failure),
        }
        if result.is_err() {
            break;
        }
    }
    progress.finish_and_clear();
    let reports = cases.iter().filter_map(|(case, systems)| CaseReport::new(case, systems));
    let report = Report {
        format: FORMAT,
        settings: Settings::new(plan.timing),
        complete: cases.len() == plan.cases.len(),
        cases: reports.collect(),
        machine,
        program,
        disk,
    };
    Ok(Measured { cases, report, result })
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
    systems: &[System],
    timing: Timing,
    interrupt: &Interrupt,
    progress: &ProgressBar,
) -> Outcome<Option<Vec<SystemSamples>>> {
    let mut systems: Vec<_> = systems.iter().map(|system| (system.clone(), Vec::new())).collect();
    for repeat in 1..=timing.repeats {
        for (system, samples) in &mut systems {
            progress
                .set_message(format!("{case}: {system}, repeat {repeat} of {}", timing.repeats));
            match measure(case, system, timing, interrupt) {
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

fn print(args: &BenchArgs, cases: &[CaseSamples], report: &Report) -> Outcome {
    write_file(args.html.as_deref(), || report::page(report))?;
    if args.csv {
        let text = report::write_csv(cases, &report.machine, &report.program)
            .map_err(|error| Failure::Internal(format!("cannot write CSV: {error}")))?;
        say(text.trim_end());
    } else if args.json {
        say(&json(report)?);
    } else {
        say(&report::render(report));
    }
    Ok(())
}

/// A result for programs.
fn json(result: &impl serde::Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(result)
        .map_err(|error| Failure::Internal(format!("cannot write JSON: {error}")))
}
