//! `bench model`: whole groups whose replicas have more processors than this machine, in virtual
//! time.

use super::{Batches, Form, Report, SPLIT, blueprint, parse_batches, parse_pillars, thread_time};
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Program};
use crate::report::table::{cell, number};
use crate::stats::Spread;
use clap::Args;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use pentarchy_console::progress;
use pentarchy_costs::model::{Plan, run as model};
use pentarchy_costs::parts::Blueprint;
use serde::Serialize;

fn after_help() -> String {
    format!(
        "Examples:\n  pentarchy bench model --pillars 1,2,4,8\n  \
         pentarchy bench model --protocol {} --batch 1 --frame-us 3 --json\n\n\
         The real parts of all replicas do the real work, one piece after the other; how long \
         each\npiece took here is how long its processor is busy in virtual time. Nothing is \
         sent.\ndocs/benchmarks.md says what that leaves out.",
        *SPLIT
    )
}

/// `bench model`.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct ModelArgs {
    /// The protocols
    #[arg(long, value_delimiter = ',', default_value = SPLIT.as_str(), value_name = "NAME,...")]
    pub protocol: Vec<String>,
    /// Pillars of each replica, which has as many processors
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_name = "N,...",
        value_parser = parse_pillars)]
    pub pillars: Vec<u8>,
    /// Requests in a batch: a number, or `adaptive` for what waits
    #[arg(long, value_delimiter = ',', default_value = "1,adaptive", value_name = "N,...",
        value_parser = parse_batches)]
    pub batch: Vec<Batches>,
    /// Clients of each pillar
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = at_least_one(1000))]
    pub clients: usize,
    /// Requests that each of them keeps outstanding
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = at_least_one(1024))]
    pub outstanding: usize,
    /// Bytes of each operation and of each result
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub payload: usize,
    /// How long a frame is under way, in microseconds
    #[arg(long, default_value_t = 50, value_name = "US")]
    pub link_us: u64,
    /// What each frame costs its sender and its receiver beside the work done here, in microseconds
    #[arg(long, default_value_t = 0.0, value_name = "US", value_parser = parse_frame)]
    pub frame_us: f64,
    /// Milliseconds of virtual time that are counted, after a quarter as many
    #[arg(long, default_value_t = 100, value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub millis: u64,
    /// Runs of each row
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    #[command(flatten)]
    pub form: Form,
}

/// One group.
#[derive(Serialize)]
struct Row {
    protocol: String,
    batch: String,
    /// As was asked for.
    link_us: u64,
    frame_us: f64,
    pillars: u8,
    requests_per_second: Spread,
    /// The busiest replica's processor time for a request, in microseconds.
    cpu_us: Spread,
    /// The share of the time in which its busiest pillar worked; none if it has no part for it.
    busiest_pillar: Option<Spread>,
    /// The share of the time in which all the rest of it did: clients, the merge and execution.
    rest: Spread,
    /// Requests in a second against those with one pillar.
    times_one: Option<f64>,
}

/// Runs the command.
pub fn run(args: &ModelArgs) -> Outcome {
    Program::this().warn_of_debug();
    let (machine, interrupt) = (Machine::here(), Interrupt::watch()?);
    let report = Report::new(machine, args.rows(&interrupt)?);
    let heads = [
        "protocol",
        "batch",
        "pillars",
        "requests/s",
        "times one",
        "µs of CPU",
        "busiest pillar, %",
        "the rest, %",
    ];
    report.print(&args.form, &heads, |row| {
        vec![
            row.protocol.clone(),
            row.batch.clone(),
            row.pillars.to_string(),
            cell(&row.requests_per_second, 1.0, 0),
            row.times_one.map_or_else(String::new, |times| number(times, 2)),
            number(row.cpu_us.median, 2),
            row.busiest_pillar
                .as_ref()
                .map_or_else(String::new, |share| number(share.median * 100.0, 0)),
            number(row.rest.median * 100.0, 0),
        ]
    })
}

/// What one run found: requests in a second, then as in [`Row`].
type Sample = [f64; 4];

/// What is measured, for one row.
struct Case<'a> {
    protocol: &'a str,
    batch: Batches,
    group: Blueprint,
}

impl Case<'_> {
    fn pillars(&self) -> u8 {
        self.group.membership.lane.pillars
    }
}

impl ModelArgs {
    fn cases(&self) -> Outcome<Vec<Case<'_>>> {
        let mut cases = Vec::new();
        for protocol in &self.protocol {
            for batch in &self.batch {
                for pillars in &self.pillars {
                    let group = blueprint(protocol, *pillars, *batch)?;
                    cases.push(Case { protocol, batch: *batch, group });
                }
            }
        }
        Ok(cases)
    }

    fn rows(&self, interrupt: &Interrupt) -> Outcome<Vec<Row>> {
        let cases = self.cases()?;
        let progress = progress::bar(cases.len() * self.repeats);
        let mut samples = vec![Vec::new(); cases.len()];
        // In turn, so that a machine that gets slower does so for all.
        for _ in 0..self.repeats {
            for (case, samples) in cases.iter().zip(&mut samples) {
                let Case { protocol, batch, .. } = case;
                let pillars = case.pillars();
                progress.set_message(format!("{protocol}, {pillars} pillars, batch {batch}"));
                interrupt.check()?;
                samples.push(self.sample(&case.group, *batch)?);
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        let rows = cases.iter().zip(&samples).map(|(case, samples)| self.row(case, samples));
        let mut rows = rows.collect::<Outcome<Vec<Row>>>()?;
        let with_one: Vec<_> = rows.iter().filter(|row| row.pillars == 1).collect();
        let of_one = |row: &Row| {
            let one = with_one
                .iter()
                .find(|one| one.protocol == row.protocol && one.batch == row.batch)?;
            Some(row.requests_per_second.median / one.requests_per_second.median)
        };
        let times: Vec<_> = rows.iter().map(of_one).collect();
        rows.iter_mut().zip(times).for_each(|(row, times)| row.times_one = times);
        Ok(rows)
    }

    fn row(&self, case: &Case<'_>, samples: &[Sample]) -> Outcome<Row> {
        let of = |index: usize| {
            let none = || Failure::Internal("nothing was ordered".to_owned());
            Spread::of(samples.iter().map(|it| it[index])).ok_or_else(none)
        };
        Ok(Row {
            protocol: case.protocol.to_owned(),
            batch: case.batch.to_string(),
            link_us: self.link_us,
            frame_us: self.frame_us,
            pillars: case.pillars(),
            requests_per_second: of(0)?,
            cpu_us: of(1)?,
            busiest_pillar: (case.pillars() > 1).then(|| of(2)).transpose()?,
            rest: of(3)?,
            times_one: None,
        })
    }

    fn sample(&self, group: &Blueprint, batch: Batches) -> Outcome<Sample> {
        let plan = Plan {
            cores: group.membership.lane.pillars.into(),
            clients: self.clients,
            outstanding: if batch == Batches::Adaptive { self.outstanding } else { 1 },
            bytes: self.payload,
            link: self.link_us * 1_000,
            mail: 0,
            per_frame: (self.frame_us * 1e3) as u64,
            warm_up: self.millis * 250_000,
            counted: self.millis * 1_000_000,
        };
        // Of this thread, so that nothing else on this machine counts as its work.
        let outcome = model(group, plan, &|| thread_time().as_nanos() as u64);
        if outcome.completed == 0 {
            let millis = self.millis;
            return Err(Failure::Usage(format!(
                "no request was completed in {millis} ms of virtual time: count more with --millis"
            )));
        }
        let seconds = plan.counted as f64 / 1e9;
        let share = |busy: u64| busy as f64 / plan.counted as f64;
        let busy = outcome.pillars.iter().sum::<u64>() + outcome.rest;
        Ok([
            outcome.completed as f64 / seconds,
            busy as f64 / 1e3 / outcome.completed as f64,
            share(outcome.pillars.iter().max().copied().unwrap_or_default()),
            share(outcome.rest),
        ])
    }
}

fn parse_frame(text: &str) -> Result<f64, String> {
    let frame = text.parse().ok().filter(|frame| (0.0..=1_000.0).contains(frame));
    frame.ok_or_else(|| format!("{text:?} is not a time from 0 to 1000 microseconds"))
}
