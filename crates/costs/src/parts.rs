//! The parts of a replica as a host with threads has them: one with clients, execution and, where
//! the order is split, what merges it; and each pillar.

use crate::host::{Host, fresh};
use crate::real::{Envelopes, in_pillars, keys_of_parts};
use crate::speaker::Speaker;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::Tuning;
use pentarchy_core::request::Envelope;
use pentarchy_protocols::pillars;
use pentarchy_protocols::{Descriptor, find, in_pillars as split_entry};
use std::sync::Arc;

/// What a pillar is told by the rest of its replica.
#[derive(Debug)]
pub enum Told {
    /// For its core.
    Input(Box<Input>),
    /// Clients sent these: whether they are authentic.
    Check(Vec<Arc<Envelope>>),
}

/// What a pillar says to the rest of its replica.
#[derive(Debug)]
pub enum Said {
    /// Its core says this.
    Output(Box<Output>),
    /// These are authentic.
    Checked(Vec<Arc<Envelope>>),
}

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
    pub fn cells(&self) -> usize {
        match self.membership.lane.pillars {
            1 => 0,
            pillars => pillars.into(),
        }
    }

    /// A fresh replica.
    #[must_use]
    pub fn replica(&self, me: ReplicaId) -> Parts {
        let Self { entry, membership, envelopes, tuning } = self;
        let (front, cells) = keys_of_parts(entry, me, membership, *envelopes);
        let Some(split) = entry.split.filter(|_| !cells.is_empty()) else {
            let front = Host::new(me, membership, entry, front, *tuning);
            return Parts { front, cells: Vec::new() };
        };
        let parts: pillars::Parts = (split.start)(fresh(me, membership, *tuning));
        let cells = parts.cells.into_iter().zip(cells);
        Parts {
            front: Host::around(parts.stage, me, membership, front).beside_pillars(membership.lane),
            cells: cells.map(|(part, keys)| Speaker::new(part, me, membership, keys)).collect(),
        }
    }
}

/// One replica.
pub struct Parts {
    /// All that pillars do not do.
    pub front: Host,
    /// The pillars, by number; none if the order is not split.
    pub cells: Vec<Speaker>,
}
