//! What is measured: workloads, payloads, and the systems that are compared.

use bytes::Bytes;
use clap::ValueEnum;
use pentarchy_cluster::RequestMode;
use pentarchy_cluster::config::{Durability, request_mode_name};
use pentarchy_cluster::limits::{CLIENT_WINDOW, OPERATION_BYTES_MAX};
use pentarchy_core::membership::PillarConfig;
use pentarchy_protocols::BASELINE;
use pentarchy_services::null::Null;
use std::fmt;
use std::str::FromStr;

/// How clients offer load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Workload {
    /// Each client waits for a result before it sends the next operation
    Closed,
    /// Each client keeps many operations outstanding
    Pipelined,
    /// Operations come at --rate, whether or not earlier ones have completed
    Open,
}

impl Workload {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Pipelined => "pipelined",
            Self::Open => "open",
        }
    }
}

/// Sizes in bytes, written `request/reply`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Bytes that an operation carries. The smallest operation has 4, which say the reply's size.
    pub request: usize,
    /// Bytes of the reply.
    pub reply: usize,
}

impl Payload {
    /// An operation of the null service with these sizes.
    pub fn operation(self) -> Bytes {
        Null::operation(self.request, self.reply as u32).into()
    }
}

/// How clients are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Connections {
    /// Each client has a key and connections to all replicas of its own
    PerClient,
    /// All clients are sessions of one key over one connection to each replica, and what waits
    /// together leaves together; a channel belongs to one key, so several keys cannot share one
    Shared,
}

impl Connections {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerClient => "per-client",
            Self::Shared => "shared",
        }
    }
}

/// How keys of the key-value store are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KeyChoice {
    /// Each as often as any other
    Uniform,
    /// Few of them most of the time (exponent 0.99)
    Zipf,
}

impl KeyChoice {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// What the replicas run, and what is asked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Nothing: operations have the sizes of the payload.
    Null,
    /// `SET` and `GET` of values that have the payload's size.
    Kv {
        /// How many keys there are, all of them set before anything is measured.
        keys: usize,
        /// Which of them an operation is about.
        choice: KeyChoice,
    },
}

impl Service {
    /// The word on the command line of a replica.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Kv { .. } => "kv",
        }
    }

    /// Of the store: how many keys there are, and how they are chosen.
    pub const fn keys(self) -> Option<(usize, KeyChoice)> {
        match self {
            Self::Null => None,
            Self::Kv { keys, choice } => Some((keys, choice)),
        }
    }
}

/// Who drives clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drivers {
    /// The product's own client: a thread for each, and one more that submits.
    Own,
    /// So many event loops, each for its share of the clients.
    Loops(usize),
}

impl Drivers {
    /// Event loops; 0 if there are none.
    pub const fn loops(self) -> usize {
        match self {
            Self::Own => 0,
            Self::Loops(threads) => threads,
        }
    }
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |digits: &str| digits.parse().ok().filter(|size| *size <= OPERATION_BYTES_MAX);
        let sizes = text.split_once('/').and_then(|(request, reply)| {
            Some(Self { request: size(request)?, reply: size(reply)? })
        });
        sizes.ok_or_else(|| {
            format!(
                "{text:?} is no payload; write request/reply in bytes, such as 0/4096, each at \
                 most {OPERATION_BYTES_MAX}"
            )
        })
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.request, self.reply)
    }
}

/// One set of conditions, under which each system is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// How clients offer load.
    pub workload: Workload,
    /// Sizes.
    pub payload: Payload,
    /// How clients convince replicas.
    pub request_auth: RequestMode,
    /// What outlives the replicas' processes.
    pub durability: Durability,
    /// Clients.
    pub clients: usize,
    /// Operations that each client keeps outstanding; none of its own for an open workload.
    pub outstanding: usize,
    /// How they are connected.
    pub connections: Connections,
    /// Who drives them.
    pub drivers: Drivers,
    /// What the replicas run.
    pub service: Service,
    /// Percentage of operations that are reads, by the protocol's fast path.
    pub reads: u8,
    /// Operations in a second that an open workload offers.
    pub rate: Option<u64>,
    /// Requests that a batch may hold, if not as many as usual.
    pub batch: Option<usize>,
    /// Whether the last backup is killed before anything is measured.
    pub crash: bool,
}

/// Operations that one key may have outstanding: half of what replicas remember of one client.
/// Above it, one slow operation holds up the others.
pub const OUTSTANDING_MAX: usize = CLIENT_WINDOW as usize / 2;

impl Case {
    /// One client sends one empty operation after the other. A name of another case says what
    /// differs from this one.
    pub const PLAIN: Self = Self {
        workload: Workload::Closed,
        payload: Payload { request: 0, reply: 0 },
        request_auth: RequestMode::Signature,
        durability: Durability::Memory,
        clients: 1,
        outstanding: 1,
        connections: Connections::PerClient,
        drivers: Drivers::Own,
        service: Service::Null,
        reads: 0,
        rate: None,
        batch: None,
        crash: false,
    };

    /// How many keys there are, and how many operations each may have outstanding.
    pub const fn keys(&self) -> (usize, usize) {
        match (self.workload, self.connections) {
            (Workload::Open, Connections::PerClient) => (self.clients, OUTSTANDING_MAX),
            (Workload::Open, Connections::Shared) => (1, OUTSTANDING_MAX),
            (_, Connections::PerClient) => (self.clients, self.outstanding),
            (_, Connections::Shared) => (1, self.clients * self.outstanding),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auth = request_mode_name(self.request_auth);
        write!(f, "{} {}, {auth}", self.workload.name(), self.payload)?;
        if self.durability != Durability::Memory {
            write!(f, ", {}", self.durability.name())?;
        }
        if let Some(rate) = self.rate {
            write!(f, ", {rate} ops/s offered")?;
        }
        if let Service::Kv { keys, choice } = self.service {
            write!(f, ", kv with {keys} keys ({})", choice.name())?;
        }
        if self.reads > 0 {
            write!(f, ", {} % reads", self.reads)?;
        }
        if self.connections == Connections::Shared {
            f.write_str(", one shared connection")?;
        }
        if let Some(requests) = self.batch {
            write!(f, ", batches of {requests}")?;
        }
        if self.crash {
            f.write_str(", a backup crashed")?;
        }
        Ok(())
    }
}

/// What is measured under a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// The protocol as it is asked for: its name, and after a colon its pillars if there are
    /// several.
    pub protocol: String,
    /// How its order is split.
    pub lane: PillarConfig,
    /// Faults tolerated.
    pub f: usize,
    /// Replicas.
    pub n: usize,
}

impl System {
    /// One server, to which everything else is compared.
    pub fn baseline() -> Self {
        Self { protocol: BASELINE.rules.name.to_owned(), lane: PillarConfig::default(), f: 0, n: 1 }
    }

    /// The protocol's name.
    pub fn name(&self) -> &str {
        self.protocol.split(':').next().unwrap_or_default()
    }

    /// Whether this is [`Self::baseline`].
    pub fn is_baseline(&self) -> bool {
        self.protocol == BASELINE.rules.name
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} f={} n={}", self.protocol, self.f, self.n)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A pipelined case with this payload.
    pub fn case(payload: &str) -> Case {
        Case {
            workload: Workload::Pipelined,
            payload: payload.parse().unwrap(),
            clients: 8,
            outstanding: 256,
            ..Case::PLAIN
        }
    }

    #[test]
    fn sessions_that_share_a_connection_share_its_key() {
        let apart = case("0/0");
        assert_eq!(apart.keys(), (8, 256));
        let shared = Case { connections: Connections::Shared, ..apart };
        assert_eq!(shared.keys(), (1, 2048));
        let open = Case { workload: Workload::Open, rate: Some(5), ..apart };
        assert_eq!(open.keys(), (8, OUTSTANDING_MAX));
        assert_eq!(open.to_string(), "open 0/0, signature, 5 ops/s offered");
    }

    #[test]
    fn payloads_are_two_bounded_sizes() {
        let payload: Payload = "1024/4096".parse().unwrap();
        assert_eq!(payload, Payload { request: 1024, reply: 4096 });
        assert_eq!(payload.to_string(), "1024/4096");
        for text in ["", "1", "1/", "/1", "-1/0", "a/b", "1/2/3", "0/1048577", "1048577/0"] {
            assert!(text.parse::<Payload>().unwrap_err().contains("0/4096"), "{text}");
        }
    }

    #[test]
    fn operations_have_the_asked_size_and_ask_for_the_reply() {
        let bytes = |text: &str| text.parse::<Payload>().unwrap().operation();
        assert_eq!(*bytes("0/0"), [0, 0, 0, 0]);
        assert_eq!(*bytes("0/4096"), [0, 16, 0, 0]);
        let large = bytes("4096/1");
        assert_eq!((large.len(), &large[..4]), (4096, &[1, 0, 0, 0][..]));
    }
}
