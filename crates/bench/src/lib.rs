//! `bench`: the measuring instrument. It starts groups of replica processes, drives them with
//! clients of its own, and compares them with one unreplicated server on the same host code.
//! `docs/benchmarks.md` says what the figures mean. Nothing here knows another command: it starts
//! and breaks clusters with what `console` has for all of them, and `pentarchy` has the command
//! line.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `args`, `conditions` | options |
//! | `case` | conditions, and the systems that are compared |
//! | `plan`, `series` | how long and how often; all measurements of a plan |
//! | `measure` | one measurement: group, warm-up, window |
//! | `group`, `status`, `process` | replicas, and what they used |
//! | `drive`, `load`, `crowd` | clients: who drives them; one to a thread; many to a thread |
//! | `operations`, `counting` | the operations that clients send; counts of messages |
//! | `disk` | what the disk under the logs does by itself |
//! | `sample`, `stats` | what a measurement found; figures over repeats |
//! | `protocols` | all protocols beside each other: `bench protocols` |
//! | `paper` | the papers' tables and figures beside ours: `bench paper` |
//! | `wan` | latency over slow links, in virtual time: `bench wan` |
//! | `scaling` | how far pillars go on side by side: `bench ordering`, `bench model` |
//! | `overload` | what too much load costs: `bench overload` |
//! | `faults` | what faults cost: `bench failover` and so on |
//! | `saturate` | how much load is borne: `bench saturate` |
//! | `compare` | whether two results differ: `bench compare` |
//! | `report`, `grid`, `chart` | JSON, CSV, HTML; tables; plots |
//! | `machine`, `files` | where it was measured; result files |

#![forbid(unsafe_code)]

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
mod paper;
mod plan;
mod process;
mod protocols;
mod report;
mod sample;
mod saturate;
mod scaling;
mod series;
mod stats;
mod status;
mod wan;

pub use args::BenchArgs;
pub use machine::COMMIT;

use args::BenchCommand;
use files::{check_writable, json, write_file};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use report::Report;
use sample::CaseSamples;
use series::{Measured, measure_all};

/// Runs the command.
pub fn run(args: &BenchArgs) -> Outcome {
    match &args.command {
        Some(BenchCommand::Fault(command)) => return faults::run(command),
        Some(BenchCommand::Saturate(saturate)) => return saturate::run(saturate),
        Some(BenchCommand::Protocols(protocols)) => return protocols::run(protocols),
        Some(BenchCommand::Paper(paper)) => return paper::run(paper),
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
