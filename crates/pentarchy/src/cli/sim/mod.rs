//! `sim`: a protocol under simulated faults, one run per seed.

pub mod args;
mod explain;
#[cfg(feature = "mutants")]
mod museum;
#[cfg(feature = "mutants")]
mod mutants;
mod replay;
mod strategies;
mod tally;

use super::variant;
use args::{SimArgs, SimCommand, WorldArgs};
use indicatif::ProgressBar;
use pentarchy::protocols;
use pentarchy_bench::COMMIT;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::shown;
use pentarchy_console::{complain, say, worlds};
use pentarchy_protocols::{Descriptor, PROTOCOLS, Status};
use pentarchy_sim::guided::run_guided;
use pentarchy_sim::replay::Subject;
use pentarchy_sim::run::{Factories, Summary, Violation, run_many};
use pentarchy_sim::shrink::Case;
use pentarchy_sim::swarm::SimConfig;
use pentarchy_sim::twins::{self, Schedule, run_schedules};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;

/// Seeds that are run unless told otherwise.
const SEEDS_DEFAULT: u64 = 1000;

/// Failing seeds after which no more are looked for: they tend to have one cause.
const FAILURES_MAX: usize = 10;

/// How long more of them are looked for, in the hope of a plainer one.
const PLAINER: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: &SimArgs) -> Outcome {
    match &args.command {
        Some(SimCommand::Replay(args)) => replay::run(args),
        Some(SimCommand::Strategies(args)) => strategies::run(args),
        None => sweep(args),
        #[cfg(feature = "mutants")]
        Some(SimCommand::Mutants(args)) => mutants::run(args),
        #[cfg(feature = "mutants")]
        Some(SimCommand::Museum(args)) => museum::run(args),
        #[cfg(not(feature = "mutants"))]
        Some(SimCommand::Mutants(_) | SimCommand::Museum(_)) => Err(Failure::Usage(
            "this binary has no seeded bugs, as it may serve; use \
             cargo run --release -p pentarchy --features mutants -- sim mutants (or museum)"
                .to_owned(),
        )),
    }
}

/// Instead of a protocol's name: each that tolerates a fault, but for those that are here to be
/// broken.
const ALL: &str = "all";

fn sweep(args: &SimArgs) -> Outcome {
    let entries: Vec<&Descriptor> = match args.protocol.as_str() {
        ALL => PROTOCOLS.iter().copied().filter(is_sound).collect(),
        name => vec![in_pillars(name, &args.worlds)?],
    };
    variant::choose(args.variant.as_deref())?;
    let interrupted = interrupted()?;
    let mut tallies = Vec::new();
    let mut outcome = Ok(());
    for entry in entries {
        let (tally, ended) = sweep_one(args, entry, &interrupted)?;
        tallies.push(tally);
        outcome = ended;
        if outcome.is_err() {
            break;
        }
    }
    match tallies.as_slice() {
        _ if !args.json => {}
        [tally] if args.protocol != ALL => say(&tally::to_json(tally)),
        all => say(&tally::to_json(&all)),
    }
    outcome
}

fn is_sound(protocol: &&Descriptor) -> bool {
    protocol.status != Status::Museum && protocol.rules.tolerates_faults()
}

/// What came of the seeds of one protocol, and whether all is well.
fn sweep_one(
    args: &SimArgs,
    entry: &'static Descriptor,
    interrupted: &AtomicBool,
) -> Outcome<(Tally, Outcome)> {
    let config = args.worlds.config(entry);
    let factories = factories(entry);
    let schedules = args.twins.map(|rounds| schedules(entry, rounds)).transpose()?;
    let seeds = seeds(args, schedules.as_ref().map(|all| all.len() as u64))?;
    let progress = progress(&seeds, args.json);
    let single = seeds.end - seeds.start == 1;
    let mut tally = Tally::new(entry.rules.name, seeds.start, args.twins);
    let started = Instant::now();
    let mut plainest: Option<Violation> = None;
    let mut first_failure: Option<Instant> = None;
    let mut covered = None;
    let told = |outcome: &Result<Summary, Violation>| {
        progress.inc(1);
        report(args, entry, outcome, single, &progress);
        tally.add(outcome, |violation| replay_line(args, entry, violation));
        if let Err(violation) = outcome
            && plainest.as_ref().is_none_or(|known| explain::is_plainer(violation, known))
        {
            plainest = Some(violation.clone());
        }
        if outcome.is_err() {
            first_failure.get_or_insert_with(Instant::now);
        }
        let enough = first_failure.is_some_and(|first| first.elapsed() > PLAINER);
        !enough && tally.failures() < FAILURES_MAX && !interrupted.load(Ordering::Relaxed)
    };
    match &schedules {
        Some(all) => run_schedules(all, seeds, jobs(args.jobs), &config, &factories, told),
        None if args.guided => {
            let learned = run_guided(seeds, jobs(args.jobs), &config, &factories, told);
            covered = Some(learned.covered());
        }
        None => run_many(seeds, jobs(args.jobs), &config, &factories, told),
    }
    progress.finish_and_clear();
    tally.finish(started.elapsed());
    tally.covered = covered;
    if !args.json && !single {
        say(&tally.to_string());
    }
    if let Some(violation) = plainest.filter(|_| !args.json) {
        let explained = explain::explain(args, entry, &config, &violation, interrupted);
        if let Err(failure) = explained {
            // What broke matters more than a picture that cannot be written.
            complain(&failure.to_string());
        }
    }
    let ended = if tally.failures() > 0 {
        Err(Failure::NotWell)
    } else if interrupted.load(Ordering::Relaxed) {
        Err(Failure::Unwell("interrupted before all seeds were run".to_owned()))
    } else {
        Ok(())
    };
    Ok((tally, ended))
}

/// What is put to the test, with the clients and liars of a protocol.
fn factories(entry: &'static Descriptor) -> Factories<'static> {
    worlds::factories(entry, |client| Some(u64::from(client.0[0])))
}

/// All schedules of so many rounds around twins.
fn schedules(entry: &Descriptor, rounds: u32) -> Outcome<Vec<Schedule>> {
    let name = entry.rules.name;
    let n = twins::group(&entry.rules).ok_or_else(|| {
        Failure::Usage(format!("--twins: {name} tolerates no replica that exists twice"))
    })?;
    let most = twins::rounds_max(n);
    if rounds > most {
        let why = format!("--twins {rounds}: of {name}, with {n} replicas, there are too many");
        return Err(Failure::Usage(format!("{why} schedules; at most {most} rounds can be run")));
    }
    Ok(twins::schedules(rounds, n))
}

/// The schedule of this number around twins.
fn schedule(entry: &Descriptor, rounds: u32, number: u64, config: &SimConfig) -> Outcome<Subject> {
    let all = schedules(entry, rounds)?;
    let schedule = usize::try_from(number).ok().and_then(|number| all.get(number));
    let schedule = schedule.ok_or_else(|| beyond(all.len() as u64))?;
    let case = Case { seed: number, options: schedule.options(config) };
    Ok(Subject::Given(Box::new(case)))
}

fn beyond(all: u64) -> Failure {
    Failure::Usage(format!("there are {all} schedules; --seed counts them from 0"))
}

/// The protocol of this name.
pub(super) fn protocol(name: &str) -> Outcome<&'static Descriptor> {
    pentarchy_protocols::find(name).ok_or_else(|| {
        let known: Vec<_> = protocols::names().collect();
        Failure::Usage(format!("no protocol {name:?}; there is: {}", known.join(", ")))
    })
}

/// The protocol of this name, split into pillars if that is asked for.
fn in_pillars(name: &str, worlds: &WorldArgs) -> Outcome<&'static Descriptor> {
    let entry = protocol(name)?;
    if entry.rules.pillars {
        return Ok(entry);
    }
    let lane = worlds.lane();
    protocols::check_lane(name, lane).map_err(|why| Failure::Usage(format!("--pillars: {why}")))?;
    let split = pentarchy_protocols::in_pillars(name).filter(|_| lane.pillars > 1);
    Ok(split.unwrap_or(entry))
}

/// The seeds that are asked for; of `all` schedules if those are to be run.
fn seeds(args: &SimArgs, all: Option<u64>) -> Outcome<Range<u64>> {
    let first = args.seed.unwrap_or(0);
    let default = all.map_or(SEEDS_DEFAULT, |all| all.saturating_sub(first));
    let count = args.seeds.unwrap_or(if args.seed.is_some() { 1 } else { default });
    let end = first.checked_add(count);
    let end = end.ok_or_else(|| Failure::Usage("--seed and --seeds are too large".to_owned()))?;
    match all {
        Some(all) if first >= all => Err(beyond(all)),
        Some(all) => Ok(first..end.min(all)),
        None => Ok(first..end),
    }
}

fn jobs(asked: Option<NonZeroUsize>) -> usize {
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// Set by the first Ctrl-C; the second one ends the process.
pub(super) fn interrupted() -> Outcome<Arc<AtomicBool>> {
    let set = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, set.clone())
            .and_then(|_| flag::register(signal, set.clone()))
            .map_err(|error| Failure::Internal(format!("cannot watch for signals: {error}")))?;
    }
    Ok(set)
}

fn progress(seeds: &Range<u64>, json: bool) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    shown(
        ProgressBar::new(seeds.end - seeds.start),
        "{wide_bar} {pos}/{len} seeds, {per_sec}, {eta} left",
    )
}

/// Says what came of one seed, if it failed or was the only one.
fn report(
    args: &SimArgs,
    entry: &Descriptor,
    outcome: &Result<Summary, Violation>,
    single: bool,
    progress: &ProgressBar,
) {
    if args.json {
        return;
    }
    progress.suspend(|| match outcome {
        Ok(summary) if single => say(&summary.to_string()),
        Ok(_) => {}
        Err(violation) => {
            let at = COMMIT.map_or_else(String::new, |commit| format!(" at {commit}"));
            let replay = replay_line(args, entry, violation);
            say(&format!("FAILED{at}: {violation}\n  {replay}"));
        }
    });
}

/// This program as it was started: another one of its name may be another version.
fn program() -> String {
    let name = std::env::args_os().next().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "pentarchy".to_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:=,".contains(c);
    if name.chars().all(is_plain) { name } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// What to paste in order to see a seed again.
fn replay_line(args: &SimArgs, entry: &Descriptor, violation: &Violation) -> String {
    let (program, protocol, seed) = (program(), entry.rules.name, violation.seed);
    if violation.is_varied {
        let case = (seed, violation.world.as_str());
        return explain::given_line(args, entry, case);
    }
    let mut line = format!("{program} sim --protocol {protocol} --seed {seed:#x}");
    line.push_str(&args.worlds.typed());
    if let Some(rounds) = args.twins {
        line = format!("{line} --twins {rounds}");
    }
    if let Some(variant) = &args.variant {
        line = format!("{line} --variant {variant}");
    }
    line
}
