//! What hosts, tools and documents have to know of a protocol: one value in its directory.

use crate::common::confirming_client::{ConfirmingClient, Confirms};
use crate::common::parts::Parts;
use crate::common::voting_client::VotingClient;
use alloc::boxed::Box;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::forge::{IsSettled, MakeForger};
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Authority, BadRecord, Protocol, Rules, Setup, Timeouts};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::wire::{Malformed, Wire as _};

/// Starts a replica core; its first effects are appended.
pub type Start = fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore>;

/// What a client core is started with.
#[derive(Clone, Copy, Debug)]
pub struct ClientStart {
    /// Which client.
    pub client: ClientId,
    /// Replicas, and faults that are tolerated.
    pub group: Quorums,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// Every number below is settled.
    pub start_floor: u64,
    /// What chooses requests that are shown to all; known to no replica. None: no request is.
    pub seed: Option<u64>,
}

/// Starts a client core.
pub type StartClient = fn(ClientStart) -> Box<dyn ClientCore>;

/// Brings up the parts of a replica that share no state, so that a host can run each in a thread of
/// its own.
pub type StartParts = fn(Setup) -> Parts;

/// For what a protocol is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Users may run services on it.
    Stable,
    /// Users may try it: it lacks tests or reviews that a service would need to be bet on it.
    Young,
    /// Others are measured against it.
    Comparator,
    /// It is known to be unsafe, and here only to show that.
    Museum,
}

/// Several instances of one protocol side by side.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The protocol of each: `--pillars` splits its order.
    pub whole: &'static str,
    /// How the parts are brought up each on its own.
    pub start: StartParts,
}

/// One protocol that can be chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Name, fault model, group size and quorums.
    pub rules: Rules,
    /// What it is called in a sentence.
    pub title: &'static str,
    /// For what it is here.
    pub status: Status,
    /// What it is, in half a line of Markdown.
    pub about: &'static str,
    /// Where it is described.
    pub paper: &'static str,
    /// Its page in `docs/protocols`; none if there is nothing to say.
    pub page: Option<&'static str>,
    /// Brings up a replica.
    pub start: Start,
    /// Brings up a client.
    pub client: StartClient,
    /// Whether these are records of such a replica; to be asked before it starts with them.
    pub check_records: fn(&[Bytes]) -> Result<(), BadRecord>,
    /// Decodes what one of its replicas or clients says, and encodes it again.
    pub recode: fn(&Bytes) -> Result<Bytes, Malformed>,
    /// Makes a replica that lies, for searches; none if nobody has written down how.
    pub forger: Option<MakeForger>,
    /// Which messages have no effect any more, for the explorer.
    pub is_settled: IsSettled,
    /// Where explorations can begin: names and scripts.
    pub starts: &'static [(&'static str, &'static str)],
    /// Seeded bugs that are looked for in it: names, or what the names of several begin with.
    pub mutants: &'static [&'static str],
    /// What its replicas consist of, if that can run apart.
    pub split: Option<Split>,
}

/// One protocol of each kind, for code that needs any of that kind.
#[derive(Clone, Copy, Debug)]
pub struct Examples {
    /// Trusts devices, and its order can be split into pillars.
    pub split: &'static Descriptor,
    /// Trusts no devices: replicas sign their votes. Its order can be split too.
    pub signed: &'static Descriptor,
    /// The same, but its votes are trusted MACs.
    pub macs: &'static Descriptor,
    /// Its replicas execute before they agree.
    pub speculative: &'static Descriptor,
}

impl Descriptor {
    /// What is the same for most protocols: the rules, and that replicas, records and clients are
    /// those of `P`.
    #[must_use]
    pub const fn of<P: Protocol<Input = Input, Output = Output>>(status: Status) -> Self {
        Self {
            rules: P::RULES,
            title: P::RULES.name,
            status,
            about: "",
            paper: "",
            page: None,
            start: start::<P>,
            client: voting_client::<P>,
            check_records: Erased::<P>::check_records,
            recode: |wire| Ok(P::Message::from_bytes(wire)?.to_bytes()),
            forger: None,
            is_settled: |_, _| false,
            starts: &[],
            mutants: &[],
            split: None,
        }
    }

    /// Whether users may choose it by name.
    #[must_use]
    pub const fn is_for_users(&self) -> bool {
        matches!(self.status, Status::Stable | Status::Young) && !self.rules.pillars
    }

    /// Whether a running group can come to order by this protocol: its members alone decide how an
    /// epoch ends.
    #[must_use]
    pub fn can_be_switched_to(&self) -> bool {
        self.is_for_users() && self.rules.authority == Authority::Members
    }

    /// The protocols to which a running group of this one can switch.
    pub fn switches_to(&'static self) -> impl Iterator<Item = &'static Self> {
        let can = self.can_be_switched_to();
        let others = crate::PROTOCOLS.iter().copied().filter(|it| it.can_be_switched_to());
        others.filter(move |it| can && it.rules.name != self.rules.name)
    }

    /// How many letters of a seeded bug's name say that it is looked for in this protocol; none if
    /// it is not.
    #[must_use]
    pub fn claims(&self, mutant: &str) -> Option<usize> {
        let is_its_own = |prefix: &&&str| {
            let rest = mutant.strip_prefix(**prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.mutants.iter().filter(is_its_own).map(|prefix| prefix.len()).max()
    }
}

/// Starts a replica of a protocol.
pub fn start<P: Protocol<Input = Input, Output = Output>>(
    setup: Setup,
    out: &mut Vec<CoreEffect>,
) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<P>::start(setup, out))
}

/// Starts a client of a protocol whose replicas answer for themselves.
pub fn voting_client<P: Protocol>(start: ClientStart) -> Box<dyn ClientCore> {
    Box::new(voting(&P::RULES, start))
}

/// Starts a client that decides for itself what it can rely on, by these rules.
pub fn confirming_client<R: Confirms + 'static>(
    rules: &Rules,
    confirms: R,
    start: ClientStart,
) -> Box<dyn ClientCore> {
    Box::new(ConfirmingClient::new(confirms, start.group.n, voting(rules, start)))
}

fn voting(rules: &Rules, start: ClientStart) -> VotingClient {
    let ClientStart { client, group, timeouts, start_floor, seed } = start;
    let quorums = rules.client_quorums(group);
    let client = VotingClient::new(client, quorums, timeouts, start_floor);
    match seed {
        Some(seed) => client.showing(seed),
        None => client,
    }
}
