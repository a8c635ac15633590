//! Bugs and attacks that others have published. Each is a scenario that is run twice: with a
//! variant that has the flaw and must break, and with the protocol as it is, which must not.

use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::explorer::{Explored, Plan, explore};
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, run_options};
use crate::swarm::{Options, SimConfig};
use crate::twins::{group, schedules};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use std::time::{Duration, Instant};

mod exhibits;

pub use exhibits::EXHIBITS;

/// Seeds of the worlds of an exhibit. They are the museum's own.
const FIRST_SEED: u64 = 1 << 40;

/// A bug or an attack.
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// Its name on the command line.
    pub name: &'static str,
    /// Who published it.
    pub source: &'static str,
    /// What happens.
    pub about: &'static str,
    /// The protocol that is here, which it must not break.
    pub protocol: &'static str,
    /// The variant with the flaw.
    pub flaw: Flaw,
    /// In what it shows.
    pub scene: Scene,
    /// Properties that the flaw breaks; any of them will do.
    pub breaks: &'static [&'static str],
}

/// How the variant differs from what is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A seeded bug.
    Mutant(&'static str),
    /// Other rules, as they were printed: the protocol of this name, which is here to be shown.
    Printed(&'static str),
    /// Trusted devices of faulty replicas that do not keep their contract.
    Device(DeviceFault),
    /// Clients authenticate by MACs, one for each replica, and liveness is promised nevertheless.
    Macs,
    /// None: this is a weakness of the protocol as it is, and is shown as such.
    Known,
}

/// In what worlds.
#[derive(Clone, Copy, Debug)]
pub enum Scene {
    /// Random ones, of which `shape` arranges what the attack needs.
    Swarm {
        /// How many.
        seeds: u64,
        /// What the attack needs.
        shape: fn(&mut Options),
    },
    /// Every schedule of partitions of so many rounds around a replica that exists twice.
    Twins {
        /// Rounds.
        rounds: u32,
    },
    /// Every order of events in a small group.
    Explorer {
        /// The replica that lies.
        liar: Option<u16>,
        /// Kinds of lies that it tells.
        alphabet: &'static [&'static str],
        /// Timeouts of each correct replica.
        timeouts: u8,
        /// The name of the start, if it is not the beginning.
        start: Option<&'static str>,
        /// States after which nothing is thought to be found any more.
        states: usize,
    },
}

/// A protocol that is put to the test, and the starts that explorations know by name.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// For random worlds.
    pub factories: Factories<'a>,
    /// For explorations.
    pub explored: Explored<'a>,
    /// Names and steps.
    pub starts: &'a [(&'static str, &'static str)],
}

/// What came of an exhibit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The property that the variant broke, with the details, if it broke one.
    pub flawed: Option<(&'static str, String)>,
    /// The same for the protocol as it is here.
    pub ours: Option<(&'static str, String)>,
    /// Worlds or states that the variant took to break.
    pub tries: u64,
    /// Worlds or states in which ours did not.
    pub survived: u64,
    /// Of a known weakness: the mean time of a request in milliseconds, without the attack and
    /// under it.
    pub slowed: Option<(u64, u64)>,
    /// How long all took.
    pub took: Duration,
}

impl Shown {
    /// Whether the variant broke as it should, and ours did not.
    #[must_use]
    pub fn is_as_expected(&self, exhibit: &Exhibit) -> bool {
        let broke = self.flawed.as_ref().is_some_and(|(what, _)| exhibit.breaks.contains(what));
        self.ours.is_none() && (broke || exhibit.flaw == Flaw::Known)
    }
}

/// What one run found, and after how many worlds or states.
type Found = (Option<(&'static str, String)>, u64);

/// Runs an exhibit with the flaw and without it. `find` knows protocols by name; `scale` divides
/// how long ours is looked at.
///
/// # Errors
/// If the exhibit needs a protocol that `find` does not know, or a start that it does not have.
pub fn show<'a>(
    exhibit: &Exhibit,
    find: &dyn Fn(&str) -> Option<Subject<'a>>,
    scale: u64,
) -> Result<Shown, String> {
    let begun = Instant::now();
    let scale = scale.max(1);
    let (name, device, macs) = match exhibit.flaw {
        Flaw::Mutant(name) => (Some(name), DeviceFault::None, false),
        Flaw::Device(fault) => (None, fault, false),
        Flaw::Macs => (None, DeviceFault::None, true),
        Flaw::Printed(_) | Flaw::Known => (None, DeviceFault::None, false),
    };
    let named = |name: &str| find(name).ok_or_else(|| format!("no protocol {name}"));
    let subject = &named(exhibit.protocol)?;
    let variant = &match exhibit.flaw {
        Flaw::Printed(rules) => named(rules)?,
        _ => *subject,
    };
    let honest = DeviceFault::None;
    let (flawed, ours, slowed) = match exhibit.scene {
        Scene::Swarm { seeds, shape } if exhibit.flaw == Flaw::Known => {
            let (ours, slowed) = weigh(seeds / scale, shape, subject);
            ((None, 0), ours, Some(slowed))
        }
        Scene::Swarm { seeds, shape } => {
            let with_flaw = |options: &mut Options| {
                shape(options);
                options.device = device;
                options.watch_devices = device == DeviceFault::None;
                if macs {
                    options.means = Means::Macs;
                }
            };
            let flawed = mutant::with(name, || swarm(seeds, &with_flaw, variant));
            let seeds = (seeds / scale).max(1);
            (flawed, mutant::with(None, || swarm(seeds, &shape, subject)), None)
        }
        Scene::Twins { rounds } => {
            let flawed = mutant::with(name, || twins(rounds, device, 1, variant));
            (flawed, mutant::with(None, || twins(rounds, honest, scale, subject)), None)
        }
        Scene::Explorer { .. } => {
            let flawed = mutant::with(name, || search(&exhibit.scene, 1, variant))?;
            (flawed, mutant::with(None, || search(&exhibit.scene, scale, subject))?, None)
        }
    };
    let ((flawed, tries), (ours, survived)) = (flawed, ours);
    Ok(Shown { flawed, ours, tries, survived, slowed, took: begun.elapsed() })
}

fn world(seed: u64, shape: &dyn Fn(&mut Options), subject: &Subject<'_>) -> Outcome {
    let config = SimConfig { requests: 200, f: Some(1), ..SimConfig::default() };
    let mut rng = Rng::new(seed);
    let mut options = Options::draw(&mut rng, &config, &subject.factories.rules);
    shape(&mut options);
    run_options(seed, options, &subject.factories, rng, None)
}

type Outcome = Result<Summary, Violation>;

fn told(violation: Violation) -> (&'static str, String) {
    (violation.broken.property, violation.to_string())
}

fn swarm(seeds: u64, shape: &dyn Fn(&mut Options), subject: &Subject<'_>) -> Found {
    for tried in 0..seeds {
        if let Err(violation) = world(FIRST_SEED + tried, shape, subject) {
            return (Some(told(violation)), tried + 1);
        }
    }
    (None, seeds)
}

/// Runs the same worlds without faults and as they are, and says how long requests take in each.
fn weigh(seeds: u64, shape: fn(&mut Options), subject: &Subject<'_>) -> (Found, (u64, u64)) {
    let calm = |options: &mut Options| {
        shape(options);
        options.byzantine.clear();
    };
    let mut sums = [0u64; 2];
    let seeds = seeds.max(1);
    for tried in 0..seeds {
        let shapes: [&dyn Fn(&mut Options); 2] = [&calm, &shape];
        for (sum, shape) in sums.iter_mut().zip(shapes) {
            match world(FIRST_SEED + tried, shape, subject) {
                Ok(summary) => *sum += summary.simulated_ms / summary.requests.max(1),
                Err(violation) => return ((Some(told(violation)), tried + 1), (0, 0)),
            }
        }
    }
    ((None, seeds), (sums[0] / seeds, sums[1] / seeds))
}

fn twins(rounds: u32, device: DeviceFault, scale: u64, subject: &Subject<'_>) -> Found {
    let config = SimConfig { device, ..SimConfig::default() };
    let n = group(&subject.factories.rules).expect("an exhibit's protocol tolerates a fault");
    let all = schedules(rounds, n);
    let end = (all.len() as u64 / scale).max(1);
    for index in 0..end {
        let options = all[index as usize].options(&config);
        let outcome = run_options(index, options, &subject.factories, Rng::new(index), None);
        if let Err(violation) = outcome {
            return (Some(told(violation)), index + 1);
        }
    }
    (None, end)
}

fn search(scene: &Scene, scale: u64, subject: &Subject<'_>) -> Result<Found, String> {
    let Scene::Explorer { liar, alphabet, timeouts, start, states } = *scene else {
        return Err("this scene is not explored".to_owned());
    };
    let script = start.map(|name| {
        let known = subject.starts.iter().find(|(known, _)| *known == name);
        known.map(|(_, script)| (*script).to_owned()).ok_or(format!("no start {name}"))
    });
    let plan = Plan {
        liar: liar.map(ReplicaId),
        lies: 4,
        timeouts,
        alphabet: alphabet.iter().map(|kind| (*kind).to_owned()).collect(),
        start: script.transpose()?.unwrap_or_default(),
        states_max: states / scale as usize,
        // What replicas would show next is not what the publications are about.
        asks: false,
        ..Plan::default()
    };
    let report = explore(&plan, &subject.explored, |_| true)?;
    let broken = report.found.as_ref().map(|found| {
        (found.broken.property, format!("{}\n{}", found.broken, found.lines.join("\n")))
    });
    Ok((broken, report.states as u64))
}
