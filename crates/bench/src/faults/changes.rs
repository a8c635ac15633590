//! `bench changes`: how long clients wait while the group changes.

use super::args::ChangesArgs;
use super::changing::ChangingGroup;
use super::count::{Counters, Load, Verdict};
use super::fill::fill;
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

/// Milliseconds that a change has to take until its share of the load is told.
const LONG_MS: f64 = 1_000.0;

/// Machines that join in a run.
const JOINS: usize = 2;

/// Bytes of a value that is written before.
const VALUE_BYTES: usize = 4096;

/// What changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Nothing: what the others are compared with.
    Nothing,
    /// Each member signs by a new key.
    Refresh,
    /// A machine joins.
    Add,
    /// A member leaves.
    Remove,
    /// A new machine takes a member's place.
    Replace,
    /// The group orders by another protocol.
    Switch,
    /// It orders by the first one again.
    SwitchBack,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Refresh,
        Self::Add,
        Self::Remove,
        Self::Replace,
        Self::Switch,
        Self::SwitchBack,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing changes",
            Self::Refresh => "members get new keys",
            Self::Add => "a machine joins",
            Self::Remove => "a member leaves",
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
    /// Operations in a second before, ...
    before_ops: f64,
    /// ... and meanwhile, if anything was proposed.
    meanwhile_ops: Option<f64>,
}

impl Run {
    /// What part of the load the group bore meanwhile, if the change took long enough to tell.
    fn share(&self) -> Option<f64> {
        let is_long = self.took_ms.is_some_and(|took| took >= LONG_MS);
        self.meanwhile_ops.filter(|_| is_long).map(|ops| ops / self.before_ops)
    }
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
    /// What the group stored before.
    state_mib: u64,
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
    let joins = JOINS * args.runs;
    let mut group = ChangingGroup::start(&args.group, args.durability.into(), joins)?;
    let keys = args.state_mib * (1 << 20) / VALUE_BYTES as u64;
    fill(&group.config, keys, VALUE_BYTES, interrupt)?;
    let counters = Counters::start(&group.config, load)?;
    let mut seen = Seen { switched_to: None, runs: Vec::new() };
    let result = change_often(args, &mut group, &counters.record, &mut seen, interrupt);
    let verdict = counters.finish();
    let report = Changes {
        protocol: args.group.label(),
        f: args.group.f,
        clients: load.clients,
        outstanding: load.outstanding,
        state_mib: args.state_mib,
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
                Kind::Add => Some(group.joined()?),
                Kind::Remove => Some(group.left()?),
                Kind::Replace => Some(group.replaced()?),
                Kind::Switch | Kind::SwitchBack => group.switched()?,
            };
            if let (Kind::Switch, Some(change)) = (kind, &change) {
                seen.switched_to = Some(change.protocol());
            }
            if kind != Kind::Nothing && change.is_none() {
                continue;
            }
            await_answers(record, interrupt)?;
            let settling = Counted::since(record);
            interrupt.sleep(SETTLE)?;
            let before_ops = settling.rate(record);
            await_answers(record, interrupt)?;
            record.watch();
            let changing = Counted::since(record);
            let took = change.map(|change| group.make(change, interrupt)).transpose()?;
            let meanwhile_ops = took.map(|_| changing.rate(record));
            interrupt.sleep(args.watch)?;
            await_answers(record, interrupt)?;
            let (gap_ms, took_ms) = (millis(record.longest_gap()), took.map(millis));
            seen.runs.push(Run { kind, gap_ms, took_ms, before_ops, meanwhile_ops });
        }
    }
    Ok(())
}

/// When, and how many operations the clients had completed then.
struct Counted(Duration, u64);

impl Counted {
    fn since(record: &Record) -> Self {
        Self(record.now(), record.total())
    }

    /// Operations in a second since then.
    fn rate(&self, record: &Record) -> f64 {
        let Self(then, before) = self;
        let seconds = record.now().saturating_sub(*then).as_secs_f64();
        (record.total() - before) as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}

fn conclude(report: &Changes) {
    let Changes { protocol, f, clients, outstanding, seen, verdict, .. } = report;
    say(&format!("{protocol}, f = {f}, {clients} clients with {outstanding} operations each"));
    for kind in Kind::ALL {
        let runs: Vec<Run> = seen.runs.iter().filter(|run| run.kind == kind).copied().collect();
        if let Some(sentence) = sentence(kind, &runs) {
            say(&sentence);
        }
    }
    match &seen.switched_to {
        Some(other) => say(&format!("the other protocol is {other}")),
        None => say("there is no other protocol to which these members can switch"),
    }
    say(&verdict.sentence());
}

/// What changes of one kind cost.
fn sentence(kind: Kind, runs: &[Run]) -> Option<String> {
    let gap = Spread::of(runs.iter().map(|run| run.gap_ms))?;
    let (words, count, Spread { median, max, .. }) = (kind.words(), runs.len(), gap);
    let took = Spread::of(runs.iter().filter_map(|run| run.took_ms));
    let took = took.map_or_else(String::new, |took| {
        format!("; until the group was so: median {:.0} ms", took.median)
    });
    let share = Spread::of(runs.iter().filter_map(Run::share));
    let share = share.map_or_else(String::new, |Spread { median, min, max, .. }| {
        format!(", with {median:.2} [{min:.2} .. {max:.2}] of the load")
    });
    Some(format!(
        "{words} ({count} runs): nobody was answered for at most: median {median:.0} ms, worst \
         {max:.0} ms{took}{share}"
    ))
}
