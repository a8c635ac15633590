//! A failure explained: made smaller, drawn, and with the line that shows it again.

use super::args::SimArgs;
use super::{factories, program, replay_line, schedule};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_core::ids::ReplicaId;
use pentarchy_protocols::Descriptor;
use pentarchy_sim::replay::chart::{ChartOptions, draw};
use pentarchy_sim::replay::{Subject, Until, Wanted, record};
use pentarchy_sim::run::{Factories, Violation};
use pentarchy_sim::shrink::{Case, Shrunk, shrink};
use pentarchy_sim::swarm::{Options, SimConfig};
use pentarchy_sim::world::log::Place;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a smaller world is looked for.
const SHRINKING: Duration = Duration::from_secs(20);

/// Lines among which the rows of a picture are found.
const LINES: usize = 20_000;

/// Whether one violation will be easier to look at than another: in a smaller group, and earlier.
pub fn is_plainer(one: &Violation, other: &Violation) -> bool {
    let effort = |violation: &Violation| {
        let options = violation.world.parse::<Options>();
        (options.map_or(usize::MAX, |options| options.n), violation.at, violation.seed)
    };
    effort(one) < effort(other)
}

/// The name of a place, as traces have it.
pub fn place_name(place: u16, id: ReplicaId) -> String {
    Place::Replica(place, id).to_string()
}

/// A picture to be made.
pub struct Picture<'a> {
    /// Where to.
    pub file: &'a Path,
    /// Of what.
    pub chart: ChartOptions,
    /// Where it ends.
    pub until: Option<Until>,
    /// Of whom.
    pub only: Vec<String>,
}

impl Picture<'_> {
    /// Runs a world again and draws its end.
    pub fn draw(self, subject: &Subject, factories: &Factories<'_>) -> Outcome {
        let Self { file, chart, until, only } = self;
        let recording =
            record(subject, factories, &Wanted { lines: LINES, until, only, everything: false });
        std::fs::write(file, draw(&recording, chart)).map_err(|error| {
            Failure::Usage(format!("cannot write the picture {}: {error}", file.display()))
        })
    }
}

/// Says what broke in the smallest world that shows it, draws it, and says how to see it again.
pub fn explain(
    args: &SimArgs,
    entry: &'static Descriptor,
    config: &SimConfig,
    violation: &Violation,
    interrupted: &AtomicBool,
) -> Outcome {
    let factories = factories(entry);
    let subject = match args.twins {
        Some(rounds) => schedule(entry, rounds, violation.seed, config)?,
        None if violation.is_varied => given(violation)?,
        None => Subject::Drawn(violation.seed, Box::new(config.clone())),
    };
    let options = subject.options(&factories.rules);
    let started = Instant::now();
    let goes_on = |_| started.elapsed() < SHRINKING && !interrupted.load(Ordering::Relaxed);
    let case = Case { seed: violation.seed, options };
    let before = work(&case);
    let shrunk = if args.no_shrink {
        None
    } else {
        shrink(case, violation.broken.property, &factories, goes_on)
    };
    let (smallest, replay) = match &shrunk {
        Some(shrunk) => {
            say(&told(shrunk, &before, started.elapsed()));
            (Subject::Given(Box::new(shrunk.case.clone())), shrunk_line(args, entry, shrunk))
        }
        None => (subject, replay_line(args, entry, violation)),
    };
    let default = || PathBuf::from(format!("pentarchy-sim-{:#x}.svg", violation.seed));
    let file = args.picture.clone().unwrap_or_else(default);
    let (chart, until, only) = (ChartOptions::default(), None, Vec::new());
    Picture { file: &file, chart, until, only }.draw(&smallest, &factories)?;
    say(&format!("  picture: {}\n  replay:  {replay}", file.display()));
    Ok(())
}

/// A world that no seed draws.
fn given(violation: &Violation) -> Outcome<Subject> {
    let options = violation.world.parse::<Options>();
    let options =
        options.map_err(|why| Failure::Internal(format!("a world is no world: {why}")))?;
    Ok(Subject::Given(Box::new(Case { seed: violation.seed, options })))
}

fn work(case: &Case) -> String {
    let options = &case.options;
    let requests = options.requests_each * options.clients as u64;
    let faults = options.byzantine.len() + options.hostile.len() + options.disturbances.len();
    let (n, clients) = (options.n, options.clients);
    format!("{n} replicas, {clients} clients, {requests} requests, {faults} faults")
}

fn told(shrunk: &Shrunk, before: &str, took: Duration) -> String {
    let Shrunk { case, violation, runs } = shrunk;
    format!(
        "\nSMALLER: breaks {}\n  after {:.1} simulated ms, with {}\n  \
         (from {before}; {runs} runs in {:.1} s)",
        violation.broken,
        violation.at as f64 / 1_000.0,
        work(case),
        took.as_secs_f64(),
    )
}

fn shrunk_line(args: &SimArgs, entry: &Descriptor, shrunk: &Shrunk) -> String {
    let Case { seed, options } = &shrunk.case;
    given_line(args, entry, (*seed, &options.to_string()))
}

/// What to paste in order to see a world again that no seed draws.
pub fn given_line(args: &SimArgs, entry: &Descriptor, (seed, options): (u64, &str)) -> String {
    let variant = args.variant.as_ref().map(|name| format!(" --variant {name}"));
    let (protocol, variant) = (entry.rules.name, variant.unwrap_or_default());
    let world = format!("--protocol {protocol}{variant} --with '{options}'");
    format!("{} sim replay {seed:#x} {world}", program())
}
