//! `bench changes`: how long clients wait while the group changes.

use super::args::ChangesArgs;
use super::changing::ChangingGroup;
use super::count::{Counters, Load, Verdict};
use super::record::Record;
use super::{await_answers, check_writable, millis, write_json};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::stats::Spread;
use pentarchy_console::failure::Outcome;
use pentarchy_console::progress;
use pentarchy_console::say;
use serde::Serialize;
use std::time::Duration;

/// Load before each change.
const SETTLE: Duration = Duration::from_millis(500);

/// What changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Nothing: what the others are compared with.
    Nothing,
    /// Each member signs by a new key.
    Refresh,
    /// A new machine takes a member's place.
    Replace,
    /// The group orders by another protocol.
    Switch,
    /// It orders by the first one again.
    SwitchBack,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Nothing, Self::Refresh, Self::Replace, Self::Switch, Self::SwitchBack];

    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing changes",
            Self::Refresh => "members get new keys",
            Self::Replace => "a new machine takes a member's place",
            Self::Switch => "the group switches to another protocol",
            Self::SwitchBack => "the group switches back",
        }
    }
}

/// One change.
#[derive(Serialize, Clone, Copy)]
struct Run {
    kind: Kind,
    /// The longest time without a completed operation.
    gap_ms: f64,
    /// From the proposal until the group was so, if anything was proposed.
    took_ms: Option<f64>,
}

#[derive(Serialize)]
struct Seen {
    /// The protocol to which it switched, if there is one that its members can run.
    switched_to: Option<String>,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Changes {
    protocol: String,
    f: usize,
    clients: usize,
    outstanding: usize,
    #[serde(flatten)]
    seen: Seen,
    verdict: Verdict,
    complete: bool,
}

/// Runs the command, which prints and writes what it measured, also until a failure.
pub fn run(args: &ChangesArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), None])?;
    let machine = Machine::here();
    let load = Load { clients: args.load.clients, outstanding: args.load.outstanding, counters: 1 };
    let mut group = ChangingGroup::start(&args.group, args.durability.into(), args.runs)?;
    let counters = Counters::start(&group.config, load)?;
    let mut seen = Seen { switched_to: None, runs: Vec::new() };
    let result = change_often(args, &mut group, &counters.record, &mut seen, interrupt);
    let verdict = counters.finish();
    let report = Changes {
        protocol: args.group.label(),
        f: args.group.f,
        clients: load.clients,
        outstanding: load.outstanding,
        complete: result.is_ok(),
        seen,
        verdict: verdict.as_ref().cloned().unwrap_or_default(),
    };
    conclude(&report);
    write_json(args.json.as_deref(), machine, &report)?;
    report.verdict.check()?;
    result.and(verdict.map(|_| ()))
}

/// Each kind in turn, so that all meet the same group, old and new.
fn change_often(
    args: &ChangesArgs,
    group: &mut ChangingGroup,
    record: &Record,
    seen: &mut Seen,
    interrupt: &Interrupt,
) -> Outcome {
    let progress = progress::spinner();
    for number in 1..=args.runs {
        for kind in Kind::ALL {
            progress.set_message(format!("run {number} of {}: {}", args.runs, kind.words()));
            let change = match kind {
                Kind::Nothing => None,
                Kind::Refresh => Some(group.refreshed()?),
                Kind::Replace => Some(group.replaced()?),
                Kind::Switch | Kind::SwitchBack => group.switched()?,
            };
            if let (Kind::Switch, Some(change)) = (kind, &change) {
                seen.switched_to = Some(change.protocol());
            }
            if kind != Kind::Nothing && change.is_none() {
                continue;
            }
            interrupt.sleep(SETTLE)?;
            await_answers(record, interrupt)?;
            record.watch();
            let took = change.map(|change| group.make(change, interrupt)).transpose()?;
            interrupt.sleep(args.watch)?;
            await_answers(record, interrupt)?;
            let gap_ms = millis(record.longest_gap());
            seen.runs.push(Run { kind, gap_ms, took_ms: took.map(millis) });
        }
    }
    Ok(())
}

fn conclude(report: &Changes) {
    let Changes { protocol, f, clients, outstanding, seen, verdict, .. } = report;
    say(&format!("{protocol}, f = {f}, {clients} clients with {outstanding} operations each"));
    for kind in Kind::ALL {
        let of_kind = || seen.runs.iter().filter(move |run| run.kind == kind);
        let Some(gap) = Spread::of(of_kind().map(|run| run.gap_ms)) else { continue };
        let took = Spread::of(of_kind().filter_map(|run| run.took_ms));
        let took = took.map_or_else(String::new, |took| {
            format!("; until the group was so: median {:.0} ms", took.median)
        });
        say(&format!(
            "{} ({} runs): nobody was answered for at most: median {:.0} ms, worst {:.0} ms{took}",
            kind.words(),
            of_kind().count(),
            gap.median,
            gap.max,
        ));
    }
    match &seen.switched_to {
        Some(other) => say(&format!("the other protocol is {other}")),
        None => say("there is no other protocol to which these members can switch"),
    }
    say(&verdict.sentence());
}
