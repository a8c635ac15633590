//! A ring of slots between the low and the high water mark.

use crate::ids::Slot;
use alloc::collections::VecDeque;

/// One `T` for each slot in `(low, low + size]`; slots outside have none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window<T> {
    low: Slot,
    slots: VecDeque<T>,
}

impl<T: Default> Window<T> {
    /// A window of `size` slots above this one.
    #[must_use]
    pub fn new(low: Slot, size: u64) -> Self {
        Self { low, slots: (0..size).map(|_| T::default()).collect() }
    }

    /// The low water mark: the highest slot that has left the window.
    #[must_use]
    pub const fn low(&self) -> Slot {
        self.low
    }

    /// The high water mark: the last slot inside.
    #[must_use]
    pub fn high(&self) -> Slot {
        Slot(self.low.0.saturating_add(self.slots.len() as u64))
    }

    /// Whether the slot is inside.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        slot > self.low && slot <= self.high()
    }

    /// What is known of a slot.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        let index = slot.0.checked_sub(self.low.0)?.checked_sub(1)?;
        self.slots.get(usize::try_from(index).ok()?)
    }

    /// What is known of a slot, to change.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let index = slot.0.checked_sub(self.low.0)?.checked_sub(1)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Moves the low water mark up; what falls out is forgotten. Never moves down.
    pub fn advance(&mut self, low: Slot) {
        let steps = low.0.saturating_sub(self.low.0);
        for _ in 0..steps.min(self.slots.len() as u64) {
            self.slots.pop_front();
            self.slots.push_back(T::default());
        }
        self.low = self.low.max(low);
    }

    /// All slots with what is known of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        let low = self.low.0;
        self.slots
            .iter()
            .enumerate()
            .map(move |(index, value)| (Slot(low + 1 + index as u64), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets_below_and_refuses_above() {
        let mut window: Window<u32> = Window::new(Slot(0), 4);
        assert!(window.get_mut(Slot(0)).is_none() && window.get_mut(Slot(5)).is_none());
        for slot in 1..=4 {
            *window.get_mut(Slot(slot)).unwrap() = slot as u32;
        }
        window.advance(Slot(2));
        assert_eq!(window.get(Slot(2)), None);
        assert_eq!(window.get(Slot(3)), Some(&3));
        assert_eq!(window.get(Slot(6)), Some(&0));
        window.advance(Slot(100));
        assert_eq!((window.low(), window.high()), (Slot(100), Slot(104)));
        assert_eq!(window.get(Slot(101)), Some(&0));
        window.advance(Slot(7));
        assert_eq!(window.low(), Slot(100));
    }
}
