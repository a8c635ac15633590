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
    /// Bytes of what each replica said, in all tallies.
    bytes: BTreeMap<ReplicaId, usize>,
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
        tally.held().for_each(|held| release(&mut self.bytes, held));
        let outcome = tally.told(from, outcome, ordered, needed);
        tally.held().for_each(|(from, bytes)| *self.bytes.entry(from).or_default() += bytes);
        outcome.map(result)
    }

    /// Drops what a replica said of the operations that began last, until the rest takes no more
    /// than [`JUDGED_BYTES_MAX`]: so no replica takes another's room, and the operation that began
    /// first always has what it needs. Gives the numbers of which something was dropped.
    pub fn make_room(&mut self, from: ReplicaId) -> impl Iterator<Item = u64> + use<> {
        let mut dropped = Vec::new();
        let mut numbers = self.tallies.iter_mut().rev();
        while self.bytes.get(&from).is_some_and(|bytes| *bytes > JUDGED_BYTES_MAX)
            && let Some((number, (_, tally))) = numbers.next()
        {
            if let Some(bytes) = tally.as_mut().and_then(|tally| tally.forget(from)) {
                release(&mut self.bytes, (from, bytes));
                dropped.push(*number);
            }
        }
        dropped.into_iter()
    }

    /// The client asks other replicas now: what the former ones told counts no more.
    pub fn begin_again(&mut self) {
        self.bytes.clear();
        let tallies = self.tallies.values_mut().filter_map(|(_, tally)| tally.as_mut());
        tallies.for_each(|tally| tally.begin_again());
    }

    /// No more replies to it are needed.
    pub fn end(&mut self, number: u64) {
        if let Some((_, Some(tally))) = self.tallies.remove(&number) {
            tally.held().for_each(|held| release(&mut self.bytes, held));
        }
    }
}

/// What a replica said is not held any longer.
fn release(held: &mut BTreeMap<ReplicaId, usize>, (from, bytes): (ReplicaId, usize)) {
    if let Some(all) = held.get_mut(&from) {
        *all -= bytes;
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
    fn a_replica_that_says_much_takes_the_room_of_none_but_itself() {
        let mut judged = JudgedOperations::default();
        let tally = || Some(Box::new(Tally::new(Judgement::default(), None)));
        (1..=3).for_each(|number| judged.begin(number, number + 10, tally()));
        assert_eq!((judged.find(12), judged.find(2)), (Some(2), None));
        let large = |byte| Outcome::Done(Bytes::from(vec![byte; JUDGED_BYTES_MAX / 2]));
        let (liar, correct) = (ReplicaId(0), [ReplicaId(1), ReplicaId(2)]);
        let mut say = |number, from, byte| {
            let told = judged.told(number, from, large(byte), (true, 2));
            let dropped: Vec<u64> = judged.make_room(from).collect();
            (told.map(|it| it.is_ok()), dropped)
        };
        assert_eq!(say(2, liar, 1), (None, vec![]));
        assert_eq!(say(3, liar, 1), (None, vec![]));
        assert_eq!(say(1, liar, 1), (None, vec![3]), "the last one gives way");
        for number in [3, 2, 1] {
            assert_eq!(say(number, correct[0], 2).0, None);
        }
        assert_eq!(say(1, correct[1], 2).0, Some(true));
        judged.end(1);
        assert_eq!(judged.bytes[&liar], JUDGED_BYTES_MAX / 2);
        (2..=3).for_each(|number| judged.end(number));
        assert!(judged.bytes.values().all(|bytes| *bytes == 0));
    }
}
