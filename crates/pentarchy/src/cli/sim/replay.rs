//! `sim replay`: one run, told and drawn.

use super::args::WorldArgs;
use super::explain::{self, Picture};
use super::{factories, in_pillars, schedule};
use crate::cli::args::parse_seed;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::{explore, say};
use clap::Args;
use pentarchy_protocols::{DEFAULT, Descriptor};
use pentarchy_sim::replay::chart::ChartOptions;
use pentarchy_sim::replay::{Recording, Subject, Told, Until, Wanted, record};
use pentarchy_sim::shrink::Case;
use pentarchy_sim::swarm::Options;
use pentarchy_sim::twins::ROUNDS_MAX;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Lines that are printed unless told otherwise.
const LINES: usize = 200;

/// `sim replay`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    pentarchy sim replay 0x2a\n  \
    pentarchy sim replay 0x2a --svg 0x2a.svg --only r0,r2\n  \
    pentarchy sim replay 0x2a --all --until s12 | less\n  \
    pentarchy sim replay 7 --with 'n=3 f=1 clients=2 at=1000:crash(primary)'\n\n\
    Give the options with which the seed failed. Exit code 1 if it fails again.")]
pub struct ReplayArgs {
    /// The seed, decimal or 0x...
    #[arg(value_parser = parse_seed)]
    pub seed: u64,
    /// The protocol to run
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// The whole world instead of what the seed draws, as a failure prints it: docs/testing.md
    #[arg(long, value_name = "OPTIONS",
        conflicts_with_all = ["f", "requests", "pillars", "rotate_leader", "hostile_only", "twins",
            "device"])]
    pub with: Option<Options>,
    #[command(flatten)]
    pub worlds: WorldArgs,
    /// SEED is the number of a schedule of this many rounds
    #[arg(long, value_name = "ROUNDS", conflicts_with_all = ["f", "requests", "hostile_only"],
        value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX as i64))]
    pub twins: Option<u32>,
    /// End here: milliseconds (1204.5), a slot (s12) or an event (#3400)
    #[arg(long, value_name = "WHERE", value_parser = str::parse::<Until>)]
    pub until: Option<Until>,
    /// Only what these do or are sent, such as r2,c1
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Everything from the beginning, not only the last 200 lines
    #[arg(long)]
    pub all: bool,
    /// Draw the end as a message-sequence chart
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Things that the chart shows: the last so many
    #[arg(long, default_value_t = 60, value_name = "N", requires = "svg",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rows: u32,
    /// Draw heartbeats, checkpoints and state transfers too
    #[arg(long, requires = "svg")]
    pub chatter: bool,
    /// With this seeded bug, in builds with the feature `mutants`
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Outcome {
    let entry = in_pillars(&args.protocol, &args.worlds)?;
    explore::choose(args.variant.as_deref())?;
    let (factories, subject) = (factories(entry), subject(args, entry)?);
    let options = subject.options(&factories.rules);
    check_names(args, &options)?;
    let wanted = Wanted {
        lines: if args.all { usize::MAX } else { LINES },
        until: args.until,
        only: args.only.clone(),
        everything: args.all,
    };
    let recording = record(&subject, &factories, &wanted);
    if let Some(file) = &args.svg {
        let chart = ChartOptions { rows: args.rows as usize, chatter: args.chatter };
        let only = args.only.clone();
        Picture { file, chart, until: args.until, only }.draw(&subject, &factories)?;
    }
    if args.json {
        say(&to_json(args, &recording).to_string());
    } else {
        say(&recording.to_string());
        if let Some(file) = &args.svg {
            say(&format!("picture: {}", file.display()));
        }
    }
    if recording.outcome.is_err() { Err(Failure::NotWell) } else { Ok(()) }
}

fn subject(args: &ReplayArgs, entry: &Descriptor) -> Outcome<Subject> {
    let seed = args.seed;
    if let Some(options) = &args.with {
        return Ok(Subject::Given(Box::new(Case { seed, options: options.clone() })));
    }
    let config = args.worlds.config(entry);
    match args.twins {
        Some(rounds) => schedule(entry, rounds, seed, &config),
        None => Ok(Subject::Drawn(seed, Box::new(config))),
    }
}

fn check_names(args: &ReplayArgs, options: &Options) -> Outcome {
    let places = (0..).zip(options.places()).map(|(place, id)| explain::place_name(place, id));
    let clients = (0..options.clients + options.hostile.len()).map(|index| format!("c{index}"));
    let known: Vec<String> = places.chain(clients).collect();
    match args.only.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let known = known.join(", ");
            Err(Failure::Usage(format!("--only {name}: in this run there are {known}")))
        }
    }
}

fn to_json(args: &ReplayArgs, recording: &Recording) -> Value {
    let line = |line: &pentarchy_sim::replay::Line| {
        let arrows = match &line.told {
            Told::Sends(_, arrows) => arrows.as_slice(),
            _ => &[],
        };
        let to = arrows.iter().map(|arrow| {
            let arrivals: Vec<u64> = arrow.arrivals.into_iter().flatten().collect();
            json!({ "to": arrow.to.to_string(), "arrives_us": arrivals })
        });
        let text = match &line.told {
            Told::Sends(text, _) => text.clone(),
            told => told.to_string(),
        };
        json!({
            "event": line.number,
            "at_us": line.at,
            "who": line.place.to_string(),
            "sends": to.collect::<Vec<_>>(),
            "text": text,
        })
    };
    let (violation, audit) = match &recording.outcome {
        Ok(summary) => (Value::Null, summary.audit),
        Err(it) => {
            let (property, detail) = (it.broken.property, &it.broken.detail);
            (json!({ "property": property, "detail": detail, "at_us": it.at }), it.audit)
        }
    };
    json!({
        "protocol": args.protocol,
        "variant": args.variant,
        "seed": format!("{:#x}", recording.seed),
        "options": recording.options.to_string(),
        "events": recording.events,
        "lines_before": recording.before,
        "lines": recording.lines.iter().map(line).collect::<Vec<_>>(),
        "violation": violation,
        "audit": audit.to_string(),
    })
}
