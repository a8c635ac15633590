//! Explores, within budgets, everything that can happen to a small group: the cores and the host
//! that the simulator runs, every order of events, and one liar. [`Plan`] is the budgets; start at
//! [`explore`].
//!
//! # States and steps
//! A state is every correct replica (core, device, armed timers, whether it asked for another view,
//! the batches that it executed, what is left of its budgets), what the liar knows and its device,
//! and the messages under way. A step is: a client's request reaches a replica, a message arrives,
//! a timer runs out, a wished state arrives, or the liar says something. The search is breadth
//! first, states are known again by 128 bits of their hash, and the run that is printed is a
//! shortest one.
//!
//! # What needs no budget
//! A message under way may stay so for ever, so every loss is covered; a replica to which nothing
//! happens any more has crashed, so every crash is covered; and messages overtake each other at
//! will. A message has an effect at most once, unless it is sent again; two copies under way are
//! one.
//!
//! # What is left out, and why nothing is missed by it
//! - *Steps that change nothing.* A message that has no effect now stays under way, as if it were
//!   late. A message that can have no effect any more ([`Explored::is_settled`]) counts as lost.
//! - *Equal steps.* What an event does to a replica's state is computed once; events at different
//!   replicas commute, and their orders meet in one state.
//! - *Alike clients.* The first request to arrive is that of the first client. Replicas are not
//!   alike (each is the primary of other views), so there is no such reduction for them.
//! - *The liar's waiting.* It hears at once what was sent to it, and makes a lie just before that
//!   first arrives, or just before the next lie. Lies that correct replicas refuse are not told.
//!
//! # What is not explored
//! - Time: clocks stand still, and any armed timer may run out, up to its budget. Rounds end after
//!   each event, and a batch holds what [`Plan::tuning`] lets it hold.
//! - Retransmission beyond [`Plan::resends`]; by default none, since nothing has to be lost.
//! - Chunks of state transfer: a wished state comes whole, from a correct replica that has it.
//! - Liveness, and clients that decide: the simulator asks for these. Where replicas execute what
//!   is not final, a client may ask each replica once more; what is judged is what becomes final.

mod liar;
mod plan;
mod replica;
mod report;
mod search;
mod space;
mod start;

pub use plan::{Explored, Plan};
pub use report::{Counterexample, Report};

use crate::checker::Broken;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::protocol::Setup;
use std::time::Instant;

/// How a replica core is brought up.
pub type StartCore = dyn Fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore>;

/// Explores. `on` is told the number of states now and then, and stops the search with `false`.
///
/// # Errors
/// A mistake in the plan.
pub fn explore(
    plan: &Plan,
    explored: &Explored<'_>,
    on: impl FnMut(usize) -> bool,
) -> Result<Report, String> {
    let begun = Instant::now();
    let mut search = search::Search::new(plan, explored)?;
    start::begin(&mut search, &plan.start)?;
    let outcome = search.run(on);
    Ok(report::report(search, outcome, begun.elapsed()))
}
