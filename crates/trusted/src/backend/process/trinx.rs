//! TrInX instances in a process of their own.

use super::CounterProcess;
use super::question::{Answer, Question};
use crate::backend::Trinx;
use crate::trinx::{Ask, Certificate, Claim, InstanceId, Kind, Memory, Reading};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::Incarnation;
use std::sync::Arc;

/// The instances of one replica, in the process that was started for them.
#[derive(Debug)]
pub struct TrinxProcess(Arc<CounterProcess>);

impl TrinxProcess {
    /// In this process, which has to be one of TrInX.
    #[must_use]
    pub const fn new(process: Arc<CounterProcess>) -> Self {
        Self(process)
    }
}

fn done(answer: Answer) -> Option<()> {
    (answer == Answer::Done).then_some(())
}

/// Whether this answers the question: it says of every counter what was asked for, and a value
/// before that is not above it. The seal only devices can check.
fn answers(claim: &Claim, ask: &Ask, incarnation: Incarnation) -> bool {
    let continuing = ask.kind == Kind::Continuing;
    (claim.incarnation, claim.kind) == (incarnation, ask.kind)
        && claim.readings.iter().zip(&ask.values).all(|(reading, asked)| match (reading, asked) {
            (None, None) => true,
            (Some(Reading { value, previous }), Some(asked)) => {
                value == asked
                    && previous.is_some() == continuing
                    && previous.is_none_or(|previous| previous <= *value)
            }
            _ => false,
        })
}

impl Trinx for TrinxProcess {
    fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }
    fn instances(&self) -> u16 {
        self.0.instances
    }
    fn begin_epoch(&mut self, instance: u16, epoch: &EpochId) -> Result<(), Refused> {
        self.0.instance(instance, &Question::BeginEpoch(*epoch), done)
    }
    fn certify(
        &mut self,
        instance: u16,
        ask: &Ask,
        digest: &Digest,
    ) -> Result<Certificate, Refused> {
        let question = Question::Certify(*ask, *digest);
        self.0.instance(instance, &question, |answer| match answer {
            Answer::Certificate(it) if answers(&it.claim, ask, self.0.incarnation) => Some(it),
            _ => None,
        })
    }
    fn memory(&self, instance: u16) -> Option<Memory> {
        let memory = self.0.instance(instance, &Question::Recall, |answer| match answer {
            Answer::Memory(memory) => Some(memory),
            _ => None,
        });
        memory.ok().flatten().map(|memory| *memory)
    }
    fn restore(&mut self, instance: u16, memory: &Memory) -> Result<(), Refused> {
        self.0.instance(instance, &Question::Restore(Box::new(*memory)), done)
    }
    fn verify(
        &self,
        context: &Digest,
        by: InstanceId,
        certificate: &Certificate,
        digest: &Digest,
    ) -> bool {
        let question = Question::CheckTrinx(*context, by, *certificate, *digest);
        let verdict = self.0.instance(0, &question, |answer| match answer {
            Answer::Is(is) => Some(is),
            _ => None,
        });
        verdict.unwrap_or(false)
    }
}
