//! One measurement: a fresh group, its clients, a warm-up, a window.

use super::case::{Case, System};
use super::counting::Counts;
use super::drive::{Job, announced, jobs};
use super::group::Group;
use super::interrupt::{Interrupt, interrupted};
use super::load::{Signals, Tally, Window};
use super::operations::Recipe;
use super::plan::Timing;
use super::sample::Sample;
use super::status::{self, Effort, Report};
use bytes::Bytes;
use pentarchy_client::{Client, Completions, RequestError};
use pentarchy_console::failure::{Failure, Outcome};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a group may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How often a group that does not answer yet is looked after.
const LOOK: Duration = Duration::from_millis(20);

/// Measures one system once. Fails also if it was interrupted.
pub fn measure(
    case: &Case,
    system: &System,
    timing: Timing,
    interrupt: &Interrupt,
) -> Outcome<Sample> {
    match start_and_measure(case, system, timing, interrupt) {
        Ok(sample) => sample.ok_or_else(interrupted),
        Err(Failure::Unwell(why)) => Err(Failure::Unwell(format!("{case}: {system}: {why}"))),
        Err(failure) => Err(failure),
    }
}

/// `None` if it was interrupted.
fn start_and_measure(
    case: &Case,
    system: &System,
    timing: Timing,
    interrupt: &Interrupt,
) -> Outcome<Option<Sample>> {
    let mut group = Group::start(system, case)?;
    let result = measure_group(&mut group, case, timing, interrupt);
    let result = match group.check() {
        // That a replica ended explains whatever else went wrong.
        Err(death) => Err(death),
        Ok(()) => result,
    };
    group.stop();
    result
}

fn measure_group(
    group: &mut Group,
    case: &Case,
    timing: Timing,
    interrupt: &Interrupt,
) -> Outcome<Option<Sample>> {
    let control = group.connect(&Arc::default())?;
    let recipe = Recipe::new(case);
    if !wait_until_it_answers(group, &control, &recipe, interrupt)? {
        return Ok(None);
    }
    prepare(&control, &recipe)?;
    let counts = Arc::new(Counts::default());
    let jobs = jobs(group, case, &recipe, &counts)?;
    let running = group.running - usize::from(case.crash);
    let read = || Reading {
        cpu: process_cpu(),
        counts: counts.now(),
        effort: Effort::here(),
        reports: status::ask(&control, running),
    };
    let ready = || {
        if case.crash {
            group.crash_last();
        }
    };
    let found = run(jobs, announced(case), timing, interrupt, ready, read)?;
    let Some(Run { before, after, tallies }) = found else { return Ok(None) };
    let mut tally = Tally::new();
    tallies.iter().for_each(|one| tally.add(one));
    sample(before, after, tally, timing.measured, group).map(Some)
}

/// What is read at both ends of a window.
struct Reading {
    cpu: Duration,
    counts: super::sample::Sent,
    effort: Outcome<Effort>,
    reports: Outcome<Vec<Report>>,
}

/// What came of the load.
pub struct Run<R> {
    /// What was read at the beginning of the window.
    pub before: R,
    /// What was read at its end.
    pub after: R,
    /// What each job found, in their order.
    pub tallies: Vec<Tally>,
}

/// Offers load from a thread per job, and reads at both ends of the window. `ready` runs once all
/// clients are connected. `None` if it was interrupted.
pub fn run<R>(
    jobs: Vec<Job>,
    announced: usize,
    timing: Timing,
    interrupt: &Interrupt,
    ready: impl FnOnce(),
    read: impl Fn() -> R,
) -> Outcome<Option<Run<R>>> {
    let signals = Signals::default();
    let (ends, tallies) = std::thread::scope(|scope| {
        let signals = &signals;
        let threads: Vec<_> =
            jobs.into_iter().map(|job| scope.spawn(move || job(signals))).collect();
        let ends = ends(signals, announced, timing, interrupt, ready, read);
        signals.stop.store(true, Ordering::Relaxed);
        // Nobody waits for a window that will not come.
        signals.window.get_or_init(|| Window::starting(Instant::now(), timing.measured));
        let lost = |_| Failure::Internal("a client panicked".to_owned());
        let tallies = threads.into_iter().map(|thread| thread.join().map_err(lost)?);
        Ok::<_, Failure>((ends, tallies.collect::<Outcome<Vec<Tally>>>()?))
    })?;
    Ok(ends?.map(|(before, after)| Run { before, after, tallies }))
}

/// Waits until clients are connected, opens the window, and reads at its ends. `None` if it was
/// interrupted.
fn ends<R>(
    signals: &Signals,
    announced: usize,
    timing: Timing,
    interrupt: &Interrupt,
    ready: impl FnOnce(),
    read: impl Fn() -> R,
) -> Outcome<Option<(R, R)>> {
    let deadline = Instant::now() + START_LIMIT;
    while signals.connected.load(Ordering::Relaxed) < announced {
        if !interrupt.sleep_until(Instant::now() + LOOK) {
            return Ok(None);
        }
        if Instant::now() >= deadline {
            let connected = signals.connected.load(Ordering::Relaxed);
            return Err(Failure::Unwell(format!(
                "only {connected} of {announced} clients are connected to all replicas after {} s",
                START_LIMIT.as_secs()
            )));
        }
    }
    ready();
    let start = Instant::now() + timing.warmup;
    let window = *signals.window.get_or_init(|| Window::starting(start, timing.measured));
    let before = interrupt.sleep_until(window.start).then(&read);
    let after = interrupt.sleep_until(window.end).then(&read);
    Ok(before.zip(after))
}

/// Operations that prepare the service and are outstanding at a time.
const PREPARED_AT_ONCE: usize = 1024;

/// Brings the service into the state in which it is measured.
fn prepare(control: &Client, recipe: &Recipe) -> Outcome {
    let completions = Completions::new();
    let (mut operations, judge) = (recipe.first().peekable(), recipe.client(0));
    let mut results = Vec::new();
    while operations.peek().is_some() {
        let some = operations.by_ref().take(PREPARED_AT_ONCE);
        let mut left = 0;
        let tagged = some.map(|operation| (0, operation)).inspect(|_| left += 1);
        let closed = |error| Failure::Internal(format!("the client does not work: {error}"));
        control.submit_all(tagged, &completions).map_err(closed)?;
        let deadline = Instant::now() + START_LIMIT;
        while left > 0 {
            left -= completions.wait(LOOK, &mut results);
            let right = |result: Result<Bytes, RequestError>| match result {
                Ok(result) if judge.is_right(false, &result) => None,
                Ok(_) => Some("it refuses an operation".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = results.drain(..).find_map(|(_, result)| right(result)) {
                return Err(Failure::Unwell(format!("the service cannot be prepared: {why}")));
            }
            if left > 0 && Instant::now() >= deadline {
                return Err(Failure::Unwell(format!(
                    "{left} operations that prepare the service have no answer after {} s",
                    START_LIMIT.as_secs()
                )));
            }
        }
    }
    Ok(())
}

/// What was found in the window. Refuses if nothing was completed.
fn sample(
    before: Reading,
    after: Reading,
    tally: Tally,
    measured: Duration,
    group: &Group,
) -> Outcome<Sample> {
    let completed = tally.latencies.count();
    if completed == 0 {
        let errors: Vec<_> =
            tally.errors.iter().map(|(error, count)| format!("{count} {error}")).collect();
        let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
        return Err(Failure::Unwell(format!(
            "nothing was completed within {} s; errors: {errors}{}",
            measured.as_secs_f64(),
            group.last_words()
        )));
    }
    let (before_reports, after_reports) = (before.reports?, after.reports?);
    let replicas = after_reports.iter().zip(&before_reports);
    Ok(Sample {
        seconds: measured.as_secs_f64(),
        completed,
        errors: tally.errors,
        latency: tally.latencies.quantiles(),
        replicas: replicas.map(|(after, before)| after.since(before)).collect(),
        late: (tally.late.count() > 0).then(|| tally.late.quantiles()),
        client_effort: after.effort?.since(before.effort?),
        client_cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6,
        sent: after.counts.since(before.counts),
    })
}
/// Waits until an operation was executed and every replica says how it is. False if it was
/// interrupted.
pub fn wait_until_it_answers(
    group: &mut Group,
    control: &Client,
    recipe: &Recipe,
    interrupt: &Interrupt,
) -> Outcome<bool> {
    let deadline = Instant::now() + START_LIMIT;
    let late = |what: &str, group: &Group| {
        let (seconds, words) = (START_LIMIT.as_secs(), group.last_words());
        Failure::Unwell(format!("{what} within {seconds} s{words}"))
    };
    let completions = Completions::new();
    let first = recipe.first().take(1).map(|operation| (0, operation));
    control
        .submit_all(first, &completions)
        .map_err(|error| Failure::Internal(format!("the client does not work: {error}")))?;
    let mut results = Vec::new();
    while completions.wait(LOOK, &mut results) == 0 {
        group.check()?;
        if !interrupt.sleep_until(Instant::now()) {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Err(late("the group does not answer", group));
        }
    }
    if let Some((_, Err(error))) = results.first() {
        return Err(Failure::Unwell(format!("the group refuses to work: {error}")));
    }
    while let Err(error) = status::ask(control, group.running) {
        group.check()?;
        if !interrupt.sleep_until(Instant::now() + LOOK) {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Err(late(&format!("not all replicas answer ({error})"), group));
        }
    }
    Ok(true)
}

/// Processor time of this process so far.
pub fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
