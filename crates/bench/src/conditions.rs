//! Options that say under which conditions is measured, common to `bench` and `bench saturate`.

use super::case::{
    Case, Connections, Drivers, KeyChoice, OUTSTANDING_MAX, Payload, Service, System, Workload,
};
use clap::{Args, ValueEnum};
use pentarchy_cluster::limits::{OPERATION_BYTES_MAX, REPLICAS_MAX};
use pentarchy_cluster::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::{AuthChoice, DurabilityChoice, at_least_one};
use pentarchy_core::membership::PillarConfig;
use pentarchy_protocols::{BASELINE, DEFAULT, EXAMPLES};
use pentarchy_services::kv::STATE_BYTES_DEFAULT;
use std::thread::available_parallelism;

/// Up to so many clients each have threads of their own, unless it is said otherwise.
const OWN_THREADS_MAX: usize = 16;

/// Keys of the store: eight digits, and a table of so many numbers for `zipf`.
const KEYS_MAX: usize = 1_000_000;

/// Bytes of all values: half of what the store holds, as keys cost something too.
const VALUES_BYTES_MAX: usize = (STATE_BYTES_DEFAULT / 2) as usize;

/// `--service`.
#[derive(Clone, Copy, ValueEnum)]
pub enum ServiceChoice {
    /// Strings, counters and lists, as the Redis gateway needs them
    Kv,
    /// Nothing, to measure what replication costs
    Null,
}

/// What is measured, and under which conditions. Of lists every combination.
#[derive(Args)]
pub struct ConditionArgs {
    /// The protocol to measure; with a number of pillars behind a colon if there are to be several
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// Faulty replicas to tolerate
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,...")]
    pub f: Vec<usize>,
    /// How clients convince replicas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "signature",
        value_name = "HOW,..."
    )]
    pub request_auth: Vec<AuthChoice>,
    /// What outlives the replicas' processes; `sync` writes below the folder for temporary files
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "memory",
        value_name = "MODE,..."
    )]
    pub durability: Vec<DurabilityChoice>,
    /// Bytes of request and reply, for the null service [default: 0/0]
    #[arg(long, value_delimiter = ',', value_name = "REQUEST/REPLY,...")]
    pub payload: Vec<Payload>,
    /// What the replicas run
    #[arg(long, value_enum, default_value = "null", value_name = "NAME")]
    pub service: ServiceChoice,
    /// Keys of the kv service, all set before anything is measured
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = at_least_one(KEYS_MAX))]
    pub keys: usize,
    /// Which of them an operation is about
    #[arg(long, value_enum, default_value = "uniform", value_name = "HOW")]
    pub key_choice: KeyChoice,
    /// Bytes of a value of the kv service
    #[arg(long, default_value_t = 64, value_name = "N",
        value_parser = at_least_one(OPERATION_BYTES_MAX / 2))]
    pub value_bytes: usize,
    /// Percentage of operations that are reads, by the protocol's fast path
    #[arg(long, default_value_t = 0, value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=100))]
    pub reads: u8,
    /// How clients are connected
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "per-client",
        value_name = "HOW,..."
    )]
    pub connections: Vec<Connections>,
    /// Event loops that drive all clients, or `own`: a thread and a submitting thread for each
    /// client, as in an application [default: own up to 16 keys, else half of the cores]
    #[arg(long, value_name = "N|own", value_parser = parse_drivers)]
    pub client_threads: Option<Drivers>,
    /// Do not measure the unreplicated baseline
    #[arg(long)]
    pub no_baseline: bool,
}

/// How much is offered.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How.
    pub workload: Workload,
    /// Clients.
    pub clients: usize,
    /// Operations that each keeps outstanding.
    pub outstanding: usize,
    /// Operations in a second of an open workload.
    pub rate: Option<u64>,
}

/// A case, and what is measured under it, in turn.
pub type PlannedCase = (Case, Vec<System>);

impl ConditionArgs {
    /// Every combination with these loads.
    pub fn cases(&self, loads: &[Load]) -> Outcome<Vec<PlannedCase>> {
        let mut cases = Vec::new();
        let payloads = self.payloads()?;
        for f in &self.f {
            let systems = self.systems(*f)?;
            for auth in &self.request_auth {
                for load in loads {
                    for payload in &payloads {
                        for connections in &self.connections {
                            let case = self.case(*auth, *load, *payload, *connections)?;
                            for durability in &self.durability {
                                let durability = (*durability).into();
                                cases.push((Case { durability, ..case }, systems.clone()));
                            }
                        }
                    }
                }
            }
        }
        Ok(cases)
    }

    fn case(
        &self,
        auth: AuthChoice,
        load: Load,
        payload: Payload,
        connections: Connections,
    ) -> Outcome<Case> {
        let Load { workload, clients, outstanding, rate } = load;
        let service = match self.service {
            ServiceChoice::Null => Service::Null,
            ServiceChoice::Kv => Service::Kv { keys: self.keys, choice: self.key_choice },
        };
        let mut case = Case {
            workload,
            payload,
            request_auth: auth.into(),
            clients,
            outstanding,
            connections,
            service,
            reads: self.reads,
            rate,
            ..Case::PLAIN
        };
        let (keys, each) = case.keys();
        if each > OUTSTANDING_MAX {
            return Err(Failure::Usage(format!(
                "{clients} clients with {outstanding} operations each are more than the \
                 {OUTSTANDING_MAX} that one shared connection may have outstanding"
            )));
        }
        let is_open = workload == Workload::Open;
        case.drivers = match self.client_threads {
            Some(Drivers::Own) if is_open => {
                let what = "an open workload is driven by event loops: --client-threads N";
                return Err(Failure::Usage(what.to_owned()));
            }
            Some(drivers) => drivers,
            None => drivers(keys, is_open),
        };
        Ok(case)
    }

    fn payloads(&self) -> Outcome<Vec<Payload>> {
        match (self.service, self.payload.is_empty()) {
            (ServiceChoice::Null, false) => Ok(self.payload.clone()),
            (ServiceChoice::Null, true) => Ok(vec![Payload { request: 0, reply: 0 }]),
            (ServiceChoice::Kv, true) if self.keys * self.value_bytes > VALUES_BYTES_MAX => {
                Err(Failure::Usage(format!(
                    "{} keys with {} bytes each are more than the {} MiB that are filled at most",
                    self.keys,
                    self.value_bytes,
                    VALUES_BYTES_MAX >> 20
                )))
            }
            (ServiceChoice::Kv, true) => {
                Ok(vec![Payload { request: self.value_bytes, reply: self.value_bytes }])
            }
            (ServiceChoice::Kv, false) => {
                let what = "--payload is for the null service; kv has --value-bytes";
                Err(Failure::Usage(what.to_owned()))
            }
        }
    }

    fn systems(&self, f: usize) -> Outcome<Vec<System>> {
        if self.protocol == BASELINE.rules.name {
            return Ok(vec![System::baseline()]);
        }
        let replicated = replicated(&self.protocol, f)?;
        let baseline = (!self.no_baseline).then(System::baseline);
        Ok([replicated].into_iter().chain(baseline).collect())
    }
}

/// The group of this protocol for so many faults. After the name may stand a colon and into how
/// many pillars its order is split, and whether each begins with another primary: `hybster:2`,
/// `hybster:2:rotate`.
pub fn replicated(protocol: &str, f: usize) -> Outcome<System> {
    let mut parts = protocol.splitn(3, ':');
    let name = parts.next().unwrap_or_default();
    let (pillars, rotates) = (parts.next(), parts.next());
    if protocols::find(name).is_none() {
        let known: Vec<_> = protocols::names().chain([BASELINE.rules.name]).collect();
        let known = known.join(", ");
        return Err(Failure::Usage(format!("no protocol {name:?}; there is: {known}")));
    }
    let n = protocols::replicas_needed(name, f).ok_or_else(|| {
        Failure::Usage(format!("f = {f} is out of range: at least 1, and {REPLICAS_MAX} replicas"))
    })?;
    let bad = || {
        let like = EXAMPLES.split.rules.name;
        let form = format!("write NAME:PILLARS, like {like}:2, or NAME:PILLARS:rotate");
        Failure::Usage(format!("{protocol:?}: {form}"))
    };
    let pillars = pillars.map_or(Ok(1), |pillars| pillars.parse().map_err(|_| bad()))?;
    let rotates = match rotates {
        None => false,
        Some("rotate") => true,
        Some(_) => return Err(bad()),
    };
    let lane = PillarConfig { pillars, rotates, pillar: None };
    protocols::check_lane(name, lane).map_err(Failure::Usage)?;
    let protocol = match (pillars, rotates) {
        (1, _) => name.to_owned(),
        (_, false) => format!("{name}:{pillars}"),
        (_, true) => format!("{name}:{pillars}:rotate"),
    };
    Ok(System { protocol, lane, f, n })
}

/// The same where nothing but whole orders can be measured.
pub fn unsplit(protocol: &str, f: usize) -> Outcome<System> {
    let system = replicated(protocol, f)?;
    if system.lane == PillarConfig::default() {
        return Ok(system);
    }
    Err(Failure::Usage(format!("{protocol}: this measures protocols without pillars only")))
}

/// Who drives clients with so many keys, unless it is said.
pub fn drivers(keys: usize, is_open: bool) -> Drivers {
    if keys <= OWN_THREADS_MAX && !is_open {
        return Drivers::Own;
    }
    let cores = available_parallelism().map_or(1, usize::from);
    Drivers::Loops((cores / 2).max(1))
}

fn parse_drivers(text: &str) -> Result<Drivers, String> {
    if text == "own" {
        return Ok(Drivers::Own);
    }
    let threads = text.parse().ok().filter(|threads| (1..=64).contains(threads));
    threads
        .map(Drivers::Loops)
        .ok_or_else(|| format!("{text:?} is neither `own` nor a number from 1 to 64"))
}
