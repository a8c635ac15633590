//! One measurement: a fresh group, its clients, a warm-up, a window.

use super::args::Timing;
use super::case::{Case, System};
use super::counting::Counts;
use super::group::Group;
use super::interrupt::Interrupt;
use super::load::{Tally, Window, offer};
use super::sample::Sample;
use super::status::{self, Report};
use crate::cli::failure::{Failure, Outcome};
use pentarchy_client::{Client, Completions};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How long a group may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How often a group that does not answer yet is looked after.
const LOOK: Duration = Duration::from_millis(20);

/// Measures one system once. `None` if it was interrupted.
pub fn measure(
    case: &Case,
    system: &System,
    timing: Timing,
    interrupt: &Interrupt,
) -> Outcome<Option<Sample>> {
    let mut group = Group::start(system, case.request_auth)?;
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
    if !wait_until_it_answers(group, &control, case, interrupt)? {
        return Ok(None);
    }
    let counts = Arc::new(Counts::default());
    let clients: Vec<Client> =
        (0..case.clients).map(|_| group.connect(&counts)).collect::<Outcome<_>>()?;
    let start = Instant::now() + timing.warmup;
    let window = Window { start, end: start + timing.measured };
    let replicas = group.config.replicas.len();
    let Some(run) = run(&clients, case, window, interrupt, || Reading {
        cpu: process_cpu(),
        counts: counts.now(),
        reports: status::ask(&control, replicas),
    }) else {
        return Ok(None);
    };
    run.sample(timing.measured, group).map(Some)
}

/// What is read at both ends of a window.
struct Reading {
    cpu: Duration,
    counts: super::sample::Sent,
    reports: Outcome<Vec<Report>>,
}

/// What came of the load.
struct Run {
    before: Reading,
    after: Reading,
    tally: Tally,
}

/// Offers load from a thread per client, and reads at both ends of the window. `None` if it was
/// interrupted.
fn run(
    clients: &[Client],
    case: &Case,
    window: Window,
    interrupt: &Interrupt,
    read: impl Fn() -> Reading,
) -> Option<Run> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter().map(|client| spawn(scope, client, case, window, &stop)).collect();
        let before = interrupt.sleep_until(window.start).then(&read);
        let after = interrupt.sleep_until(window.end).then(&read);
        stop.store(true, Ordering::Relaxed);
        let mut tally = Tally::new();
        for thread in threads {
            // A panic has been printed; the measurement is without worth.
            tally.add(&thread.join().ok()?);
        }
        Some(Run { before: before?, after: after?, tally })
    })
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    client: &'scope Client,
    case: &'scope Case,
    window: Window,
    stop: &'scope AtomicBool,
) -> ScopedJoinHandle<'scope, Tally> {
    scope.spawn(move || offer(client, case, window, stop))
}

impl Run {
    /// Refuses if nothing was completed.
    fn sample(self, measured: Duration, group: &Group) -> Outcome<Sample> {
        let Self { before, after, tally } = self;
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
            client_cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6,
            sent: after.counts.since(before.counts),
        })
    }
}

/// Waits until an operation was executed and every replica says how it is. False if it was
/// interrupted.
pub fn wait_until_it_answers(
    group: &mut Group,
    control: &Client,
    case: &Case,
    interrupt: &Interrupt,
) -> Outcome<bool> {
    let deadline = Instant::now() + START_LIMIT;
    let late = |what: &str, group: &Group| {
        let (seconds, words) = (START_LIMIT.as_secs(), group.last_words());
        Failure::Unwell(format!("{what} within {seconds} s{words}"))
    };
    let completions = Completions::new();
    let first = [(0, case.payload.operation())];
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
    while let Err(error) = status::ask(control, group.config.replicas.len()) {
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
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
