//! What a VIEW-CHANGE claims of the slots above a stable checkpoint.

use super::writes::WRITES_MAX;
use alloc::vec::Vec;
use pentarchy_core::ballot::Shown;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The most slots that are shown.
pub const SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// A batch that was written in a view by one, or by a quorum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Written {
    /// The view. The paper's timestamp is this plus 1, so that 0 says *nothing*; here nothing is
    /// `None`.
    pub view: View,
    /// Digest of the proposal.
    pub batch: Digest,
}

impl Wire for Written {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.batch.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { view: View::decode(from)?, batch: Digest::decode(from)? })
    }
}

/// What a replica knows of one slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotClaim {
    /// The slot.
    pub slot: Slot,
    /// What it locked last.
    pub lock: Option<Written>,
    /// What it wrote and keeps, by digest.
    pub writes: Vec<Written>,
}

impl SlotClaim {
    /// Whether it wrote the batch in this view or a higher one.
    #[must_use]
    pub fn wrote(&self, written: &Written) -> bool {
        self.writes.iter().any(|it| it.batch == written.batch && it.view >= written.view)
    }

    fn is_orderly(&self, view: View) -> bool {
        let says_something = self.lock.is_some() || !self.writes.is_empty();
        let sorted = self.writes.is_sorted_by(|a, b| a.batch < b.batch);
        let few = self.writes.len() <= WRITES_MAX;
        let mut all = self.lock.iter().chain(&self.writes);
        says_something && sorted && few && all.all(|it| it.view < view)
    }
}

impl Wire for SlotClaim {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        to.sequence(self.lock.as_slice());
        to.sequence(&self.writes);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            lock: from.sequence(1)?.pop(),
            writes: from.sequence(WRITES_MAX)?,
        })
    }
}

/// What the signature of a VIEW-CHANGE covers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claims {
    /// The view that its author wants to enter.
    pub view: View,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// What it knows of each slot behind, ascending. A slot that is not here it knows nothing of.
    pub slots: Vec<SlotClaim>,
}

impl Claims {
    /// What it says of a slot.
    #[must_use]
    pub fn of(&self, slot: Slot) -> Option<&SlotClaim> {
        let index = self.slots.binary_search_by_key(&slot, |it| it.slot).ok()?;
        self.slots.get(index)
    }

    /// What it says that its author locked in a slot.
    #[must_use]
    pub fn lock(&self, slot: Slot) -> Option<Written> {
        let lock = self.of(slot)?.lock;
        lock.filter(|it| it.view > View(0) || !mutant!("modsmart.first-timestamp-zero"))
    }

    /// All that it shows: see [`pentarchy_core::protocol::Message::shows`].
    #[must_use]
    pub fn shows(&self) -> Shown {
        let locks = self.slots.iter().filter_map(|it| Some((it.slot, it.lock?)));
        let slots = locks.map(|(slot, lock)| (slot, lock.view, lock.batch)).collect();
        Shown { pillar: 0, view: self.view, since: View(0), stable: self.stable, slots }
    }

    /// What the signature covers: everything, the view among it. What was said for another view
    /// counts in that one only.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("modsmart view-change").bytes(&self.to_bytes()).finish()
    }

    /// Whether a correct replica could claim that: slots of one window, ascending, of lower views.
    #[must_use]
    pub fn are_orderly(&self) -> bool {
        let ascending = self.slots.is_sorted_by(|a, b| a.slot < b.slot);
        let high = self.stable.0.saturating_add(WINDOW_SLOTS);
        let inside = |it: &SlotClaim| it.slot > self.stable && it.slot.0 <= high;
        ascending && self.slots.iter().all(|it| inside(it) && it.is_orderly(self.view))
    }
}

impl Wire for Claims {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.stable.encode(to);
        to.sequence(&self.slots);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            stable: Slot::decode(from)?,
            slots: from.sequence(SLOTS_MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn written(view: u64, batch: u8) -> Written {
        Written { view: View(view), batch: Digest([batch; 32]) }
    }

    fn claim(slot: u64, lock: Option<Written>, writes: Vec<Written>) -> SlotClaim {
        SlotClaim { slot: Slot(slot), lock, writes }
    }

    #[test]
    fn claims_are_of_one_window_and_of_lower_views_in_order() {
        let orderly = |slots| Claims { view: View(2), stable: Slot(4), slots }.are_orderly();
        let any = |slot| claim(slot, Some(written(1, 1)), vec![]);
        assert!(orderly(vec![]) && orderly(vec![any(5), any(4 + WINDOW_SLOTS)]));
        assert!(!orderly(vec![any(4)]) && !orderly(vec![any(5 + WINDOW_SLOTS)]));
        assert!(!orderly(vec![any(6), any(5)]) && !orderly(vec![any(5), any(5)]));
        assert!(!orderly(vec![claim(5, Some(written(2, 1)), vec![])]), "of its own view");
        assert!(!orderly(vec![claim(5, None, vec![written(2, 1)])]));
        assert!(!orderly(vec![claim(5, None, vec![])]), "nothing");
        let writes = |count: u8| (0..count).map(|it| written(1, it)).collect::<Vec<_>>();
        assert!(orderly(vec![claim(5, None, writes(WRITES_MAX as u8))]));
        assert!(!orderly(vec![claim(5, None, writes(WRITES_MAX as u8 + 1))]));
        assert!(!orderly(vec![claim(5, None, vec![written(0, 1), written(1, 1)])]), "twice");
    }

    #[test]
    fn claims_survive_their_encoding() {
        let slots =
            vec![claim(5, None, vec![written(0, 3)]), claim(7, Some(written(1, 2)), vec![])];
        let claims = Claims { view: View(2), stable: Slot(4), slots };
        assert_eq!(Claims::from_bytes(&claims.to_bytes()), Ok(claims.clone()));
        assert_eq!(claims.lock(Slot(7)), Some(written(1, 2)));
        assert_eq!((claims.lock(Slot(5)), claims.lock(Slot(6))), (None, None));
        assert!(claims.of(Slot(5)).is_some_and(|it| it.wrote(&written(0, 3))));
        assert!(!claims.of(Slot(5)).is_some_and(|it| it.wrote(&written(1, 3))));
    }
}
