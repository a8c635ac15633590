//! How a simulated replica starts, in worlds and in traces: with the group in which it has a place
//! first and nothing else, or with what it kept.

use super::factory::SimFactory;
use super::{
    Act, Fault, KeptDisk, OneDevice, Parts, ReplicaNode, SharedDevice, SharedKept, life_of,
};
use crate::crypto::Crypto;
use crate::factories::Factories;
use crate::key_ring::SharedKeyRing;
use crate::observation::Observation;
use crate::packet::member_at;
use crate::service::Journal;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{ClientId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Tuning;
use pentarchy_core::service::Service;
use pentarchy_machine::{self as machine, Beginning};
use pentarchy_storage::kept::Past;
use std::sync::Arc;

/// What a replica starts with.
pub struct NodeStart<'f> {
    /// At which place it is.
    pub id: ReplicaId,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// The clients, by index.
    pub clients: Arc<[ClientId]>,
    /// What makes its cores.
    pub factories: Factories<'f>,
    /// Sizes.
    pub tuning: Tuning,
    /// Its trusted counters.
    pub device: SharedDevice,
    /// Its signing keys.
    pub ring: SharedKeyRing,
    /// The group in which it has a place first, and how the configurations before had ended.
    pub chain: (Arc<Membership>, Vec<Proof>),
    /// What it replicates, and what that writes.
    pub service: (Box<dyn Service>, Journal),
    /// Whether it is faulty, and how.
    pub faulty: Option<Fault>,
    /// Its disk, if it has one, ...
    pub kept: Option<SharedKept>,
    /// ... and what was there when it started again.
    pub past: Option<Past>,
}

impl<'f> NodeStart<'f> {
    /// Starts the replica at this time, and carries out its first effects.
    ///
    /// # Panics
    /// If it cannot start with what it kept.
    #[must_use]
    pub fn start(self, elapsed_ms: u64, acts: &mut Vec<Act>) -> ReplicaNode<'f> {
        let Self { id, crypto, clients, factories, tuning, device, ring, .. } = self;
        let Self { chain: (membership, links), service: (service, journal), .. } = self;
        let Self { faulty, kept, past, .. } = self;
        let (life, pillars) = (life_of(&device), membership.lane.pillars);
        let mut factory = SimFactory {
            id,
            crypto: crypto.clone(),
            ring: ring.clone(),
            life,
            factories,
            tuning,
            lets_anyone_in: faulty.as_ref().is_some_and(|fault| fault.lets_anyone_in),
        };
        let beginning = Beginning {
            me: member_at(id),
            life,
            membership,
            links,
            learned: None,
            factory: &mut factory,
            counters: &mut OneDevice::all(&device, pillars),
            is_split: false,
        };
        let asks = past.is_some();
        let disk =
            |kept: &SharedKept| machine::Kept::Log(KeptDisk(kept.clone()), past.map(Box::new));
        let keeps = kept.as_ref().map_or(machine::Kept::Nothing, disk);
        let begun = beginning.begin(service, keeps);
        let begun = begun.unwrap_or_else(|why| panic!("{id} cannot begin: {why}"));
        let epoch = begun.following.membership().epoch;
        for (ui, digest) in begun.certified.iter() {
            let (ui, digest) = (*ui, *digest);
            acts.push(Act::Saw(Observation::Certified { epoch, ui, digest }));
        }
        let parts = Parts {
            id,
            crypto,
            clients,
            executor: begun.executor,
            journal,
            core: begun.core,
            epochs: begun.following,
            factory: Box::new(factory),
            device,
            ring,
            faulty,
            kept,
            store: begun.store,
            asks,
        };
        ReplicaNode::new(parts, elapsed_ms, acts)
    }
}
