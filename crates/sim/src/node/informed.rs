//! Of which slots a replica has told clients. A message counts when it leaves the replica, not
//! while it waits for the disk.

use crate::observation::Observation;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ClientId, Slot, View};
use pentarchy_core::ports::client::{Place, ToClient};
use std::collections::{BTreeMap, BTreeSet};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Informed {
    /// Where the replica executed each request. One that it had executed before it installed a
    /// state, and that is ordered again, seems to run there.
    ran_at: BTreeMap<(ClientId, u64), Slot>,
    /// Up to where what it executed was final, if any of what it executed could be taken back.
    committed: Option<Slot>,
    /// The places that the core has confirmed to clients, in messages that may wait for the disk.
    confirms: BTreeSet<Place>,
    /// The highest slot of which it told a client what is final.
    told: Slot,
    /// The highest of which it told one what may be taken back, in the highest view.
    open: (View, Slot),
}

impl Informed {
    /// The replica executed a batch for good.
    pub fn executed(&mut self, slot: Slot, batch: &Batch) {
        if self.committed.is_some() {
            self.committed(slot);
        }
        self.ran(slot, batch);
    }

    /// The replica executed a batch. It skips requests that it had executed in an earlier slot.
    fn ran(&mut self, slot: Slot, batch: &Batch) {
        for envelope in &batch.envelopes {
            for request in &envelope.requests {
                self.ran_at.entry((envelope.client, request.number)).or_insert(slot);
            }
        }
    }

    /// The replica executed a batch that may be taken back. All before the first such one is final.
    pub fn speculated(&mut self, slot: Slot, batch: &Batch) {
        self.committed.get_or_insert(Slot(slot.0.saturating_sub(1)));
        self.ran(slot, batch);
    }

    /// The replica learns that what it executed up to this slot is final.
    pub fn committed(&mut self, upto: Slot) {
        self.committed = self.committed.max(Some(upto));
    }

    /// It took back what it had executed behind this slot.
    pub fn rolled_back(&mut self, after: Slot) {
        self.ran_at.retain(|_, slot| *slot <= after);
    }

    /// It installed a state, which says nothing of the slots in which requests were executed.
    pub fn installed(&mut self, slot: Slot) {
        self.ran_at.clear();
        if self.committed.is_some() {
            self.committed(slot);
        }
    }

    /// It is to confirm a place to a client.
    pub fn confirms(&mut self, place: Place) {
        self.confirms.insert(place);
    }

    /// The replica sends a client a message, in which it may confirm a place.
    pub fn confirmed(&self, message: &ToClient) -> Option<Observation> {
        let ToClient::Committed(place) = message else { return None };
        self.confirms.contains(place).then_some(Observation::Confirmed { place: *place })
    }

    /// The replica sends a client a message. Gives what the message says of slots, if that is more
    /// than all messages of this replica before it said.
    pub fn tell(&mut self, client: &ClientId, message: &ToClient) -> Option<Observation> {
        let ran_at = |number: u64| self.ran_at.get(&(*client, number)).copied();
        let (slot, place) = match message {
            ToClient::Replies { replies, .. } => {
                (replies.iter().filter_map(|it| ran_at(it.number)).max()?, None)
            }
            ToClient::Digests { digests, .. } => {
                (digests.iter().filter_map(|it| ran_at(it.number)).max()?, None)
            }
            ToClient::Speculative { place, .. } | ToClient::SpeculativeDigests { place, .. } => {
                (place.slot, Some(*place))
            }
            _ => return None,
        };
        // A final result was executed in a final slot.
        let slot = match (place, self.committed) {
            (None, Some(committed)) => slot.min(committed),
            _ => slot,
        };
        let is_new = match place {
            Some(place) => raise(&mut self.open, (place.view, place.slot)),
            None => raise(&mut self.told, slot),
        };
        is_new.then_some(Observation::Supports { slot, place })
    }
}

/// Raises the highest value so far to this one; true if this one is higher.
fn raise<T: Ord>(highest: &mut T, to: T) -> bool {
    let is_higher = to > *highest;
    if is_higher {
        *highest = to;
    }
    is_higher
}
