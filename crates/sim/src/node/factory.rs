//! What a simulated replica goes from epoch to epoch with.

use crate::crypto::{Crypto, Keys};
use crate::factories::Factories;
use crate::key_ring::SharedKeyRing;
use crate::packet::member_at;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::Change;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Setup, Tuning};
use pentarchy_machine::{EpochFactory, Prepared};
use std::sync::Arc;

/// Makes a replica's cores, and what checks others' statements.
pub struct SimFactory<'f> {
    /// At which place the replica is.
    pub id: ReplicaId,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// Its signing keys.
    pub ring: SharedKeyRing,
    /// The life of its device.
    pub life: Life,
    /// What makes cores.
    pub factories: Factories<'f>,
    /// Sizes.
    pub tuning: Tuning,
    /// See [`Keys::lets_anyone_in`].
    pub lets_anyone_in: bool,
}

impl EpochFactory for SimFactory<'_> {
    fn rules(&self, membership: &Membership) -> Rules {
        self.factories.of(membership).rules
    }

    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let (crypto, me, membership) = (self.crypto.clone(), self.id, membership.clone());
        Arc::new(Keys { crypto, me, membership, lets_anyone_in: self.lets_anyone_in })
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }
    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        let me = membership.index_of(member_at(self.id)).expect("it has a place");
        let (start, tuning) = (self.factories.of(membership).replica, self.tuning);
        start(Setup { me, membership: membership.clone(), fetch, memory, tuning }, effects)
    }

    fn can_switch_to(&mut self, next: &Configuration) -> bool {
        let is_it = |it: &Rules| it.name == next.protocol && it.facts() == next.facts;
        self.factories.all().any(|it| is_it(&it.rules))
    }

    fn prepare(&mut self, change: &Change, _: &Digest) -> Option<Prepared> {
        let signing = self.ring.lock().prepare(change);
        Some(Prepared { signing, life: self.life })
    }

    fn sign_as(&self, signing: &[u8; 32], statement: &Digest) -> Option<Signature> {
        let is_there = self.ring.lock().has_prepared(signing);
        is_there.then(|| Signature(self.crypto.sign(self.id, signing, statement)))
    }

    fn erase_former_keys(&mut self) {
        self.ring.lock().erase_former();
    }

    fn has_former_keys(&self) -> bool {
        self.ring.lock().former() > 0
    }

    fn retire(&mut self) {
        self.ring.lock().retire();
    }

    fn forget_prepared(&mut self, is_void: &dyn Fn(&Change) -> bool) {
        self.ring.lock().forget(is_void);
    }

    fn check_records(&self, _: &Membership, _: &[Bytes]) -> Result<(), BadRecord> {
        Ok(())
    }
}
