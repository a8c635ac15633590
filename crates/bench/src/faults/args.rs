//! The options of `bench changes`, `bench failover`, `bench faults`, `bench life`, `bench recovery`
//! and `bench soak`.

use crate::overload::OverloadArgs;
use crate::plan::parse_seconds;
use clap::{Args, Subcommand, ValueEnum};
use pentarchy_console::options::at_least_one;
use pentarchy_console::options::{DurabilityChoice, GroupArgs};
use pentarchy_console::patient::Harm;
use std::path::PathBuf;
use std::time::Duration;

/// MiB of values for which the service has room, with their keys.
const STATE_MIB_MAX: u64 = 900;

/// What is measured under faults.
#[derive(Subcommand)]
pub enum FaultBench {
    /// Measure how long clients wait while members get new keys, and new machines become members
    Changes(ChangesArgs),
    /// Measure how long clients wait when the primary dies or freezes
    Failover(FailoverArgs),
    /// Measure throughput before, during and after each kind of fault
    Faults(TimelineArgs),
    /// Measure how long a replica that was away takes to catch up, and what that costs
    Recovery(RecoveryArgs),
    /// Live through ten minutes in which members join, crash, return and leave
    Life(LifeArgs),
    /// Watch the memory of replicas under load while one of them is frozen
    Soak(SoakArgs),
    /// Measure throughput and fairness when more is asked than can be done
    Overload(OverloadArgs),
}

/// The load.
#[derive(Args, Clone, Copy)]
pub struct LoadArgs {
    /// Clients, each with its own key
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = at_least_one(100))]
    pub clients: usize,
    /// Operations that each client keeps outstanding
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = at_least_one(256))]
    pub outstanding: usize,
}

/// What happens to the primary, or to the replica that is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PrimaryFault {
    /// Its process ends at once; with durability `memory`, all that it knew is lost
    Kill,
    /// Its process is frozen, then goes on
    Pause,
}

impl PrimaryFault {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
        }
    }

    /// What is done to the replica.
    pub const fn harm(self) -> Harm {
        match self {
            Self::Kill => Harm::Kill,
            Self::Pause => Harm::Pause,
        }
    }
}

/// `bench failover`.
#[derive(Args)]
#[command(
    after_help = "Example:\n  pentarchy bench failover --runs 20 --fault kill --json f.json\n\n\
    Each run breaks the primary under load, looks on, heals it, and waits until all replicas have \
    \ncaught up. Exit code 1 if an increment was lost or counted twice, or a client got no answer."
)]
pub struct FailoverArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// How often the primary is broken
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = at_least_one(1000))]
    pub runs: usize,
    /// What happens to it
    #[arg(long, value_enum, default_value = "kill", value_name = "WHAT")]
    pub fault: PrimaryFault,
    /// Seconds, at least 1, for which each run looks on before the primary is healed
    #[arg(long, default_value = "3", value_name = "S", value_parser = parse_watch)]
    pub watch: Duration,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Also write all runs to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `bench changes`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy bench changes --runs 10 --json changes.json\n\n\
    Under load, each run changes nothing; gives all members new keys; has a machine join, a\n\
    member leave, a machine take a member's place; switches the protocol and back.\n\
    Exit code 1 if an increment was lost or counted twice, or a client got no answer.")]
pub struct ChangesArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// How often the group is changed in each way
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = at_least_one(100))]
    pub runs: usize,
    /// What outlives a replica's process
    #[arg(long, value_enum, default_value = "memory", value_name = "WHAT")]
    pub durability: DurabilityChoice,
    /// MiB of state that the group has before, in values of 4 KiB
    #[arg(long, default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=STATE_MIB_MAX))]
    pub state_mib: u64,
    /// Seconds, at least 1, for which each run looks on after a change
    #[arg(long, default_value = "2", value_name = "S", value_parser = parse_watch)]
    pub watch: Duration,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Also write all runs to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `bench faults`.
#[derive(Args)]
#[command(
    after_help = "Example:\n  pentarchy bench faults --svg faults.svg --json faults.json\n\n\
    One after the other: a backup killed, silent, corrupt, 100 ms slow; a primary 30 ms slow,\n\
    100 ms slow, or that lies.\n\
    Exit code 1 if an increment was lost or counted twice, or a client got no answer."
)]
pub struct TimelineArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// Seconds before, during and after each fault
    #[arg(long, default_value = "5", value_name = "S", value_parser = parse_seconds)]
    pub seconds_each: Duration,
    /// Only the faults whose name contains this
    #[arg(long, value_name = "WORD")]
    pub only: Option<String>,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Also draw the throughput to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `bench recovery`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pentarchy bench recovery --away 1,20 --runs 5 --json r.json\n  \
    pentarchy bench recovery --fault kill --away 1 --keys 1000,100000 --clients 1 \
    --outstanding 1\n\n\
    Each run stops a backup under load, brings it back after a while, and waits until it has\n\
    executed what the others had then. Exit code 1 if one was not level within a minute, or an\n\
    increment was lost or counted twice, or a client got no answer."
)]
pub struct RecoveryArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// What outlives the replicas' processes
    #[arg(long, value_enum, default_value = "sync", value_name = "MODE")]
    pub durability: DurabilityChoice,
    /// Seconds for which it is away
    #[arg(long, value_delimiter = ',', default_value = "1,20", value_name = "S,...",
        value_parser = parse_seconds)]
    pub away: Vec<Duration>,
    /// How often for each of them
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one(1000))]
    pub runs: usize,
    /// What happens to it
    #[arg(long, value_enum, default_value = "pause", value_name = "WHAT")]
    pub fault: PrimaryFault,
    /// Keys with 100 bytes each that are written before, in a fresh group for each number
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N,...",
        value_parser = clap::value_parser!(u64).range(..=5_000_000))]
    pub keys: Vec<u64>,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Also write all runs to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `bench life`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy bench life --svg life.svg --json life.json\n  \
    pentarchy bench life --scale 0.1 --durability sync\n\n\
    In the ten minutes of --scale 1 a machine joins after 120 s, the primary is killed after\n\
    240 s and started again after 370 s, and a member leaves after 510 s.\n\
    Exit code 1 if a client had an error, or a result or a list was not what it had written.")]
pub struct LifeArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// How long, as a part of ten minutes
    #[arg(long, default_value_t = 1.0, value_name = "PART", value_parser = parse_scale)]
    pub scale: f64,
    /// Clients, each with its own key and one operation outstanding
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = at_least_one(100))]
    pub clients: usize,
    /// What outlives a replica's process
    #[arg(long, value_enum, default_value = "memory", value_name = "WHAT")]
    pub durability: DurabilityChoice,
    /// Also draw the throughput to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `bench soak`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy bench soak --minutes 10 --svg soak.svg\n\n\
    A backup is frozen from minute 1 on, or from the first tenth of the time if that is earlier.\n\
    With --pauses, replicas are frozen and go on at random, at most f at a time; waits of 450 ms\n\
    and more are shown, with who was frozen then or in the half second before.\n\
    Exit code 1 if an increment was lost or counted twice, or a client got no answer.")]
pub struct SoakArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// How long
    #[arg(long, default_value = "10", value_name = "MINUTES", value_parser = parse_minutes)]
    pub minutes: Duration,
    /// Freeze replicas at random, as this seed says, in place of one backup for good
    #[arg(long, value_name = "SEED")]
    pub pauses: Option<u64>,
    /// Clients, each with its own key
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = at_least_one(100))]
    pub clients: usize,
    /// Operations that each client keeps outstanding
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = at_least_one(256))]
    pub outstanding: usize,
    /// Also draw the memory to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write all samples to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Long enough that a group which has not replaced its primary yet is seen to be silent.
fn parse_watch(text: &str) -> Result<Duration, String> {
    let watch = parse_seconds(text)?;
    if watch < Duration::from_secs(1) {
        return Err("it takes a second to see whether a group answers again".to_owned());
    }
    Ok(watch)
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| (0.01..=10.0).contains(scale));
    scale.ok_or_else(|| format!("{text:?} is not a number from 0.01 to 10"))
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.1..=1440.0).contains(minutes));
    minutes
        .map(|minutes: f64| Duration::from_secs_f64(minutes * 60.0))
        .ok_or_else(|| format!("{text:?} is not a number of minutes from 0.1 to 1440"))
}
