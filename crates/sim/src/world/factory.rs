//! What a simulated replica goes from epoch to epoch with.

use crate::crypto::{Crypto, Keys};
use crate::factories::Factories;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::{BadRecord, Memory, Setup, Tuning};
use pentarchy_machine::EpochFactory;
use std::sync::Arc;

/// Makes a replica's cores, and what checks others' statements.
pub struct SimFactory<'f> {
    /// Which replica.
    pub id: ReplicaId,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// What makes cores.
    pub factories: Factories<'f>,
    /// Sizes.
    pub tuning: Tuning,
}

impl EpochFactory for SimFactory<'_> {
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let (crypto, me, membership) = (self.crypto.clone(), self.id, membership.clone());
        Arc::new(Keys { crypto, me, membership })
    }

    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        let (me, membership, tuning) = (self.id, membership.clone(), self.tuning);
        (self.factories.replica)(Setup { me, membership, fetch, memory, tuning }, effects)
    }

    fn check_records(&self, _: &[Bytes]) -> Result<(), BadRecord> {
        Ok(())
    }
}
