//! The parts of a replica as a host with threads has them: one with clients, execution and, where
//! the order is split, what merges it; and each pillar.

use crate::Unwatched;
use crate::host::{Host, Keys, fresh};
use crate::ordering_core::{OrderingCore, OrderingFront};
use crate::real::{Envelopes, in_pillars, keys_of_parts};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Tuning;
use pentarchy_machine::pillar::ToPillar;
use pentarchy_protocols::pillars::Part;
use pentarchy_protocols::{Descriptor, find, in_pillars as split_entry};
use std::sync::Arc;

/// What replicas of a group are made of.
#[derive(Clone)]
pub struct Blueprint {
    /// The protocol; of pillars, that of all together.
    pub entry: &'static Descriptor,
    /// Who is in it, and into how many pillars the order is split.
    pub membership: Arc<Membership>,
    /// Whether they check what clients sign.
    pub envelopes: Envelopes,
    /// Sizes.
    pub tuning: Tuning,
}

impl Blueprint {
    /// Of a protocol of this name with so many pillars; none if it cannot be split.
    #[must_use]
    pub fn new(protocol: &str, f: usize, pillars: u8, tuning: Tuning) -> Option<Self> {
        let entry = if pillars == 1 { find(protocol) } else { split_entry(protocol) }?;
        let membership = in_pillars(entry, f, pillars);
        Some(Self { entry, membership, envelopes: Envelopes::Checked, tuning })
    }

    /// The same with replicas that do this with what clients sign.
    #[must_use]
    pub const fn with(mut self, envelopes: Envelopes) -> Self {
        self.envelopes = envelopes;
        self
    }

    /// How many pillars have a part of their own: none if the order is not split.
    #[must_use]
    pub fn pillar_cores(&self) -> usize {
        match self.membership.lane.pillars {
            1 => 0,
            pillars => pillars.into(),
        }
    }

    /// A fresh replica that executes nothing.
    #[must_use]
    pub fn replica(&self, me: ReplicaId) -> Parts {
        let (front, keys, mut pillar_cores) = self.cores(me);
        let core = OrderingCore::new(front, me, &self.membership, keys);
        let mut front = OrderingFront::new(core, self.membership.lane);
        front.outputs();
        tell(front.to_pillars(), &mut pillar_cores);
        Parts { front, pillar_cores }
    }

    /// A fresh replica with its execution, which these clients are connected to.
    #[must_use]
    pub(crate) fn whole(&self, me: ReplicaId, clients: impl Iterator<Item = ClientId>) -> Whole {
        let (front, keys, mut pillar_cores) = self.cores(me);
        let mut front = Host::around(front, me, &self.membership, keys, !pillar_cores.is_empty());
        clients.for_each(|client| front.connect(client));
        front.begin_round(Millis(0), &mut Unwatched);
        tell(front.to_pillars(), &mut pillar_cores);
        Whole { front, pillar_cores }
    }

    /// The core with clients, its keys, and the pillars.
    fn cores(&self, me: ReplicaId) -> (Part, Keys, Vec<OrderingCore>) {
        let Self { entry, membership, envelopes, tuning } = self;
        let (keys, of_pillar_cores) = keys_of_parts(entry, me, membership, *envelopes);
        let setup = fresh(me, membership, *tuning);
        let Some(split) = entry.split.filter(|_| !of_pillar_cores.is_empty()) else {
            let mut effects = Vec::new();
            let core = (entry.start)(setup, &mut effects);
            return (Part { core, effects }, keys, Vec::new());
        };
        let parts = (split.start)(setup);
        let pillar_cores = parts.pillar_cores.into_iter().zip(of_pillar_cores);
        let cell = |(part, keys)| OrderingCore::new(part, me, membership, keys);
        (parts.merger, keys, pillar_cores.map(cell).collect())
    }
}

/// One replica.
pub struct Parts {
    /// All that pillars do not do.
    pub front: OrderingFront,
    /// The pillars, by number; none if the order is not split.
    pub pillar_cores: Vec<OrderingCore>,
}

/// The same with execution.
pub(crate) struct Whole {
    pub front: Host,
    pub pillar_cores: Vec<OrderingCore>,
}

/// Has pillars hear what they are told at the beginning.
fn tell(told: impl Iterator<Item = (u8, ToPillar)>, pillar_cores: &mut [OrderingCore]) {
    for (pillar, told) in told {
        pillar_cores[usize::from(pillar)].hear(told);
    }
}
