//! Makes what changes with the epoch: cores, and what checks others' statements.

use bytes::Bytes;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::Change;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::ReplicaSet;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Tuning};
use std::sync::Arc;

/// Makes what a replica needs anew in each epoch.
pub trait EpochFactory: Send {
    /// The rules of the protocol by which the group orders in this epoch.
    fn rules(&self, membership: &Membership) -> Rules;

    /// The sizes that the group's replicas share.
    fn tuning(&self) -> Tuning {
        Tuning::default()
    }

    /// What checks others' statements in this epoch.
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier>;

    /// Starts the protocol's core; its first effects are appended. See [`Setup::fetch`] and
    /// [`Setup::memory`], whose records were [checked](Self::check_records). Called only for an
    /// epoch that admits this replica's device.
    ///
    /// [`Setup::fetch`]: pentarchy_core::protocol::Setup::fetch
    /// [`Setup::memory`]: pentarchy_core::protocol::Setup::memory
    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore>;

    /// Whether [`Self::split`] starts something.
    fn can_split(&self) -> bool {
        false
    }

    /// The same core in parts: what merges the orders of several, and those, each to be run on a
    /// thread of its own. None if it cannot be taken apart.
    fn split(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: &Memory,
    ) -> Option<Split> {
        let _ = (membership, fetch, memory);
        None
    }

    /// Whether this replica can order by the protocol that this configuration names, and check
    /// requests as it says, if either is another one than now.
    fn can_switch_to(&mut self, next: &Configuration) -> bool {
        let _ = next;
        false
    }

    /// Makes, durably, what this replica needs in the next configuration, unless it is there. None
    /// as long as it is being made, and in hosts whose keys never change.
    fn prepare(&mut self, change: &Change, digest: &Digest) -> Option<Prepared> {
        let _ = (change, digest);
        None
    }

    /// Signs by the key that was prepared under this public key; none if there is none.
    fn sign_as(&self, signing: &[u8; 32], statement: &Digest) -> Option<Signature> {
        let _ = (signing, statement);
        None
    }

    /// Keys of configurations before the present one are to be erased.
    fn erase_former_keys(&mut self) {}

    /// The group goes on without this replica, and needs it no more: all keys by which it signed
    /// are to be erased. Else whoever found the machines of `f + 1` members that left together
    /// could make up how their last configuration ended.
    fn retire(&mut self) {}

    /// Whether one of those is still there.
    fn has_former_keys(&self) -> bool {
        false
    }

    /// What was made for changes that are void can go.
    fn forget_prepared(&mut self, is_void: &dyn Fn(&Change) -> bool) {
        let _ = is_void;
    }

    /// Whether these are records of such a core as this epoch has.
    ///
    /// # Errors
    /// [`BadRecord`] names the first that is not.
    fn check_records(&self, membership: &Membership, records: &[Bytes]) -> Result<(), BadRecord>;
}

/// What a replica has for the next configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// The public key under which it is to sign.
    pub signing: [u8; 32],
    /// The life of its device that is to count.
    pub life: Life,
}

/// A core that was started.
pub struct Started {
    /// The core.
    pub core: Box<dyn ReplicaCore>,
    /// What it asked for.
    pub effects: Vec<CoreEffect>,
}

/// A core in parts.
pub struct Split {
    /// What merges their orders, and speaks with the host.
    pub merger: Started,
    /// Those that agree on them, by their numbers.
    pub pillar_cores: Vec<Started>,
}

/// For hosts whose groups never come to another epoch, as probes and tests run.
pub struct OneEpoch;

impl EpochFactory for OneEpoch {
    fn rules(&self, _: &Membership) -> Rules {
        unreachable!("there is one epoch")
    }
    fn verifier(&mut self, _: &Arc<Membership>) -> Arc<dyn Verifier> {
        unreachable!("there is one epoch")
    }
    fn core(
        &mut self,
        _: &Arc<Membership>,
        _: Option<ReplicaSet>,
        _: Memory,
        _: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        unreachable!("there is one epoch")
    }
    fn check_records(&self, _: &Membership, _: &[Bytes]) -> Result<(), BadRecord> {
        Ok(())
    }
}
