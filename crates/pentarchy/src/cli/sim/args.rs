//! What `sim` is asked on the command line.

use clap::{Args, Subcommand, ValueEnum};
use pentarchy::limits::PILLARS_MAX;
use pentarchy_core::membership::PillarConfig;
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES};
use pentarchy_sim::device::DeviceFault;
use pentarchy_sim::replay::Until;
use pentarchy_sim::swarm::{Options, SimConfig, Theme};
use pentarchy_sim::twins::ROUNDS_MAX;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `sim`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = format!(
    "Examples:\n  pentarchy sim --protocol {name} --seeds 10000\n  \
    pentarchy sim --protocol {name} --seed 0x2a\n  \
    pentarchy sim --protocol {split} --pillars 2\n  \
    pentarchy sim --twins 3\n  pentarchy sim mutants\n  pentarchy sim museum\n  \
    pentarchy sim replay 0x2a --svg 0x2a.svg\n\n\
    A failing seed prints the line that replays it. The plainest of them is then made smaller,\n\
    for at most 20 s, and drawn. Exit code 1 if a seed failed.",
    name = DEFAULT.rules.name,
    split = EXAMPLES.split.rules.name
))]
pub struct SimArgs {
    /// Instead of a sweep
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    /// The protocol to run; all: each that is meant to be safe, one after the other
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// How many seeds to run; 1000, or 1 if --seed is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// The first seed, decimal or 0x...; 0 if it is not given
    #[arg(long, value_parser = parse_seed, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Seeds to run at the same time; by default one per processor
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub worlds: WorldArgs,
    /// Instead of seeds: every schedule of partitions of this many rounds (1 to 6, and as many as
    /// the protocol's smallest group leaves room for), in a group in which one replica runs as two
    /// copies. --seed and --seeds choose some
    #[arg(long, value_name = "ROUNDS",
        conflicts_with_all = ["f", "requests", "hostile_only", "theme"],
        value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX as i64))]
    pub twins: Option<u32>,
    /// With this seeded bug, in builds with the feature `mutants`
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Run variations of worlds that covered something new, in half of all runs
    #[arg(long, conflicts_with = "twins")]
    pub guided: bool,
    /// Do not look for a smaller run that fails in the same way
    #[arg(long)]
    pub no_shrink: bool,
    /// File for the picture of a failure; pentarchy-sim-SEED.svg by default
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Print JSON, and neither shrink nor draw
    #[arg(long)]
    pub json: bool,
}

/// What the worlds are like that a seed draws.
#[derive(Args)]
pub struct WorldArgs {
    /// Faults to tolerate; by default drawn from the seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=16))]
    pub f: Option<u64>,
    /// Requests of all clients together
    #[arg(long, default_value_t = 1000, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub requests: u64,
    /// Pillars into which hybster, pbft or hybrid-pbft is split; by the names that end in -pillars
    /// they are drawn from the seed
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(PILLARS_MAX)))]
    pub pillars: Option<u8>,
    /// Begin each pillar with another primary, which is otherwise drawn from the seed
    #[arg(long)]
    pub rotate_leader: bool,
    /// Only clients misbehave; any view change then counts as a failure
    #[arg(long)]
    pub hostile_only: bool,
    /// What all worlds are about; otherwise drawn from the seed
    #[arg(long, value_name = "WHAT", conflicts_with = "hostile_only")]
    pub theme: Option<ThemeChoice>,
    /// What the trusted devices of faulty replicas do; unless honest, violations are expected
    #[arg(long, default_value = "honest")]
    pub device: DeviceChoice,
}

impl WorldArgs {
    /// How the order is to be split.
    pub fn lane(&self) -> PillarConfig {
        PillarConfig {
            pillars: self.pillars.unwrap_or(1),
            rotates: self.rotate_leader,
            pillar: None,
        }
    }

    /// As the simulator takes them. Only some protocols are split.
    pub fn config(&self, entry: &Descriptor) -> SimConfig {
        let is_split = entry.rules.pillars;
        SimConfig {
            requests: self.requests,
            f: self.f.and_then(|f| usize::try_from(f).ok()),
            hostile_only: self.hostile_only,
            theme: self.theme.map(Into::into),
            device: self.device.into(),
            pillars: self.pillars.filter(|_| is_split),
            rotates: (is_split && self.rotate_leader).then_some(true),
            ..SimConfig::default()
        }
    }

    /// As they are typed, without those that are as by default.
    pub fn typed(&self) -> String {
        let mut typed = self.device.argument().to_owned();
        if self.requests != 1000 {
            typed.push_str(&format!(" --requests {}", self.requests));
        }
        if let Some(f) = self.f {
            typed.push_str(&format!(" --f {f}"));
        }
        if let Some(pillars) = self.pillars {
            typed.push_str(&format!(" --pillars {pillars}"));
        }
        if self.rotate_leader {
            typed.push_str(" --rotate-leader");
        }
        if self.hostile_only {
            typed.push_str(" --hostile-only");
        }
        if let Some(theme) = self.theme {
            typed.push_str(&format!(" --theme {}", theme.argument()));
        }
        typed
    }
}

/// What `sim` does beside searching.
#[derive(Subcommand)]
pub enum SimCommand {
    /// Run one seed again and tell what happened, up to the failure
    Replay(Box<ReplayArgs>),
    /// Put seeded bugs into the code, one after the other, and see how soon random runs find each
    Mutants(MutantsArgs),
    /// Show published bugs and attacks: each breaks a variant, and not the protocol here
    Museum(MuseumArgs),
    /// Measure what a faulty primary gains by being slow, or by serving only some
    Strategies(StrategiesArgs),
}

/// `sim strategies`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy sim strategies\n\n\
    Exit code 1 if requests take longer than promised under one of them, or anything breaks.")]
pub struct StrategiesArgs {
    /// The protocol to run
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// With this seeded bug, in builds with the feature `mutants`
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
}

/// `sim mutants`.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo run --release -p pentarchy --features mutants -- \
    sim mutants\n\nExit code 1 if a bug is not found.")]
pub struct MutantsArgs {
    /// How often to search for each bug, each time in other seeds
    #[arg(long, default_value_t = 5, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub starts: u64,
    /// Seeds after which a hunt gives up
    #[arg(long, default_value_t = 3000, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub seeds_max: u64,
    /// Seconds after which a hunt begins no other seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Look in this protocol for every bug, and not in the one to which it belongs
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Requests of all clients together, in each run
    #[arg(long, default_value_t = 200, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub requests: u64,
    /// Only this bug
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Only a share of the bugs: 2/3 is the second of three
    #[arg(long, value_name = "K/N", value_parser = parse_share, conflicts_with = "only")]
    pub share: Option<Share>,
    /// Hunts at the same time; by default one per processor
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Run variations of worlds that covered something new, in half of all runs
    #[arg(long)]
    pub guided: bool,
    /// Look first for each bug in the world that this file names
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Write the worlds that found the bugs now into that file
    #[arg(long, requires = "known", conflicts_with_all = ["only", "share"])]
    pub note: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// One of several parts of a list, which together are all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// From 0.
    part: usize,
    parts: usize,
}

impl Share {
    /// Whether what has this place in the list is in it.
    #[cfg(any(test, feature = "mutants"))]
    pub const fn has(self, index: usize) -> bool {
        index % self.parts == self.part
    }
}

fn parse_share(text: &str) -> Result<Share, String> {
    let parsed = text.split_once('/').and_then(|(part, parts)| {
        let (part, parts): (usize, usize) = (part.parse().ok()?, parts.parse().ok()?);
        (part >= 1 && part <= parts).then(|| Share { part: part - 1, parts })
    });
    parsed.ok_or_else(|| "such as 1/3, 2/3 or 3/3".to_owned())
}

/// `sim museum`.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo run --release -p pentarchy --features mutants -- \
    sim museum\n\nExit code 1 if a variant does not break or the protocol does.")]
pub struct MuseumArgs {
    /// Only this exhibit
    #[arg(value_name = "NAME")]
    pub only: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `sim --device`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// They certify each position at most once
    Honest,
    /// They can be rolled back
    Rollback,
    /// They can be copied
    Clone,
}

/// What all worlds may be about.
#[derive(Clone, Copy, ValueEnum)]
pub enum ThemeChoice {
    /// Changing the primary: hiccups, and networks that part again and again
    Changes,
    /// Views that fail because messages reach exact minorities
    Minorities,
    /// Changing the group: members, keys, size, protocol. Not of one that is split into pillars
    Reconfiguration,
}

impl From<ThemeChoice> for Theme {
    fn from(choice: ThemeChoice) -> Self {
        match choice {
            ThemeChoice::Changes => Self::Changes,
            ThemeChoice::Minorities => Self::Minorities,
            ThemeChoice::Reconfiguration => Self::Reconfiguration,
        }
    }
}

impl ThemeChoice {
    /// As it is typed.
    const fn argument(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Minorities => "minorities",
            Self::Reconfiguration => "reconfiguration",
        }
    }
}

impl From<DeviceChoice> for DeviceFault {
    fn from(choice: DeviceChoice) -> Self {
        match choice {
            DeviceChoice::Honest => Self::None,
            DeviceChoice::Rollback => Self::RollBack,
            DeviceChoice::Clone => Self::Clone,
        }
    }
}

impl DeviceChoice {
    /// What to add to a command line.
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Honest => "",
            Self::Rollback => " --device rollback",
            Self::Clone => " --device clone",
        }
    }
}

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
    /// Run this world, as a failure prints it, instead of the one that the seed draws:
    /// docs/testing.md
    #[arg(long, value_name = "OPTIONS",
        conflicts_with_all = ["f", "requests", "pillars", "rotate_leader", "hostile_only", "twins",
            "device", "theme"])]
    pub with: Option<Options>,
    #[command(flatten)]
    pub worlds: WorldArgs,
    /// SEED is the number of a schedule of this many rounds
    #[arg(long, value_name = "ROUNDS",
        conflicts_with_all = ["f", "requests", "hostile_only", "theme"],
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
    /// How many events the chart shows: the last ones
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

/// A seed, decimal or with 0x.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is no seed; write a number or 0x and digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_a_list_together_and_nothing_twice() {
        let shares = ["1/3", "2/3", "3/3"].map(|text| parse_share(text).unwrap());
        for index in 0..10 {
            assert_eq!(shares.iter().filter(|share| share.has(index)).count(), 1);
        }
        for text in ["0/3", "4/3", "1", "a/b", "1/0", ""] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
