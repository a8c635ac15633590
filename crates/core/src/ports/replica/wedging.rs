//! The capability to be stopped by an authority outside the group, which then says how the epoch
//! ends and with what the next one begins ([`succession`](crate::succession)). A core that is says
//! so in its rules ([`Rules::authority`](crate::protocol::Rules::authority)).

use crate::digest::Digest;
use crate::ids::{ReplicaId, Slot};
use crate::limits::HISTORY_SLOTS_MAX;
use crate::membership::Base;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;

/// What the host tells a core that can be stopped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// Stop. In this step the core persists that it has stopped, and says
    /// [`Wedged`](Output::Wedged). From then on, also after a restart, it orders nothing, has
    /// nothing executed and vouches for nothing in this epoch; it may go on serving others what
    /// they lack. The host does nothing more at its [`Stable`](super::Output::Stable),
    /// [`Checkpoint`](super::Output::Checkpoint) or [`Fetch`](super::Output::Fetch), and nothing
    /// makes final or takes back what was speculated: the state that the core named stays, and what
    /// was executed changes only by the authority's word. That the core has stopped is part of what
    /// it persists again at [`Compact`](super::Input::Compact). Comes once, and not to a core that
    /// said so when it was started.
    Wedge,
}

/// What a core that can be stopped says to the authority, through its host. What the core asked to
/// be kept before is durable when the authority is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Answer to [`Input::Wedge`]: the core has stopped, and this is all that it ordered. Said once
    /// more when it is started again.
    Wedged(History),
    /// This member keeps the group from its work, as far as this replica can see; the authority
    /// decides whether to stop the epoch for it. Proves nothing.
    Accuse {
        /// The accused member.
        about: ReplicaId,
        /// In a few words, for people.
        why: &'static str,
    },
}

/// What a replica has ordered: a state, and the digests of the batches behind it, slot by slot
/// without a gap. At most [`HISTORY_SLOTS_MAX`] batches.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct History {
    /// The last state that was certified in the epoch, or the one with which the epoch began.
    pub base: Base,
    /// The digests of what the slots behind it order.
    pub batches: Vec<Digest>,
}

impl History {
    /// Its last slot.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.slot.0.saturating_add(self.batches.len() as u64))
    }

    /// What a slot orders; none if that is not behind the base, or behind the end.
    #[must_use]
    pub fn batch(&self, slot: Slot) -> Option<&Digest> {
        let index = slot.0.checked_sub(self.base.slot.0)?.checked_sub(1)?;
        self.batches.get(usize::try_from(index).ok()?)
    }

    /// Whether both order the same in each slot up to this one of which both say what it orders.
    #[must_use]
    pub fn agrees_with(&self, other: &Self, upto: Slot) -> bool {
        let slots = (1..).map_while(|behind| self.base.slot.0.checked_add(behind)).map(Slot);
        let mut ordered = slots.zip(&self.batches).take_while(|(slot, _)| *slot <= upto);
        ordered.all(|(slot, mine)| other.batch(slot).is_none_or(|theirs| mine == theirs))
    }
}

/// Whether a state leaves room for all slots that a history may have behind it, and for one behind
/// those: nobody who counts on from there comes to the end of numbers.
pub(crate) const fn has_room(base: Base) -> bool {
    base.slot.0.checked_add(HISTORY_SLOTS_MAX as u64 + 1).is_some()
}

impl Wire for History {
    fn encode(&self, to: &mut Writer) {
        self.base.encode(to);
        to.sequence(&self.batches);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let base = Base::decode(from)?;
        if !has_room(base) {
            return Err(Malformed);
        }
        Ok(Self { base, batches: from.sequence(HISTORY_SLOTS_MAX)? })
    }
}

impl From<Input> for super::Input {
    fn from(input: Input) -> Self {
        Self::Wedging(input)
    }
}

impl From<Output> for super::Output {
    fn from(output: Output) -> Self {
        Self::Wedging(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(base: u64, batches: &[u8]) -> History {
        let base = Base { slot: Slot(base), state: Digest::default() };
        History { base, batches: batches.iter().map(|batch| Digest([*batch; 32])).collect() }
    }

    #[test]
    fn a_history_says_what_each_slot_behind_its_base_orders() {
        let it = history(2, &[3, 4]);
        assert_eq!(it.end(), Slot(4));
        let slots = (0..6).filter(|slot| it.batch(Slot(*slot)).is_some());
        assert_eq!(slots.collect::<Vec<u64>>(), [3, 4]);
        assert_eq!(it.batch(Slot(4)), Some(&Digest([4; 32])));
        assert_eq!(history(2, &[]).end(), Slot(2));
    }

    #[test]
    fn histories_agree_where_both_say_something() {
        let whole = history(0, &[1, 2, 3, 4]);
        let agrees = |other: &History, upto| {
            let both =
                [whole.agrees_with(other, Slot(upto)), other.agrees_with(&whole, Slot(upto))];
            assert_eq!(both[0], both[1]);
            both[0]
        };
        assert!(agrees(&history(0, &[1, 2]), 9) && agrees(&history(2, &[3, 4, 5]), 9));
        assert!(agrees(&history(4, &[9]), 9), "nothing is said twice");
        let other = history(1, &[2, 9]);
        assert!(agrees(&other, 2) && !agrees(&other, 3));
    }

    #[test]
    fn a_history_at_the_end_of_numbers_breaks_nobody() {
        const MAX: u64 = u64::MAX;
        for (base, batches) in [(MAX, &[1, 2][..]), (MAX - 2, &[1, 2, 3]), (MAX, &[])] {
            let it = history(base, batches);
            assert_eq!(it.end(), Slot(MAX));
            assert_eq!(it.batch(Slot(MAX)).is_some(), base < MAX);
            let others = [it.clone(), history(0, &[1, 2]), history(MAX - 1, &[2])];
            assert!(others.iter().all(|other| it.agrees_with(other, Slot(MAX))));
            assert!(others.iter().all(|other| other.agrees_with(&it, Slot(MAX))));
            assert_eq!(History::from_bytes(&it.to_bytes()), Err(Malformed));
        }
        let last = MAX - HISTORY_SLOTS_MAX as u64 - 1;
        let it = history(last, &[1]);
        assert_eq!(History::from_bytes(&it.to_bytes()), Ok(it));
        assert_eq!(History::from_bytes(&history(last + 1, &[1]).to_bytes()), Err(Malformed));
    }
}
