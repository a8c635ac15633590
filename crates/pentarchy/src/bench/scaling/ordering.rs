//! `bench ordering`: what one replica does to order, on one processor and on several. It is fed
//! from memory with what it heard in a group that ran before, through the same door as from
//! sockets: messages are decoded, certificates checked and made, answers encoded. Nothing is
//! encrypted, sent or executed.

use super::{Batches, Form, PILLARS_MAX, Report, entry, parse_batches, thread_time};
use crate::bench::interrupt::Interrupt;
use crate::bench::machine::{Machine, Program};
use crate::bench::report::table::{cell, number};
use crate::bench::stats::Spread;
use crate::bench::{at_least_one, progress, warn_of_debug};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::stop::stop_signal;
use clap::Args;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::Unwatched;
use pentarchy_costs::host::Host;
use pentarchy_costs::ordering::{Recording, order};
use pentarchy_costs::real;
use pentarchy_protocols::Entry;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// `bench ordering`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy bench ordering\n  \
    pentarchy bench ordering --protocol hybster,pbft --pillars 1,2 --batch 1 --json\n\n\
    A replica hears what it heard in a group that ran before; each pillar in a thread of its own,\n\
    pinned to a processor. docs/benchmarks.md says more.")]
pub struct OrderingArgs {
    /// The protocols
    #[arg(long, value_delimiter = ',', default_value = "hybster", value_name = "NAME,...")]
    pub protocol: Vec<String>,
    /// Pillars of the replica; each is also run with fewer processors than pillars
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_name = "N,...",
        value_parser = at_least_one(PILLARS_MAX))]
    pub pillars: Vec<usize>,
    /// Requests in a batch: a number, or `adaptive` for 8 clients with 64 outstanding each
    #[arg(long, value_delimiter = ',', default_value = "1,adaptive", value_name = "N,...",
        value_parser = parse_batches)]
    pub batch: Vec<Batches>,
    /// Whose ordering: the primary's (0) or a backup's
    #[arg(long, default_value_t = 0, value_name = "ID",
        value_parser = clap::value_parser!(u16).range(0..=2))]
    pub replica: u16,
    /// Requests that each pillar orders in each measurement
    #[arg(long, default_value_t = 50_000, value_name = "N",
        value_parser = at_least_one(10_000_000))]
    pub requests: usize,
    /// Measurements of each row
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    #[command(flatten)]
    pub form: Form,
}

/// One number of pillars on one number of processors.
#[derive(Serialize)]
struct Row {
    protocol: String,
    batch: String,
    /// Whose ordering it is.
    replica: u16,
    pillars: usize,
    processors: usize,
    /// Requests that all pillars ordered in a second.
    requests_per_second: Spread,
    /// Processor time of all threads for a request, in microseconds.
    cpu_us: Spread,
    /// Requests in a second against those of one pillar on one processor.
    times_one: Option<f64>,
}

/// Runs the command.
pub fn run(args: &OrderingArgs) -> Outcome {
    warn_of_debug(&Program::this());
    let (machine, interrupt) = (Machine::here(), Interrupt::new(stop_signal(false)?));
    let rows = args.rows(machine.cores, &interrupt)?;
    let report = Report::new(machine, rows);
    let heads =
        ["protocol", "batch", "pillars", "processors", "requests/s", "µs of CPU", "times one"];
    report.print(&args.form, &heads, |row| {
        vec![
            row.protocol.clone(),
            row.batch.clone(),
            row.pillars.to_string(),
            row.processors.to_string(),
            cell(&row.requests_per_second, 1.0, 0),
            cell(&row.cpu_us, 1.0, 2),
            row.times_one.map_or_else(String::new, |times| number(times, 2)),
        ]
    })
}

impl OrderingArgs {
    fn rows(&self, cores: usize, interrupt: &Interrupt) -> Outcome<Vec<Row>> {
        let places = |pillars: usize| (1..=pillars.min(cores)).map(move |on| (pillars, on));
        let places: Vec<_> = self.pillars.iter().flat_map(|pillars| places(*pillars)).collect();
        let cases = self.protocol.len() * self.batch.len();
        let progress = progress::bar(cases * places.len() * self.repeats);
        let mut rows: Vec<Row> = Vec::new();
        for protocol in &self.protocol {
            let entry = entry(protocol)?;
            for batch in &self.batch {
                progress.set_message(format!("{protocol}, batches of {batch}"));
                let most = self.pillars.iter().copied().max().unwrap_or(1);
                let recordings: Vec<Recording> =
                    (0..most).map(|pillar| self.record(entry, *batch, pillar)).collect();
                let mut samples = vec![Vec::new(); places.len()];
                // In turn, so that a machine that gets slower does so for all.
                for _ in 0..self.repeats {
                    for ((pillars, on), samples) in places.iter().zip(&mut samples) {
                        if !interrupt.sleep_until(Instant::now()) {
                            return Err(Failure::Unwell("interrupted".to_owned()));
                        }
                        let chosen = &recordings[..*pillars];
                        samples.push(measure(entry, tuning(*batch), self.replica, chosen, *on)?);
                        progress.inc(1);
                    }
                }
                let mut one = None;
                for ((pillars, processors), samples) in places.iter().zip(samples) {
                    let row = self.row(protocol, *batch, (*pillars, *processors), &samples)?;
                    if (*pillars, *processors) == (1, 1) {
                        one = Some(row.requests_per_second.median);
                    }
                    let times_one = one.map(|one| row.requests_per_second.median / one);
                    rows.push(Row { times_one, ..row });
                }
            }
        }
        progress.finish_and_clear();
        Ok(rows)
    }

    fn row(
        &self,
        protocol: &str,
        batch: Batches,
        place: (usize, usize),
        samples: &[Sample],
    ) -> Outcome<Row> {
        let none = || Failure::Internal("nothing was ordered".to_owned());
        let rate = |it: &Sample| it.requests as f64 / it.took.as_secs_f64();
        let cpu = |it: &Sample| it.cpu.as_secs_f64() * 1e6 / it.requests as f64;
        Ok(Row {
            protocol: protocol.to_owned(),
            batch: batch.to_string(),
            replica: self.replica,
            pillars: place.0,
            processors: place.1,
            requests_per_second: Spread::of(samples.iter().map(rate)).ok_or_else(none)?,
            cpu_us: Spread::of(samples.iter().map(cpu)).ok_or_else(none)?,
            times_one: None,
        })
    }

    /// What the replica hears in a group in which nothing goes wrong.
    fn record(&self, entry: &Entry, batch: Batches, pillar: usize) -> Recording {
        let (clients, each) = match batch {
            Batches::Of(requests) => (requests.max(8), 1),
            Batches::Adaptive => (8, 64),
        };
        let mut group = real::lane(entry, 1, pillar, clients, tuning(batch));
        group.record(ReplicaId(self.replica));
        let mut submitted = 0;
        while submitted * clients < self.requests {
            group.submit(each, 0);
            submitted += each;
            group.settle(submitted, &mut Unwatched);
        }
        group.take_recording()
    }
}

fn tuning(batch: Batches) -> Tuning {
    let usual = Tuning::default();
    match batch {
        Batches::Of(batch_requests) => Tuning { batch_requests, ..usual },
        Batches::Adaptive => usual,
    }
}

/// What one measurement found.
#[derive(Clone, Copy)]
struct Sample {
    requests: usize,
    took: Duration,
    cpu: Duration,
}

/// One thread for each pillar, on so many processors.
fn measure(
    entry: &Entry,
    tuning: Tuning,
    replica: u16,
    recordings: &[Recording],
    processors: usize,
) -> Outcome<Sample> {
    let start = Barrier::new(recordings.len());
    let work = |index: usize, recording: &Recording| {
        let pinned = pin(index % processors);
        let membership = real::membership(entry, 1);
        let me = ReplicaId(replica);
        let mut host =
            Host::new(me, &membership, entry, real::keys(entry, me, &membership), tuning);
        start.wait();
        let (begun, cpu) = (Instant::now(), thread_time());
        let requests = order(&mut host, recording);
        let cpu = thread_time() - cpu;
        pinned.map(|()| (requests, begun, Instant::now(), cpu))
    };
    let threads: Outcome<Vec<_>> = std::thread::scope(|scope| {
        let spawn = |(index, recording)| scope.spawn(move || work(index, recording));
        let threads: Vec<_> = recordings.iter().enumerate().map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let gone = Failure::Internal("a pillar's thread panicked".to_owned());
            thread.join().unwrap_or(Err(gone))
        };
        threads.into_iter().map(join).collect()
    });
    let threads = threads?;
    let begun = threads.iter().map(|(_, begun, _, _)| *begun).min();
    let ended = threads.iter().map(|(_, _, ended, _)| *ended).max();
    Ok(Sample {
        requests: threads.iter().map(|(requests, ..)| requests).sum(),
        took: begun.zip(ended).map(|(begun, ended)| ended - begun).unwrap_or_default(),
        cpu: threads.iter().map(|(.., cpu)| *cpu).sum(),
    })
}

fn pin(processor: usize) -> Outcome {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Internal(format!("cannot pin to processor {processor}: {error}")))
}
