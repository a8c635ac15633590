//! `bench saturate`: how much load a system bears, and what latency costs on the way there.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`args`] | options |
//! | [`search`] | which load is tried next, and where the knee is |
//! | [`report`] | JSON, table, plot, page |

pub mod args;
mod report;
mod search;

use super::case::{Case, System};
use super::files::{check_writable, json, write_file};
use super::interrupt::Interrupt;
use super::machine::{Machine, Program};
use super::measure::measure;
use super::plan::Timing;
use super::sample::Sample;
use args::{Increase, SaturateArgs};
use indicatif::ProgressBar;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::spinner;
use pentarchy_console::{descriptors, say};
use report::{CaseReport, Saturation, Settings, StepReport, SystemReport};
use search::Search;

/// Runs the command.
pub fn run(args: &SaturateArgs) -> Outcome {
    let cases = args.cases()?;
    check_writable([args.svg.as_deref(), args.html.as_deref()])?;
    let (machine, program) = (Machine::here(), Program::this());
    program.warn_of_debug();
    descriptors::raise();
    let interrupt = Interrupt::watch()?;
    let progress = spinner();
    let (increase, timing) = (args.increase, args.timing());
    let climb = Climb { increase, timing, interrupt: &interrupt, progress: &progress };
    let mut reports = Vec::new();
    let mut result = Ok(());
    for (case, systems) in &cases {
        let mut ascents: Vec<_> =
            systems.iter().map(|system| Ascent::new(system, case, args)).collect();
        result = ascend(case, &mut ascents, &climb);
        let systems = ascents.into_iter().map(Ascent::report).collect();
        reports.push(CaseReport::new(case, systems));
        if result.is_err() {
            break;
        }
    }
    progress.finish_and_clear();
    let saturation = Saturation {
        format: 1,
        machine,
        program,
        settings: Settings {
            increase: args.increase.name(),
            p99_bound_ms: args.p99_ms,
            repeats: timing.repeats,
            seconds: timing.measured.as_secs_f64(),
            warmup_seconds: timing.warmup.as_secs_f64(),
            latency: args.increase.latency(),
        },
        complete: result.is_ok() && reports.len() == cases.len(),
        cases: reports,
    };
    print(args, &saturation)?;
    result
}

fn print(args: &SaturateArgs, saturation: &Saturation) -> Outcome {
    write_file(args.svg.as_deref(), || saturation.svg())?;
    write_file(args.html.as_deref(), || saturation.html(args.increase))?;
    if args.json {
        say(&json(saturation)?);
    } else {
        say(&saturation.text(args.increase));
    }
    Ok(())
}

/// One system's way up.
struct Ascent<'a> {
    system: &'a System,
    search: Search,
    steps: Vec<StepReport>,
}

impl<'a> Ascent<'a> {
    fn new(system: &'a System, case: &Case, args: &SaturateArgs) -> Self {
        let range = args.range(case.keys().0);
        let is_rate = args.increase == Increase::Rate;
        let search = Search::new(is_rate, args.p99_ms, range, args.effort());
        Self { system, search, steps: Vec::new() }
    }

    /// Tries the next load. False if there is none. What is not borne is measured as often again,
    /// and all of it counts: one disturbance of the machine must not end the way up.
    fn step(&mut self, case: &Case, climb: &Climb<'_>) -> Outcome<bool> {
        let Some(load) = self.search.next() else { return Ok(false) };
        let case = match climb.increase {
            Increase::Rate => Case { rate: Some(load), ..*case },
            Increase::Outstanding => Case { outstanding: load as usize, ..*case },
        };
        let mut samples = Vec::new();
        let mut report = self.repeats(&case, load, climb, &mut samples)?;
        if !report.borne {
            report = self.repeats(&case, load, climb, &mut samples)?;
        }
        self.search.take(report.step());
        self.steps.push(report);
        Ok(true)
    }

    /// Measures a load once more for each repeat, and reports on all that was measured.
    fn repeats(
        &self,
        case: &Case,
        load: u64,
        climb: &Climb<'_>,
        samples: &mut Vec<Sample>,
    ) -> Outcome<StepReport> {
        let (system, timing) = (self.system, climb.timing);
        for repeat in 1..=timing.repeats {
            let (of, word) = (timing.repeats, climb.increase.name());
            let what = format!("{case}: {system}, {word} {load}, repeat {repeat} of {of}");
            climb.progress.set_message(what);
            samples.push(measure(case, system, timing, climb.interrupt)?);
        }
        StepReport::new(load, samples, &self.search)
            .ok_or_else(|| Failure::Internal(format!("{case}: {system}: a figure is no number")))
    }

    fn report(self) -> SystemReport {
        SystemReport::new(self.system, self.steps, &self.search)
    }
}

/// How loads are tried.
struct Climb<'a> {
    increase: Increase,
    timing: Timing,
    interrupt: &'a Interrupt,
    progress: &'a ProgressBar,
}

/// Raises the load of all systems in turn until each has had too much.
fn ascend(case: &Case, ascents: &mut [Ascent<'_>], climb: &Climb<'_>) -> Outcome {
    loop {
        let mut goes_on = false;
        for ascent in &mut *ascents {
            goes_on |= ascent.step(case, climb)?;
        }
        if !goes_on {
            return Ok(());
        }
    }
}
