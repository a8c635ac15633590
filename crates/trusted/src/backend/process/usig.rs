//! A USIG in a process of its own.

use super::CounterProcess;
use super::question::{Answer, Question};
use crate::scope::Scope;
use crate::usig;
use pentarchy_core::counter::{Certificate, Instance, Memory, Position, Refused, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::verifier::UsigCheck;
use std::sync::Arc;

/// The USIG of one replica, in the process that was started for it.
#[derive(Debug)]
pub struct UsigProcess {
    process: Arc<CounterProcess>,
    check: Arc<ApartCheck>,
}

impl UsigProcess {
    /// In this process, which has to be one of a USIG, in the epoch of this membership.
    #[must_use]
    pub fn new(process: Arc<CounterProcess>, membership: &Membership) -> Self {
        let check = Arc::new(ApartCheck::new(process.clone(), membership));
        Self { process, check }
    }

    /// Checks certificates without the counter, for a verifier on any thread.
    #[must_use]
    pub fn check(&self) -> Arc<ApartCheck> {
        self.check.clone()
    }
}

fn done(answer: Answer) -> Option<()> {
    (answer == Answer::Done).then_some(())
}

impl Usig for UsigProcess {
    fn incarnation(&self) -> Incarnation {
        self.process.incarnation
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.process.instance(0, &Question::BeginEpoch(membership.epoch_id()), done)?;
        self.check = Arc::new(self.check.for_epoch(membership));
        Ok(())
    }
    /// Takes what names this life and position and a commitment below it. The seal only devices can
    /// check.
    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        let incarnation = self.process.incarnation;
        self.process.instance(0, &Question::Create(position, *digest), |answer| match answer {
            Answer::Ui(ui)
                if (ui.incarnation, ui.position) == (incarnation, position)
                    && ui.instance == Instance::FIRST
                    && ui.committed < position
                    && matches!(ui.certificate, Certificate::Mac(_)) =>
            {
                Some(ui)
            }
            _ => None,
        })
    }
    fn memory(&self) -> Option<Memory> {
        let memory = self.process.instance(0, &Question::RecallUsig, |answer| match answer {
            Answer::UsigMemory(memory) => Some(memory),
            _ => None,
        });
        memory.ok()
    }
    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        self.process.instance(0, &Question::RestoreUsig(memory.clone()), done)
    }
    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.check.check(replica, ui, digest)
    }
}

/// Checks the certificates of other devices with the group's key in the other process, bound to one
/// epoch of a group under one configuration. What the replica's process can check itself is
/// [`Check`](crate::Check)'s.
#[derive(Debug)]
pub struct ApartCheck {
    process: Arc<CounterProcess>,
    scope: Scope,
}

impl ApartCheck {
    /// Has this process check, for the epoch of this membership.
    #[must_use]
    pub fn new(process: Arc<CounterProcess>, membership: &Membership) -> Self {
        Self { process, scope: Scope::new(usig::context_of(&membership.epoch_id()), membership) }
    }

    /// The same for a later epoch of the group.
    #[must_use]
    pub fn for_epoch(&self, membership: &Membership) -> Self {
        Self::new(self.process.clone(), membership)
    }
}

impl UsigCheck for ApartCheck {
    fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        // There is one in each replica, so no seal names it.
        ui.instance == Instance::FIRST
            && self.scope.member(replica).is_some_and(|member| {
                self.process.check_usig(&self.scope.context, member, ui, digest)
            })
    }

    fn is_apart(&self) -> bool {
        true
    }
}
