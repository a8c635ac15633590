//! The queue of a world's events, in the order of simulated time.

use super::Happening;
use crate::time::Micros;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the [module](self).
///
/// A heap moves its entries about, most of which are not in the processor's cache: so it has when
/// something happens, and where to find what that is.
#[derive(Default)]
pub struct Queue {
    order: BinaryHeap<Reverse<(Micros, u64, usize)>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<usize>,
}

impl Queue {
    /// This is to happen then. Of what happens at one time, what has the lower number is first;
    /// no two have the same.
    pub fn push(&mut self, at: Micros, number: u64, happening: Happening) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() - 1
        });
        self.happenings[index] = Some(happening);
        self.order.push(Reverse((at, number, index)));
    }

    /// What happens next, and when.
    pub fn pop(&mut self) -> Option<(Micros, Happening)> {
        let Reverse((at, _, index)) = self.order.pop()?;
        self.free.push(index);
        self.happenings[index].take().map(|happening| (at, happening))
    }

    /// How much is going to happen.
    pub fn len(&self) -> usize {
        self.order.len()
    }
}
