//! In place of a core where a replica has none, because its device is not admitted: takes part in
//! nothing.

use crate::auth::{AuthTag, Verifier};
use crate::digest::Digest;
use crate::erased::{CoreEffect, CoreEvent, Incoming, Outgoing, ReplicaCore};
use crate::ids::{ReplicaId, Slot, View};
use crate::protocol::{Reject, Rules, Status, Topic};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::hash::Hasher;

/// See the module.
#[derive(Clone)]
pub struct Outsider {
    /// Of the protocol in which it will take part.
    pub rules: Rules,
}

impl ReplicaCore for Outsider {
    fn rules(&self) -> Rules {
        self.rules
    }

    fn open(&self, _: &dyn Verifier, _: ReplicaId, _: &Bytes) -> Result<Incoming, Reject> {
        Err(Reject::WrongRole)
    }

    fn open_new(
        &self,
        _: &dyn Verifier,
        _: ReplicaId,
        _: &Bytes,
    ) -> Result<Option<Incoming>, Reject> {
        // What members say to each other meanwhile is no fault of theirs.
        Ok(None)
    }

    fn open_client(&self, _: &dyn Verifier, _: &Bytes) -> Result<Incoming, Reject> {
        Err(Reject::WrongRole)
    }

    fn seal(&self, _: &Outgoing, _: AuthTag) -> (Bytes, Incoming) {
        unreachable!("an outsider sends nothing")
    }

    fn step(&mut self, _: CoreEvent, _: &mut Vec<CoreEffect>) {}

    fn assert_invariants(&self) {}

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "joining",
            committed: Slot(0),
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: 0,
            view_changes: 0,
            reason: "",
        }
    }

    /// It may have told clients of slots that it forgot. Where faulty replicas lie, clients ask
    /// enough others to be told nothing older by one of them; where they do not, it is silent until
    /// it has the state with which an epoch begins.
    fn reads_from(&self) -> Slot {
        if self.rules.fault_model.lies() { Slot(0) } else { Slot(u64::MAX) }
    }

    fn fingerprint(&self, _: &mut dyn Hasher) {}

    fn boxed_clone(&self) -> Box<dyn ReplicaCore> {
        Box::new(self.clone())
    }

    fn topic(&self, _: &Incoming) -> Option<(Topic, Digest)> {
        None
    }

    fn describe(&self, _: &Incoming) -> String {
        String::new()
    }
}
