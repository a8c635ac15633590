//! All measurements of a plan, one after the other.

use super::case::{Case, System};
use super::conditions::PlannedCase;
use super::disk::DiskReport;
use super::interrupt::Interrupt;
use super::machine::{Machine, Program};
use super::measure::measure;
use super::plan::{Plan, Timing};
use super::report::{CaseReport, FORMAT, Report, Settings};
use super::sample::{CaseSamples, SystemSamples};
use indicatif::ProgressBar;
use pentarchy_cluster::config::Durability;
use pentarchy_console::descriptors;
use pentarchy_console::failure::Outcome;
use pentarchy_console::progress;

/// What a benchmark measured of a plan.
pub struct Measured {
    /// The samples of those cases that were finished.
    pub cases: Vec<CaseSamples>,
    /// The same as figures.
    pub report: Report,
    /// Why the benchmark stopped, if it did before the end of the plan.
    pub result: Outcome,
}

/// Measures all that is planned, until it fails or is interrupted.
pub fn measure_all(plan: &Plan) -> Outcome<Measured> {
    let (machine, program) = (Machine::here(), Program::this());
    program.warn_of_debug();
    descriptors::raise();
    let interrupt = Interrupt::watch()?;
    let systems = plan.cases.iter().map(|(_, systems)| systems.len()).sum::<usize>();
    let progress = progress::bar(systems * plan.timing.repeats);
    let is_kept = |(case, _): &PlannedCase| case.durability != Durability::Memory;
    let disk = plan.cases.iter().any(is_kept).then(DiskReport::measure).transpose()?;
    let mut cases = Vec::new();
    let mut result = Ok(());
    for (case, systems) in &plan.cases {
        match measure_case(case, systems, plan.timing, &interrupt, &progress) {
            Ok(systems) => cases.push((*case, systems)),
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

/// Measures all systems in turn, `repeats` times, so that whatever drifts on this machine drifts
/// for all of them.
fn measure_case(
    case: &Case,
    systems: &[System],
    timing: Timing,
    interrupt: &Interrupt,
    progress: &ProgressBar,
) -> Outcome<Vec<SystemSamples>> {
    let mut systems: Vec<_> = systems.iter().map(|system| (system.clone(), Vec::new())).collect();
    for repeat in 1..=timing.repeats {
        for (system, samples) in &mut systems {
            progress
                .set_message(format!("{case}: {system}, repeat {repeat} of {}", timing.repeats));
            samples.push(measure(case, system, timing, interrupt)?);
            progress.inc(1);
        }
    }
    Ok(systems)
}
