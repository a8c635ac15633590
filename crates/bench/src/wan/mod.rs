//! `bench wan`: latency over links that take long, in virtual time. The simulator runs the real
//! cores, executors and clients of each protocol in a world without faults; nothing but links takes
//! time. So figures are the same on every machine, and equal seeds give equal figures.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`figure`] | tables, JSON and the plot |

mod figure;

use super::case::System;
use super::conditions::unsplit;
use super::files::{check_writable, json, write_file};
use super::interrupt::Interrupt;
use clap::Args;
use figure::{Figure, Line, Point};
use pentarchy_cluster::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use pentarchy_console::progress;
use pentarchy_console::say;
use pentarchy_console::worlds::factories;
use pentarchy_protocols::{BASELINE, DEFAULT, EXAMPLES, Examples};
use pentarchy_sim::wide::Wide;
use std::path::PathBuf;

/// Links that take longer are none that a group would be put on.
const LINK_MS_MAX: f64 = 1000.0;

fn after_help() -> String {
    let Examples { signed, speculative, .. } = EXAMPLES;
    let [first, signed, speculative] =
        [DEFAULT, signed, speculative].map(|protocol| protocol.rules.name);
    format!(
        "Examples:\n  pentarchy bench wan --svg wan.svg\n  \
         pentarchy bench wan --protocol {first},{signed},{speculative} --f 2 --links 10,50 \
         --json\n\n\
         Draws figure 5 of `Efficient Byzantine fault tolerance` (Veronese et al.) anew. Replicas \
         and\nclients compute in no time here, so this says what links cost and nothing else; the \
         same seed\ngives the same figures everywhere. docs/benchmarks.md says more."
    )
}

/// `bench wan`.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct WanArgs {
    /// The protocols [default: all on which a service may run]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub protocol: Vec<String>,
    /// Faulty replicas to tolerate
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub f: usize,
    /// How long a message takes on average, in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,10,20,30,40,50",
        value_name = "MS,...", value_parser = parse_link)]
    pub links: Vec<f64>,
    /// The standard deviation of that, in percent of it
    #[arg(long, default_value_t = 10, value_name = "PERCENT",
        value_parser = clap::value_parser!(u64).range(0..=30))]
    pub deviation: u64,
    /// Requests of one client, one after the other
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = at_least_one(100_000))]
    pub requests: usize,
    /// Decides how long each message takes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print tables for a document in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Also draw latency against the time of a link to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &WanArgs) -> Outcome {
    let systems = args.systems()?;
    check_writable([args.svg.as_deref()])?;
    let interrupt = Interrupt::watch()?;
    let figure = args.figure(&systems, &interrupt)?;
    write_file(args.svg.as_deref(), || figure.svg())?;
    if args.json {
        say(&json(&figure)?);
    } else if args.markdown {
        say(&figure.markdown());
    } else {
        say(&figure.text());
    }
    Ok(())
}

impl WanArgs {
    fn systems(&self) -> Outcome<Vec<System>> {
        let all = || protocols::names().map(str::to_owned).collect();
        let names = if self.protocol.is_empty() { all() } else { self.protocol.clone() };
        let mut systems: Vec<System> = Vec::new();
        for name in names {
            if name == BASELINE.rules.name {
                let what = format!("the {name} server cannot be simulated: it takes two links");
                return Err(Failure::Usage(what));
            }
            let system = unsplit(&name, self.f)?;
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
        Ok(systems)
    }

    fn figure(&self, systems: &[System], interrupt: &Interrupt) -> Outcome<Figure> {
        let progress = progress::bar(systems.len() * self.links.len());
        let mut lines = Vec::new();
        for system in systems {
            let entry = protocols::find(&system.protocol).ok_or_else(|| {
                Failure::Internal(format!("protocol {} is gone", system.protocol))
            })?;
            // Nobody judges a primary by requests that it did not see: on slow links the first ones
            // would be replaced until all are known to be slow.
            let (factories, mut points) = (factories(entry, |_| None), Vec::new());
            for link_ms in &self.links {
                interrupt.check()?;
                progress.set_message(format!("{system}, links of {link_ms} ms"));
                let wide = self.wide(system.f, *link_ms);
                let took = wide.latencies(self.seed, &factories).map_err(|violation| {
                    Failure::Unwell(format!("{system}, links of {link_ms} ms: {violation}"))
                })?;
                points.push(Point::new(*link_ms, took));
                progress.inc(1);
            }
            let System { protocol, n, .. } = system.clone();
            lines.push(Line { protocol, n, points });
        }
        progress.finish_and_clear();
        let Self { f, deviation, requests, seed, .. } = *self;
        Ok(Figure::new(f, deviation, requests, seed, lines))
    }

    fn wide(&self, f: usize, link_ms: f64) -> Wide {
        let link_us = (link_ms * 1e3).round() as u64;
        let deviation_us = link_us * self.deviation / 100;
        Wide { f, link_us, deviation_us, requests: self.requests as u64 }
    }
}

fn parse_link(text: &str) -> Result<f64, String> {
    let link = text.parse().ok().filter(|link| (0.01..=LINK_MS_MAX).contains(link));
    link.ok_or_else(|| format!("{text:?} is not a time from 0.01 to {LINK_MS_MAX} milliseconds"))
}

#[cfg(test)]
mod tests;
