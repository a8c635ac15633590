//! Each request runs at most once, and on every correct replica in the same slot; one whose client
//! was told that it never will does not run at all.

use super::{Broken, Verdict};
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the property.
pub const PROPERTY: &str = "at_most_once";

/// What the services of correct replicas ran. As the order is the same everywhere, so is the slot
/// of a request; a replica that runs it in another one ran it again, even if it skipped the first
/// run by installing a state.
#[derive(Default)]
pub struct AtMostOnce {
    ran: BTreeMap<(ClientId, u64), (Slot, ReplicaSet)>,
    /// What clients were told that it will never run.
    never: BTreeSet<(ClientId, u64)>,
}

impl AtMostOnce {
    /// The service of a correct replica ran a request.
    ///
    /// # Errors
    /// If it ran before.
    pub fn ran(
        &mut self,
        replica: ReplicaId,
        slot: Slot,
        client: ClientId,
        number: u64,
    ) -> Verdict {
        if self.never.contains(&(client, number)) {
            let detail = format!("{replica} runs {client}#{number} at {slot}; it was given up");
            return Err(Broken::new(PROPERTY, detail));
        }
        let (first, ran) =
            self.ran.entry((client, number)).or_insert_with(|| (slot, ReplicaSet::EMPTY));
        if *first == slot && ran.insert(replica) {
            return Ok(());
        }
        let detail = format!("{replica} runs {client}#{number} at {slot}; it ran at {first}");
        Err(Broken::new(PROPERTY, detail))
    }

    /// A client was told that a request did not run and never will.
    ///
    /// # Errors
    /// If it ran.
    pub fn never(&mut self, client: ClientId, number: u64) -> Verdict {
        self.never.insert((client, number));
        match self.ran.get(&(client, number)) {
            None => Ok(()),
            Some((slot, _)) => {
                let detail = format!("{client}#{number} is said never to run; it ran at {slot}");
                Err(Broken::new(PROPERTY, detail))
            }
        }
    }

    /// A correct replica starts again from the state of a slot; whatever ran behind it is to run
    /// again.
    pub fn resumed(&mut self, replica: ReplicaId, slot: Slot) {
        for (_, ran) in self.ran.values_mut().filter(|(at, _)| *at > slot) {
            ran.remove(replica);
        }
    }

    /// Requests that ran anywhere.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.ran.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId([3; 32]);

    #[test]
    fn a_second_run_is_found_in_the_same_slot_and_in_another() {
        let mut checker = AtMostOnce::default();
        checker.ran(ReplicaId(0), Slot(4), CLIENT, 1).unwrap();
        checker.ran(ReplicaId(1), Slot(4), CLIENT, 1).unwrap();
        checker.ran(ReplicaId(0), Slot(4), CLIENT, 2).unwrap();
        assert_eq!(checker.ran(ReplicaId(0), Slot(4), CLIENT, 1).unwrap_err().property, PROPERTY);
        assert!(checker.ran(ReplicaId(2), Slot(5), CLIENT, 1).is_err(), "after a transfer");
        assert_eq!(checker.requests(), 2);
        assert_eq!(checker.never(CLIENT, 2).unwrap_err().property, PROPERTY, "it ran");
        checker.never(CLIENT, 3).unwrap();
        assert!(checker.ran(ReplicaId(0), Slot(6), CLIENT, 3).is_err(), "it was given up");
    }
}
