//! What replicas confirm to clients becomes final. A client acts on a place that enough replicas
//! confirm, up to `f` of which lie. So as soon as all others of these have confirmed it, the order
//! that becomes final has to be the one that it names.
//!
//! Clients ask about few places, and of those that are wrong, about hardly any. So the world also
//! asks each correct replica what it [would confirm](pentarchy_core::protocol::Protocol::confirms).

use super::{Broken, Verdict};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::ports::client::Place;
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "confirmation";

/// See the [module](self).
pub struct Confirmation {
    /// So many correct replicas are among those whose word is enough for a client.
    needed: usize,
    /// Who confirmed places that fewer than that confirmed so far.
    open: BTreeMap<Place, ReplicaSet>,
    /// What a client may rely on, by slot.
    relied_on: BTreeMap<Slot, Place>,
    /// What is final, by slot.
    sure: BTreeMap<Slot, Digest>,
}

impl Confirmation {
    /// In a group of `n`, of which `f` may be faulty. No protocol's clients are content with fewer
    /// than all but `f`, where they ask at all.
    #[must_use]
    pub fn new(n: usize, f: usize) -> Self {
        let needed = n.saturating_sub(2 * f).max(1);
        Self { needed, open: BTreeMap::new(), relied_on: BTreeMap::new(), sure: BTreeMap::new() }
    }

    /// A correct replica confirms a place, or would if it were asked.
    ///
    /// # Errors
    /// If a client may rely on it now, and something else is final.
    pub fn confirmed(&mut self, replica: ReplicaId, place: Place) -> Verdict {
        let relied_on = self.relied_on.get(&place.slot);
        if relied_on.is_some_and(|known| known.history == place.history) {
            return Ok(());
        }
        let by = self.open.entry(place).or_insert(ReplicaSet::EMPTY);
        by.insert(replica);
        if by.len() < self.needed {
            return Ok(());
        }
        self.open.remove(&place);
        let other = self.sure.get(&place.slot).filter(|sure| **sure != place.history);
        if other.is_some() || relied_on.is_some() {
            return Err(broken(replica, place));
        }
        self.relied_on.insert(place.slot, place);
        Ok(())
    }

    /// What a correct replica executed in a slot is final.
    ///
    /// # Errors
    /// If a client may rely on something else.
    pub fn became_final(&mut self, replica: ReplicaId, slot: Slot, history: Digest) -> Verdict {
        self.sure.entry(slot).or_insert(history);
        match self.relied_on.get(&slot).filter(|place| place.history != history) {
            Some(place) => Err(broken(replica, *place)),
            None => Ok(()),
        }
    }

    /// All is over, and everything is final up to a slot.
    ///
    /// # Errors
    /// If a client may rely on more.
    pub fn ended(&self, highest: Slot) -> Verdict {
        match self.relied_on.last_key_value().filter(|(slot, _)| **slot > highest) {
            Some((slot, _)) => {
                Err(Broken::new(PROPERTY, format!("{slot} was confirmed, and is not final")))
            }
            None => Ok(()),
        }
    }
}

fn broken(replica: ReplicaId, Place { view, slot, .. }: Place) -> Broken {
    let detail = format!("what is confirmed in {slot} of {view} is not final there: {replica}");
    Broken::new(PROPERTY, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::View;

    fn place(view: u64, history: u8) -> Place {
        Place { view: View(view), slot: Slot(8), history: Digest([history; 32]) }
    }

    #[test]
    fn what_is_confirmed_and_not_final_is_found_whichever_comes_first() {
        let [r1, r2] = [1, 2].map(ReplicaId);
        let mut checker = Confirmation::new(3, 1);
        checker.confirmed(r1, place(1, 1)).unwrap();
        checker.confirmed(r2, place(2, 1)).unwrap();
        checker.became_final(r2, Slot(8), Digest([1; 32])).unwrap();
        assert!(checker.confirmed(r1, place(2, 2)).is_err());
        let mut checker = Confirmation::new(3, 1);
        checker.confirmed(r1, place(1, 1)).unwrap();
        assert!(checker.became_final(r2, Slot(8), Digest([2; 32])).is_err());
        assert!(checker.ended(Slot(7)).is_err() && checker.ended(Slot(8)).is_ok());
    }

    #[test]
    fn one_correct_replica_alone_convinces_only_where_one_is_enough() {
        let mut checker = Confirmation::new(4, 1);
        checker.became_final(ReplicaId(0), Slot(8), Digest([1; 32])).unwrap();
        checker.confirmed(ReplicaId(1), place(1, 2)).unwrap();
        checker.confirmed(ReplicaId(1), place(1, 2)).unwrap();
        assert!(checker.confirmed(ReplicaId(2), place(1, 2)).is_err());
    }
}
