//! Olympus: who the members of a chain are, and with what each of its configurations begins (van
//! Renesse and others, *Byzantine Chain Replication*, section 3.3).
//!
//! A chain does not change its own members: a fault ends its configuration, and Olympus, a service
//! outside, says what the next one is. It is a deterministic service of another ordered group, so
//! ordering, durability, transfer of states and voting are that group's. Members, candidates and
//! administrators are ordinary clients of that group, each under its identity key.
//! `docs/olympus.md` has the rules and the arguments for them.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `operation`, `answer`, `link` | what is asked and said; how configurations follow each other |
//! | `state` | what is remembered, and what the agreed time does |
//! | `governing`, `pool` | who can be a member, and who is taken first |
//! | `wedging`, `reports` | how an epoch is stopped, and which reports count |
//! | `choice` | what can be inherited |
//! | `preparing` | proposal, holders, and the one next configuration |
//! | `sections` | the state as bytes |
//! | `terms`, `signatures` | figures and bounds; what is asked of keys |

mod answer;
mod choice;
mod governing;
mod link;
mod operation;
mod pool;
mod preparing;
mod reports;
mod sections;
mod signatures;
mod state;
pub mod terms;
mod wedging;

pub use answer::{Accusation, Answer, Notice, Refusal, Stage, Standing, Status};
pub use link::{Link, Proposal};
pub use operation::{Conviction, Operation};
pub use sections::SECTIONS;
pub use signatures::CheckSignatures;
pub use terms::Terms;

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::configuration::{BadConfiguration, Configuration};
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::membership::Life;
use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::{Malformed, Wire as _};
use sections::MAIN;
use state::State;

/// Olympus as a replicated service.
pub struct Olympus<S> {
    state: State,
    signatures: S,
    /// Whether the first sections were named.
    is_reported: bool,
}

impl<S: CheckSignatures> Olympus<S> {
    /// Serves a group that begins with this configuration, in which these lives of devices count.
    /// **All of it must be the same on all replicas.**
    ///
    /// # Errors
    /// [`BadConfiguration`] if no group can begin so.
    ///
    /// # Panics
    /// If there is not one life for each member.
    pub fn new(
        first: &Configuration,
        lives: &[Life],
        terms: Terms,
        signatures: S,
    ) -> Result<Self, BadConfiguration> {
        first.check()?;
        let state = State::new(first.begin(lives), first, terms);
        Ok(Self { state, signatures, is_reported: false })
    }

    fn run(&mut self, client: ClientId, operation: Operation) -> Result<Answer, Refusal> {
        let (state, signatures) = (&mut self.state, &self.signatures);
        match operation {
            Operation::Enrol { .. } | Operation::Dismiss(_) | Operation::Spares(_) => {
                state.govern(client, &operation)
            }
            Operation::Register { signing, life } => state.register(&client, signing, life),
            Operation::Accuse { epoch, about, why } => state.accuse(&client, epoch, about, why),
            Operation::Convict(conviction) => state.convict(&conviction, signatures),
            Operation::Report { report, certificate } => {
                state.report(&client, report, certificate.as_ref(), signatures)
            }
            Operation::Holds { attempt, link, life } => {
                state.holds(&client, (attempt, &link), life)
            }
            Operation::Lacks { attempt, link, slot } => {
                state.lacks(&client, (attempt, &link), slot)
            }
            Operation::Renew { epoch } => state.renew(&client, epoch),
            Operation::Status { .. } | Operation::Link { .. } => Ok(self.look(&operation)),
        }
    }

    fn look(&self, operation: &Operation) -> Answer {
        match operation {
            Operation::Status { epoch } => Answer::Status(Box::new(self.state.status(*epoch))),
            Operation::Link { epoch } => {
                Answer::Link(self.state.links.of(*epoch).cloned().map(Box::new))
            }
            _ => Answer::Refused(Refusal::NotSo),
        }
    }
}

/// An operation, if a client can have meant one.
fn decoded(operation: &[u8]) -> Result<Operation, Refusal> {
    if operation.len() > OPERATION_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    Operation::from_bytes(&Bytes::copy_from_slice(operation)).map_err(|_| Refusal::Malformed)
}

impl<S: CheckSignatures> Service for Olympus<S> {
    /// Time passes first, so that what it brings about does not depend on what is asked; then the
    /// operation may complete something, a choice or the last holder.
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.state.advance(context.time);
        self.state.prepare();
        let answer = decoded(operation).and_then(|it| self.run(context.client, it));
        self.state.advance(context.time);
        self.state.prepare();
        answer.unwrap_or_else(Answer::Refused).to_bytes().to_vec()
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let answer = decoded(operation).map(|it| self.look(&it));
        answer.unwrap_or_else(Answer::Refused).to_bytes().to_vec()
    }

    fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.state.events)
    }

    fn sections(&self) -> u32 {
        SECTIONS
    }

    fn section(&self, index: u32) -> Vec<u8> {
        self.state.section(index)
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        let mut changed = core::mem::take(&mut self.state.changed);
        changed.insert(MAIN);
        if !core::mem::replace(&mut self.is_reported, true) {
            changed.extend((0..SECTIONS).filter(|index| !self.section(*index).is_empty()));
        }
        changed.into_iter().collect()
    }

    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        if index >= SECTIONS {
            return Err(Malformed);
        }
        self.state.changed.insert(index);
        self.state.restore(index, bytes)
    }
}
