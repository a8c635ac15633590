//! Clients, and the threads that drive them.

use super::case::{Case, Drivers};
use super::counting::Counts;
use super::crowd::{Crowd, Member, Share};
use super::group::Group;
use super::load::{Signals, Tally, offer};
use super::operations::Recipe;
use pentarchy_console::failure::{Failure, Outcome};
use std::sync::Arc;

/// What one thread does from the connecting of its clients until the end of the window.
pub type Job = Box<dyn FnOnce(&Signals) -> Outcome<Tally> + Send>;

/// The jobs that offer a case's load.
pub fn jobs(
    group: &Group,
    case: &Case,
    recipe: &Recipe,
    counts: &Arc<Counts>,
) -> Outcome<Vec<Job>> {
    match case.drivers {
        Drivers::Own => own(group, case, recipe, counts),
        Drivers::Loops(threads) => loops(group, case, recipe, counts, threads),
    }
}

/// How many clients say that they are connected, of those that [`jobs`] made.
pub const fn announced(case: &Case) -> usize {
    match case.drivers {
        Drivers::Own => 0,
        Drivers::Loops(_) => case.keys().0,
    }
}

fn own(group: &Group, case: &Case, recipe: &Recipe, counts: &Arc<Counts>) -> Outcome<Vec<Job>> {
    let (keys, outstanding) = case.keys();
    let job = |number| -> Outcome<Job> {
        let client = group.connect(counts)?;
        let operations = recipe.client(number as u64);
        Ok(Box::new(move |signals| Ok(offer(&client, operations, outstanding, signals))))
    };
    (0..keys).map(job).collect()
}

fn loops(
    group: &Group,
    case: &Case,
    recipe: &Recipe,
    counts: &Arc<Counts>,
    threads: usize,
) -> Outcome<Vec<Job>> {
    let (keys, outstanding) = case.keys();
    let threads = threads.min(keys);
    let job = |thread| -> Outcome<Job> {
        let mut crowd = Crowd::new(group.config.replicas.len())?;
        for number in (thread..keys).step_by(threads) {
            let operations = recipe.client(number as u64);
            let config = group.client(counts)?;
            let member = Member::new(config, operations, outstanding, crowd.next_token());
            let member = member
                .map_err(|error| Failure::Internal(format!("cannot connect a client: {error}")))?;
            crowd.add(member);
        }
        let share = Share { rate: case.rate, thread, threads };
        Ok(Box::new(move |signals| crowd.run(share, signals)))
    };
    (0..threads).map(job).collect()
}
