//! What a world makes its replicas, clients and services with.

use crate::service::{Journal, Registers};
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::forge::MakeForger;
use pentarchy_core::ids::ClientId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::{Rules, Setup, Timeouts};
use pentarchy_core::service::Service;

/// What is put to the test.
#[derive(Clone, Copy)]
pub struct Factories<'a> {
    /// The protocol's rules.
    pub rules: Rules,
    /// Its replicas.
    pub replica: &'a StartReplica<'a>,
    /// Its clients.
    pub client: &'a StartClient<'a>,
    /// What it replicates.
    pub service: &'a StartService<'a>,
    /// Its liars, if somebody wrote down how to lie in it.
    pub forger: Option<MakeForger>,
    /// Protocols to which a group may switch.
    pub others: &'a [ProtocolParts<'a>],
}

/// A protocol, as a group that switches has it.
#[derive(Clone, Copy)]
pub struct ProtocolParts<'a> {
    /// Its rules.
    pub rules: Rules,
    /// Its replicas.
    pub replica: &'a StartReplica<'a>,
    /// Its clients.
    pub client: &'a StartClient<'a>,
}

impl<'a> Factories<'a> {
    /// A protocol with the simulator's own service.
    #[must_use]
    pub const fn new(
        rules: Rules,
        replica: &'a StartReplica<'a>,
        client: &'a StartClient<'a>,
    ) -> Self {
        let service = &|journal| Box::new(Registers::new(journal)) as Box<dyn Service>;
        Self { rules, replica, client, service, forger: None, others: &[] }
    }

    /// The same, and administrators may have the group switch to these.
    #[must_use]
    pub const fn with_others(self, others: &'a [ProtocolParts<'a>]) -> Self {
        Self { others, ..self }
    }

    /// All protocols that the group may have.
    pub fn all(&self) -> impl Iterator<Item = ProtocolParts<'a>> {
        let Self { rules, replica, client, .. } = *self;
        [ProtocolParts { rules, replica, client }].into_iter().chain(self.others.iter().copied())
    }

    /// The protocol of this group.
    #[must_use]
    pub fn of(&self, membership: &Membership) -> ProtocolParts<'a> {
        let stated = membership.stated.as_ref();
        let is_it = |it: &ProtocolParts<'_>| stated.is_none_or(|to| to.protocol == it.rules.name);
        self.all().find(is_it).expect("members switch only to what they have")
    }

    /// The same, with liars of this make.
    #[must_use]
    pub const fn with_forger(self, forger: Option<MakeForger>) -> Self {
        Self { forger, ..self }
    }
}

/// What a client core is started with.
#[derive(Clone, Copy, Debug)]
pub struct ClientSetup {
    /// Who.
    pub client: ClientId,
    /// Replicas.
    pub n: usize,
    /// Faults that are tolerated.
    pub f: usize,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// Every number below is settled.
    pub start_floor: u64,
}

/// Starts a replica core; its first effects are appended.
pub type StartReplica<'a> = dyn Fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> + Sync + 'a;
/// Starts a client core.
pub type StartClient<'a> = dyn Fn(ClientSetup) -> Box<dyn ClientCore> + Sync + 'a;
/// Makes a service that notes in the journal what it runs.
pub type StartService<'a> = dyn Fn(Journal) -> Box<dyn Service> + Sync + 'a;
