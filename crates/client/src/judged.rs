//! The outstanding operations whose replies the application judges, or would if the protocol's
//! client did not: by their names it cancels them.

use crate::completion::Completion;
use crate::error::RequestError;
use crate::inbox::Command;
use crate::judging::{Tally, result};
use bytes::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::JUDGED_BYTES_MAX;
use pentarchy_core::ports::client::Outcome;
use std::collections::{BTreeMap, VecDeque};

/// See the [module](self).
#[derive(Default)]
pub struct JudgedOperations {
    /// By number, each with the name that the handle gave it; without a tally if the protocol's
    /// client judges it.
    tallies: BTreeMap<u64, (u64, Option<Box<Tally>>)>,
    bytes: usize,
}

impl JudgedOperations {
    /// An operation is sent.
    pub fn begin(&mut self, number: u64, id: u64, tally: Option<Box<Tally>>) {
        self.tallies.insert(number, (id, tally));
    }

    /// The number of the operation of this name.
    pub fn find(&self, id: u64) -> Option<u64> {
        self.tallies.iter().find(|(_, (name, _))| *name == id).map(|(number, _)| *number)
    }

    /// A replica replied; see [`Tally::told`]. Gives what the application is told, once that is
    /// known.
    pub fn told(
        &mut self,
        number: u64,
        from: ReplicaId,
        outcome: Outcome,
        (ordered, needed): (bool, usize),
    ) -> Option<Result<Bytes, RequestError>> {
        let tally = self.tallies.get_mut(&number)?.1.as_mut()?;
        let before = tally.bytes();
        let outcome = tally.told(from, outcome, ordered, needed);
        self.bytes = self.bytes - before + tally.bytes();
        let is_crowded = self.bytes > JUDGED_BYTES_MAX && outcome.is_none();
        if is_crowded { Some(Err(RequestError::Crowded)) } else { outcome.map(result) }
    }

    /// No more replies to it are needed.
    pub fn end(&mut self, number: u64) {
        if let Some((_, Some(tally))) = self.tallies.remove(&number) {
            self.bytes -= tally.bytes();
        }
    }
}

/// Takes a judged operation out of those that were not sent yet.
pub fn take_held_back(
    held_back: &mut VecDeque<(Command, Option<u64>)>,
    name: u64,
) -> Option<Completion> {
    let is_it = |(it, _): &(Command, _)| matches!(it, Command::Judged { id, .. } if *id == name);
    match held_back.remove(held_back.iter().position(is_it)?) {
        Some((Command::Judged { done, .. }, _)) => Some(done),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judging::Judgement;

    #[test]
    fn replies_that_take_too_much_room_end_their_operation() {
        let mut judged = JudgedOperations::default();
        let tally = || Some(Box::new(Tally::new(Judgement::default(), None)));
        judged.begin(7, 0, tally());
        judged.begin(8, 1, tally());
        assert_eq!((judged.find(1), judged.find(2)), (Some(8), None));
        let large = |byte| Outcome::Done(Bytes::from(vec![byte; JUDGED_BYTES_MAX / 2]));
        assert_eq!(judged.told(7, ReplicaId(0), large(1), (true, 2)), None);
        assert_eq!(judged.told(8, ReplicaId(0), large(1), (true, 2)), None);
        let more = judged.told(8, ReplicaId(1), large(2), (true, 2));
        assert_eq!(more, Some(Err(RequestError::Crowded)));
        judged.end(8);
        let enough = judged.told(7, ReplicaId(2), large(1), (true, 2));
        assert!(enough.is_some_and(|it| it.is_ok()));
        judged.end(7);
        assert_eq!((judged.bytes, judged.told(7, ReplicaId(1), large(1), (true, 2))), (0, None));
    }
}
