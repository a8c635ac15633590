//! Options that several commands have.

use crate::failure::{Failure, Outcome};
use clap::{Args, ValueEnum};
use pentarchy_cluster::RequestMode;
use pentarchy_cluster::config::{Durability, request_mode_name};
use pentarchy_cluster::generate::GroupOptions;
use pentarchy_cluster::limits::PILLARS_MAX;
use pentarchy_cluster::protocols;
use pentarchy_core::membership::PillarConfig;
use pentarchy_protocols::DEFAULT;

/// `--request-auth`.
#[derive(Clone, Copy, ValueEnum)]
pub enum AuthChoice {
    /// The client signs all of its waiting requests together with Ed25519
    Signature,
    /// MACs: faster, but only if no client is malicious
    Mac,
    /// Tags that the replicas' trusted devices check: as fast as MACs, and safe unless one of those
    /// devices is compromised
    Session,
}

impl From<AuthChoice> for RequestMode {
    fn from(choice: AuthChoice) -> Self {
        match choice {
            AuthChoice::Signature => Self::Signature,
            AuthChoice::Mac => Self::Mac,
            AuthChoice::Session => Self::Session,
        }
    }
}

/// `--durability`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityChoice {
    /// Nothing: a replica that stops comes back as a new incarnation. At most f replicas may be
    /// away at a time
    Memory,
    /// States, a second or two old: as memory, but a new incarnation fetches only what changed
    /// since. If more than f stop at once, everything is lost
    Async,
    /// All that a replica said, synced before it is sent: survives a power failure of all
    Sync,
}

impl From<DurabilityChoice> for Durability {
    fn from(choice: DurabilityChoice) -> Self {
        match choice {
            DurabilityChoice::Memory => Self::Memory,
            DurabilityChoice::Async => Self::Async,
            DurabilityChoice::Sync => Self::Sync,
        }
    }
}

/// What every way to make a cluster asks.
#[derive(Args, Clone)]
pub struct GroupArgs {
    /// The protocol that the replicas run
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// Faulty replicas to tolerate. The protocol decides how many replicas that takes: see
    /// README.md
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub f: usize,
    /// Pillars into which the order is split, up to 8: agreements side by side, each with its own
    /// primary and trusted counters. Only with hybster, pbft and hybrid-pbft
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(PILLARS_MAX)))]
    pub pillars: u8,
    /// Begin each pillar with another primary
    #[arg(long)]
    pub rotate_leader: bool,
    /// How clients authenticate their requests
    #[arg(long, value_enum, default_value = "signature", value_name = "HOW")]
    pub request_auth: AuthChoice,
}

impl GroupArgs {
    /// The protocol with its pillars, for figures.
    pub fn label(&self) -> String {
        let rotating = if self.rotate_leader { ", rotating" } else { "" };
        match self.pillars {
            1 => self.protocol.clone(),
            pillars => format!("{}:{pillars}{rotating}", self.protocol),
        }
    }

    /// A group with these options, and the usual ones.
    pub fn options(&self) -> GroupOptions {
        GroupOptions {
            protocol: self.protocol.clone(),
            f: self.f,
            lane: self.lane(),
            request_auth: self.request_auth.into(),
            ..GroupOptions::default()
        }
    }

    /// How the order is to be split.
    pub const fn lane(&self) -> PillarConfig {
        PillarConfig { pillars: self.pillars, rotates: self.rotate_leader, pillar: None }
    }

    /// The same options, for a command line.
    pub fn words(&self) -> Vec<String> {
        let (f, pillars) = (self.f.to_string(), self.pillars.to_string());
        let auth = request_mode_name(self.request_auth.into());
        let words = ["--protocol", &self.protocol, "--f", &f, "--pillars", &pillars];
        let words = words.into_iter().chain(["--request-auth", auth]);
        words.chain(self.rotate_leader.then_some("--rotate-leader")).map(str::to_owned).collect()
    }

    /// How many replicas the asked group has.
    pub fn replicas(&self) -> Outcome<usize> {
        let known: Vec<_> = protocols::names().collect();
        if !known.contains(&self.protocol.as_str()) {
            return Err(Failure::Usage(format!(
                "no protocol {:?}; there is: {}",
                self.protocol,
                known.join(", ")
            )));
        }
        if matches!(self.request_auth, AuthChoice::Session)
            && !protocols::takes_sessions(&self.protocol)
        {
            return Err(Failure::Usage(format!(
                "{} has no trusted devices that could check sessions: --request-auth signature \
                 works",
                self.protocol
            )));
        }
        protocols::check_lane(&self.protocol, self.lane())
            .map_err(|why| Failure::Usage(format!("--pillars: {why}")))?;
        protocols::replicas_needed(&self.protocol, self.f).ok_or_else(|| {
            let max = pentarchy_cluster::limits::REPLICAS_MAX;
            Failure::Usage(format!(
                "f = {} is out of range: at least 1, and {max} replicas",
                self.f
            ))
        })
    }
}

/// A number from 1 to this.
pub fn at_least_one(max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| format!("{text:?} is not a number from 1 to {max}"))
    }
}

/// The options that tell `up` to split the order so, with a space before each; none if it is not
/// split.
pub fn lane_options(lane: PillarConfig) -> String {
    let rotates = if lane.rotates { " --rotate-leader" } else { "" };
    match lane.pillars {
        1 => String::new(),
        pillars => format!(" --pillars {pillars}{rotates}"),
    }
}
