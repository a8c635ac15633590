//! Explores, within budgets, everything that can happen to a small group: the cores that hosts run,
//! every order of events, and one liar. [`Plan`] is the budgets; start at [`explore`].

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
