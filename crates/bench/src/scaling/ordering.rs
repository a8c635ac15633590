//! `bench ordering`: what one replica does to order, on one processor and on several. It is fed
//! from memory with what it heard in a group that ran before, through the same ingress as from
//! sockets: messages are decoded, certificates checked and made, answers encoded. Nothing is
//! encrypted, sent or executed. Its threads are those of a replica: each pillar, and one with
//! clients and the merge.

use super::{Batches, Form, Report, SPLIT, blueprint, parse_batches, parse_pillars, thread_time};
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Program};
use crate::report::table::{cell, number};
use crate::stats::Spread;
use clap::{Args, ValueEnum};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use pentarchy_console::progress;
use pentarchy_core::ids::ReplicaId;
use pentarchy_costs::model::{Plan, record};
use pentarchy_costs::ordering::{Recording, Thread, order};
use pentarchy_costs::parts::Blueprint;
use pentarchy_costs::real::Envelopes;
use pentarchy_protocols::EXAMPLES;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a round of a part takes while a group is recorded.
const ROUND_NS: u64 = 10_000;

/// How long it takes there until one part of a replica hears another: so long that here, none often
/// waits for another one.
const MAIL_NS: u64 = 1_000_000;

/// How long a thread may wait for another one here.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the replica makes of the signatures of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Requests {
    /// It believes them, so that what is left is what replicas do to agree
    Believed,
    /// It checks them, where a replica does: each pillar those of its own clients
    Checked,
}

impl Requests {
    const fn envelopes(self) -> Envelopes {
        match self {
            Self::Believed => Envelopes::Believed,
            Self::Checked => Envelopes::Checked,
        }
    }
}

fn after_help() -> String {
    format!(
        "Examples:\n  pentarchy bench ordering\n  \
         pentarchy bench ordering --protocol {} --pillars 1,2 --batch 1 --json\n\n\
         A replica hears what it heard in a group that ran before. Each pillar has a thread, \
         pinned to\na processor; one more, which may run on any of them, has the clients and \
         merges what pillars\norder. One pillar is the protocol as it is, in one thread. \
         docs/benchmarks.md says the rest.",
        *SPLIT
    )
}

/// `bench ordering`.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct OrderingArgs {
    /// The protocols
    #[arg(long, value_delimiter = ',', default_value = EXAMPLES.split.rules.name,
        value_name = "NAME,...")]
    pub protocol: Vec<String>,
    /// Pillars of the replica; each is also run with fewer processors than pillars
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_name = "N,...",
        value_parser = parse_pillars)]
    pub pillars: Vec<u8>,
    /// Requests in a batch: a number, or `adaptive` for 64 clients with 64 outstanding each
    #[arg(long, value_delimiter = ',', default_value = "1,adaptive", value_name = "N,...",
        value_parser = parse_batches)]
    pub batch: Vec<Batches>,
    /// What the replica makes of clients' signatures
    #[arg(long, value_delimiter = ',', default_value = "believed,checked", value_name = "HOW,...")]
    pub signatures: Vec<Requests>,
    /// Whose ordering: the primary's (0) or a backup's
    #[arg(long, default_value_t = 0, value_name = "ID",
        value_parser = clap::value_parser!(u16).range(0..=2))]
    pub replica: u16,
    /// Requests for each pillar that are ordered in each measurement; twenty times as many in
    /// adaptive batches
    #[arg(long, default_value_t = 30_000, value_name = "N",
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
    signatures: Requests,
    /// Whose ordering it is.
    replica: u16,
    pillars: u8,
    processors: usize,
    /// Requests that it ordered in a second.
    requests_per_second: Spread,
    /// Processor time of all threads for a request, in microseconds.
    cpu_us: Spread,
    /// The same of the thread of each pillar; none if there are no others beside the rest.
    pillar_cpu_us: Vec<Spread>,
    /// The same of the thread with clients and the merge.
    rest_cpu_us: Spread,
    /// Requests in a second against those of one pillar on one processor.
    times_one: Option<f64>,
    /// The same against those of as many pillars on one processor.
    times_one_processor: Option<f64>,
}

/// Runs the command.
pub fn run(args: &OrderingArgs) -> Outcome {
    Program::this().warn_of_debug();
    let (machine, interrupt) = (Machine::here(), Interrupt::watch()?);
    let rows = args.rows(machine.cores, &interrupt)?;
    let report = Report::new(machine, rows);
    let heads = [
        "protocol",
        "batch",
        "signatures",
        "pillars",
        "processors",
        "requests/s",
        "µs of CPU",
        "each pillar's",
        "the rest",
        "times one",
        "times one processor",
    ];
    report.print(&args.form, &heads, |row| {
        let times = |times: Option<f64>| times.map_or_else(String::new, |it| number(it, 2));
        let of_pillars = row.pillar_cpu_us.iter().map(|cpu| number(cpu.median, 2));
        let signatures = row.signatures.to_possible_value();
        vec![
            row.protocol.clone(),
            row.batch.clone(),
            signatures.map(|it| it.get_name().to_owned()).unwrap_or_default(),
            row.pillars.to_string(),
            row.processors.to_string(),
            cell(&row.requests_per_second, 1.0, 0),
            cell(&row.cpu_us, 1.0, 2),
            of_pillars.collect::<Vec<_>>().join(" + "),
            number(row.rest_cpu_us.median, 2),
            times(row.times_one),
            times(row.times_one_processor),
        ]
    })
}

/// A replica with so many pillars on so many processors.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    pillars: u8,
    processors: usize,
    signatures: Requests,
}

impl OrderingArgs {
    fn places(&self, cores: usize) -> Vec<Place> {
        let of = |signatures: Requests, pillars: u8| {
            let processors = 1..=cores.min(pillars.into());
            processors.map(move |processors| Place { pillars, processors, signatures })
        };
        let pillars = |signatures| self.pillars.iter().flat_map(move |it| of(signatures, *it));
        self.signatures.iter().flat_map(|it| pillars(*it)).collect()
    }

    fn rows(&self, cores: usize, interrupt: &Interrupt) -> Outcome<Vec<Row>> {
        let places = self.places(cores);
        let cases = self.protocol.len() * self.batch.len();
        let progress = progress::bar(cases * places.len() * self.repeats);
        let mut rows: Vec<Row> = Vec::new();
        for protocol in &self.protocol {
            for batch in &self.batch {
                progress.set_message(format!("{protocol}, batches of {batch}"));
                let mut recordings: Vec<(u8, Blueprint, Recording)> = Vec::new();
                for pillars in &self.pillars {
                    let group = blueprint(protocol, *pillars, *batch)?;
                    let recording = self.record(&group, *batch);
                    recordings.push((*pillars, group, recording));
                }
                let mut samples = vec![Vec::new(); places.len()];
                // In turn, so that a machine that gets slower does so for all.
                for _ in 0..self.repeats {
                    for (place, samples) in places.iter().zip(&mut samples) {
                        interrupt.check()?;
                        let recorded = recordings.iter().find(|(it, ..)| *it == place.pillars);
                        let gone = || Failure::Internal("a recording is gone".to_owned());
                        let (_, group, recording) = recorded.ok_or_else(gone)?;
                        samples.push(self.measure(group, recording, *place)?);
                        progress.inc(1);
                    }
                }
                rows.extend(self.rows_of(protocol, *batch, &places, &samples)?);
            }
        }
        progress.finish_and_clear();
        Ok(rows)
    }

    fn rows_of(
        &self,
        protocol: &str,
        batch: Batches,
        places: &[Place],
        samples: &[Vec<Sample>],
    ) -> Outcome<Vec<Row>> {
        let row =
            |(place, samples): (&Place, &Vec<Sample>)| self.row(protocol, batch, *place, samples);
        let mut rows = places.iter().zip(samples).map(row).collect::<Outcome<Vec<Row>>>()?;
        let rates: Vec<f64> = rows.iter().map(|row| row.requests_per_second.median).collect();
        let rate = |wanted: Place| {
            let index = places.iter().position(|place| *place == wanted)?;
            Some(rates[index])
        };
        for (row, place) in rows.iter_mut().zip(places) {
            let mine = row.requests_per_second.median;
            let one = Place { pillars: 1, processors: 1, ..*place };
            row.times_one = rate(one).map(|one| mine / one);
            row.times_one_processor = rate(Place { processors: 1, ..*place }).map(|it| mine / it);
        }
        Ok(rows)
    }

    fn row(
        &self,
        protocol: &str,
        batch: Batches,
        place: Place,
        samples: &[Sample],
    ) -> Outcome<Row> {
        let none = || Failure::Internal("nothing was ordered".to_owned());
        let spread = |of: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(of));
        let each = |cpu: Duration, it: &Sample| cpu.as_secs_f64() * 1e6 / it.requests as f64;
        let of_pillar = |pillar: usize| spread(&|it| each(it.pillars[pillar], it)).ok_or_else(none);
        let all = |it: &Sample| it.pillars.iter().sum::<Duration>() + it.rest;
        let cells = samples.first().map_or(0, |it| it.pillars.len());
        Ok(Row {
            protocol: protocol.to_owned(),
            batch: batch.to_string(),
            signatures: place.signatures,
            replica: self.replica,
            pillars: place.pillars,
            processors: place.processors,
            requests_per_second: spread(&|it| it.requests as f64 / it.took.as_secs_f64())
                .ok_or_else(none)?,
            cpu_us: spread(&|it| each(all(it), it)).ok_or_else(none)?,
            pillar_cpu_us: (0..cells).map(of_pillar).collect::<Outcome<_>>()?,
            rest_cpu_us: spread(&|it| each(it.rest, it)).ok_or_else(none)?,
            times_one: None,
            times_one_processor: None,
        })
    }

    /// What the replica hears in a group in which nothing goes wrong.
    fn record(&self, group: &Blueprint, batch: Batches) -> Recording {
        let (clients, outstanding, requests) = match batch {
            Batches::Of(size) => ((64 * size).clamp(256, 2_048), 1, self.requests),
            // Each takes a hundredth of the time.
            Batches::Adaptive => (64, 64, 20 * self.requests),
        };
        let plan = Plan {
            cores: group.pillar_cores() + 1,
            clients,
            outstanding,
            bytes: 0,
            link: 2 * ROUND_NS,
            mail: MAIL_NS,
            per_frame: 0,
            warm_up: 0,
            counted: 0,
        };
        let requests = requests * usize::from(group.membership.lane.pillars);
        let believing = group.clone().with(Envelopes::Believed);
        record(&believing, plan, ROUND_NS, ReplicaId(self.replica), requests)
    }

    /// A fresh replica hears all that, on so many processors.
    fn measure(&self, group: &Blueprint, recording: &Recording, place: Place) -> Outcome<Sample> {
        let group = group.clone().with(place.signatures.envelopes());
        let start = Barrier::new(group.pillar_cores() + 1);
        let times = Mutex::new(Vec::new());
        let around = |thread: Thread, work: &mut dyn FnMut()| {
            let pinned = match thread {
                Thread::Pillar(number) => pin([number % place.processors]),
                Thread::Front => pin(0..place.processors),
            };
            start.wait();
            let (begun, cpu) = (Instant::now(), thread_time());
            work();
            let time = (thread, begun, Instant::now(), thread_time() - cpu);
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            times.push(pinned.map(|()| time));
        };
        let replica = group.replica(ReplicaId(self.replica));
        let requests = order(replica, recording, PATIENCE, &around)
            .map_err(|stalled| Failure::Internal(stalled.to_string()))?;
        if requests != recording.requests {
            let all = recording.requests;
            return Err(Failure::Internal(format!("{requests} of {all} requests were ordered")));
        }
        let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        let times: Vec<_> = times.into_iter().collect::<Outcome<_>>()?;
        let begun = times.iter().map(|(_, begun, ..)| *begun).min();
        let ended = times.iter().map(|(_, _, ended, _)| *ended).max();
        let cpu = |wanted: Thread| {
            let of = times.iter().find(|(thread, ..)| *thread == wanted);
            of.map(|(.., cpu)| *cpu).unwrap_or_default()
        };
        Ok(Sample {
            requests,
            took: begun.zip(ended).map(|(begun, ended)| ended - begun).unwrap_or_default(),
            pillars: (0..group.pillar_cores()).map(|number| cpu(Thread::Pillar(number))).collect(),
            rest: cpu(Thread::Front),
        })
    }
}

/// What one measurement found.
#[derive(Clone)]
struct Sample {
    requests: usize,
    took: Duration,
    /// Processor time of the thread of each pillar.
    pillars: Vec<Duration>,
    /// The same of the one with everything else.
    rest: Duration,
}

fn pin(processors: impl IntoIterator<Item = usize>) -> Outcome {
    let mut set = CpuSet::new();
    processors.into_iter().for_each(|processor| set.set(processor));
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Internal(format!("cannot pin a thread: {error}")))
}
