//! `sim replay`: one run, told and drawn.

use super::args::ReplayArgs;
use super::explain::{self, Picture};
use super::{factories, in_pillars, schedule};
use crate::cli::variant;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_protocols::Descriptor;
use pentarchy_sim::replay::chart::ChartOptions;
use pentarchy_sim::replay::{Recording, Subject, Told, Wanted, record};
use pentarchy_sim::shrink::Case;
use pentarchy_sim::swarm::Options;
use serde_json::{Value, json};

/// Lines that are printed unless told otherwise.
const LINES: usize = 200;

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Outcome {
    let entry = in_pillars(&args.protocol, &args.worlds)?;
    variant::choose(args.variant.as_deref())?;
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
        let (name, least) = (entry.rules.name, entry.rules.replicas(options.f));
        if options.n < least {
            let f = options.f;
            return Err(Failure::Usage(format!("{name} needs n={least} or more for f={f}")));
        }
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
