//! `sim mutants`: how soon random runs find each seeded bug.

use super::args::{MutantsArgs, Share};
use super::{factories, interrupted, jobs, protocol};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::{complain, say, table};
use pentarchy_core::mutant::{Finder, MUTANTS, Mutant};
use pentarchy_protocols::{Descriptor, PROTOCOLS, of_mutant};
use pentarchy_sim::mutants::{BreakingWorld, Hunt, Hunted, Known, hunt, swarm_mutants};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Runs the command.
pub fn run(args: &MutantsArgs) -> Outcome {
    let chosen = chosen(args.only.as_deref(), args.share)?;
    let interrupted = interrupted()?;
    let known = args.known.as_deref().map(known).transpose()?;
    let plan = Hunt {
        starts: args.starts,
        seeds_max: args.seeds_max,
        lasts_max: args.seconds.map_or(Duration::MAX, Duration::from_secs),
        requests: args.requests,
        jobs: jobs(args.jobs),
        known: known.as_ref(),
        guided: args.guided,
    };
    let everywhere = args.protocol.as_deref().map(protocol).transpose()?;
    let home = |bug: &Mutant| everywhere.unwrap_or_else(|| of_mutant(bug.name));
    let begun = Instant::now();
    let watched = !args.json && std::io::stderr().is_terminal();
    let mut hunted = Vec::new();
    for entry in PROTOCOLS.iter().copied() {
        let is_its_own = |it: &&Mutant| home(it).rules.name == entry.rules.name;
        let its_own: Vec<_> = chosen.iter().copied().filter(is_its_own).collect();
        hunted.extend(hunt(&its_own, &plan, &factories(entry), |hunted| {
            if watched {
                complain(&format!("{} {}", hunted.mutant.name, verdict(hunted)));
            }
            !interrupted.load(Ordering::Relaxed)
        }));
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Unwell("interrupted before all hunts had ended".to_owned()));
    }
    if let Some(path) = args.known.as_deref().filter(|_| args.note) {
        std::fs::write(path, Known::of(&hunted).to_text())
            .map_err(|error| unusable(path, &error))?;
    }
    let named = args.only.is_some() || args.share.is_some();
    let report = Report::new(&plan, &hunted, &home, named, begun.elapsed().as_secs_f64());
    say(&if args.json { report.to_json() } else { report.to_text() });
    if report.missed.is_empty() && report.broken.is_empty() {
        Ok(())
    } else {
        Err(Failure::NotWell)
    }
}

/// Reads in which worlds bugs were found. A file that is not there yet names none.
fn known(path: &Path) -> Outcome<Known> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| unusable(path, &error))?,
    };
    Known::from_text(&text).map_err(|line| unusable(path, &format!("it has the line {line:?}")))
}

fn unusable(path: &Path, why: &dyn Display) -> Failure {
    Failure::Usage(format!("{}: {why}", path.display()))
}

fn chosen(only: Option<&str>, share: Option<Share>) -> Outcome<Vec<&'static Mutant>> {
    // By its name, one can be hunted that worlds are not claimed to find.
    let known = || MUTANTS.iter().filter(|it| it.is_real());
    let chosen: Vec<_> = match only {
        None => {
            let all = swarm_mutants().enumerate();
            let shared = all.filter(|(index, _)| share.is_none_or(|share| share.has(*index)));
            shared.map(|(_, mutant)| mutant).collect()
        }
        Some(name) => known().filter(|it| it.name == name).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = known().map(|it| it.name).collect();
        return Err(Failure::Usage(format!("no such bug; there are: {}", names.join(", "))));
    }
    Ok(chosen)
}

fn verdict(hunted: &Hunted) -> String {
    let (worlds, reached) = hunted.reached();
    if hunted.is_caught() {
        hunted.properties().join(", ")
    } else {
        format!("NOT CAUGHT, reached in {reached} of {worlds} worlds")
    }
}

/// What a world breaks, and what it is if its seed does not say that.
fn told(shown: &BreakingWorld) -> String {
    let options = shown.options.as_ref().map(|world| format!(" (--with '{world}')"));
    format!("{}{}", shown.property, options.unwrap_or_default())
}

/// What all hunts came to.
#[derive(Serialize)]
struct Report<'a> {
    starts: u64,
    seeds_max: u64,
    requests: u64,
    seconds: f64,
    /// Those that are in the code; with `--only` or `--share`, those that were asked for.
    known: usize,
    /// Those that a hunt found.
    caught: usize,
    mutants: Vec<Line<'a>>,
    /// Those that no hunt found.
    missed: Vec<&'a str>,
    /// Seeds that break a property without any bug, and which.
    broken: BTreeMap<u64, String>,
    /// Not hunted: of these nothing is claimed.
    unclaimed: Vec<&'a str>,
    /// Not hunted: `explore` finds them.
    explored: Vec<&'a str>,
    /// Not hunted: tests that were written for them find them.
    scheduled: Vec<&'a str>,
    specified: Vec<&'a str>,
    /// Not hunted: a model test of their module finds them.
    modelled: Vec<&'a str>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    /// In which it was looked for.
    protocol: &'a str,
    about: &'a str,
    caught: bool,
    /// Hunts that found it.
    catches: usize,
    /// The properties that showed it, most often first.
    properties: Vec<&'a str>,
    median_seeds: u64,
    /// Of each hunt.
    seeds: Vec<u64>,
    /// Worlds of all hunts.
    worlds: u64,
    /// Those of them in which somebody came to the code of the mutant.
    reached: u64,
    seconds: f64,
}

impl<'a> Report<'a> {
    fn new(
        plan: &Hunt,
        hunted: &'a [Hunted],
        home: &dyn Fn(&Mutant) -> &'static Descriptor,
        named: bool,
        seconds: f64,
    ) -> Self {
        let line = |it: &'a Hunted| Line {
            name: it.mutant.name,
            protocol: home(&it.mutant).rules.name,
            about: it.mutant.about,
            caught: it.is_caught(),
            catches: it.catches(),
            properties: it.properties(),
            median_seeds: it.median_seeds(),
            seeds: it.trails.iter().map(|trail| trail.seeds).collect(),
            worlds: it.reached().0,
            reached: it.reached().1,
            seconds: it.took().as_secs_f64(),
        };
        let missed: Vec<_> =
            hunted.iter().filter(|it| !it.is_caught()).map(|it| it.mutant.name).collect();
        let broken = hunted.iter().flat_map(|it| &it.trails).flat_map(|trail| &trail.broken);
        let by = |finder| {
            let all = MUTANTS.iter().filter(move |it| it.is_real() && it.finder == finder);
            if named { Vec::new() } else { all.map(|it| it.name).collect() }
        };
        let (unclaimed, explored, scheduled) =
            (by(Finder::Nobody), by(Finder::Explorer), by(Finder::Schedule));
        let (specified, modelled) = (by(Finder::Specification), by(Finder::Model));
        Self {
            starts: plan.starts,
            seeds_max: plan.seeds_max,
            requests: plan.requests,
            seconds,
            known: hunted.len()
                + unclaimed.len()
                + explored.len()
                + scheduled.len()
                + specified.len()
                + modelled.len(),
            caught: hunted.len() - missed.len(),
            mutants: hunted.iter().map(line).collect(),
            missed,
            broken: broken.map(|shown| (shown.seed, told(shown))).collect(),
            unclaimed,
            explored,
            scheduled,
            specified,
            modelled,
        }
    }

    fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    fn to_text(&self) -> String {
        let mut table = table::new(&[
            "mutant",
            "caught by",
            "hunts",
            "seeds",
            "reached",
            "time",
            "what it breaks",
        ]);
        for line in &self.mutants {
            let by = if line.caught { line.properties.join(", ") } else { "NOT CAUGHT".into() };
            let time = format!("{:.2} s", line.seconds);
            let (hunts, seeds) = (line.catches.to_string(), line.median_seeds.to_string());
            let reached = format!("{} of {}", line.reached, line.worlds);
            table.add_row([line.name, &by, &hunts, &seeds, &reached, &time, line.about]);
        }
        let broken = self.broken.iter().map(|(seed, property)| {
            format!("SEED {seed:#x} BREAKS {property} WITHOUT ANY OF THESE BUGS\n")
        });
        format!(
            "{}\n{}{} of {} caught in {:.0} s; seeds are the median of {} hunts, reached says in \
             how many worlds of all hunts a replica or client came to the code of the mutant, time \
             is that of all of them.{}",
            table::text(&table),
            broken.collect::<String>(),
            self.caught,
            self.known,
            self.seconds,
            self.starts,
            self.not_hunted()
        )
    }

    /// Those that random worlds do not look for, by name and with the reason.
    fn not_hunted(&self) -> String {
        let groups = [
            ("nothing is claimed of what finds these", &self.unclaimed),
            ("`explore` finds these", &self.explored),
            ("tests written for them find these", &self.scheduled),
            ("`cargo xtask spec --runs` finds these", &self.specified),
            ("model tests of their modules find these", &self.modelled),
        ];
        let count = self.known - self.mutants.len();
        let named = groups
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(why, names)| format!("\n  {why} ({}): {}", names.len(), names.join(", ")));
        let named: String = named.collect();
        if count == 0 {
            return named;
        }
        format!("\n{count} are not hunted by random worlds:{named}")
    }
}
