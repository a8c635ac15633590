//! Who asks for which view. `f + 1` who ask make everybody leave for it, so that neither a liar nor
//! one slow replica can depose a primary, and nobody leaves alone. Asking for a view asks for every
//! lower one too, or replicas that time out at different moments might never agree on a number.

use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::ids::{ReplicaId, View};

/// Ticks for which an ask counts after it was last heard.
const ASK_TICKS: u64 = 40;

/// What each replica asked for. One entry for each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Asks {
    /// The highest view, and the signature under that ask.
    highest: Vec<Option<(View, Signature)>>,
    /// The tick at which it was last heard.
    heard: Vec<u64>,
}

impl Asks {
    /// Nobody of `n` replicas has asked.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { highest: vec![None; n], heard: vec![0; n] }
    }

    /// A replica asked, and was heard in this tick.
    pub fn note(&mut self, author: ReplicaId, view: View, signature: Signature, tick: u64) {
        let index = usize::from(author.0);
        self.heard[index] = tick;
        let asked = &mut self.highest[index];
        if asked.is_none_or(|(before, _)| before < view) {
            *asked = Some((view, signature));
        }
    }

    /// The highest view that a replica asks for.
    #[must_use]
    pub fn of(&self, id: ReplicaId) -> Option<View> {
        self.highest[usize::from(id.0)].map(|(view, _)| view)
    }

    /// The highest view that this many replicas ask for.
    #[must_use]
    pub fn wanted_by(&self, count: usize) -> Option<View> {
        let mut views: Vec<View> = self.highest.iter().flatten().map(|(view, _)| *view).collect();
        views.sort_unstable_by(|a, b| b.cmp(a));
        views.get(count.checked_sub(1)?).copied()
    }

    /// Asks for a view or a higher one, at most this many.
    #[must_use]
    pub fn proof(&self, view: View, count: usize) -> Vec<(ReplicaId, (View, Signature))> {
        let asked = (0u16..).map(ReplicaId).zip(&self.highest);
        asked
            .filter_map(|(id, ask)| ask.filter(|(asked, _)| *asked >= view).map(|ask| (id, ask)))
            .take(count)
            .collect()
    }

    /// Forgets what others asked for and no longer do: those who still want another view say so at
    /// every tick. A suspicion that has passed must not add up with a new one to a quorum.
    pub fn expire(&mut self, me: ReplicaId, tick: u64) {
        for (index, asked) in self.highest.iter_mut().enumerate() {
            if index != usize::from(me.0) && tick > self.heard[index] + ASK_TICKS {
                *asked = None;
            }
        }
    }

    /// A replica no longer asks.
    pub fn withdraw(&mut self, id: ReplicaId) {
        self.highest[usize::from(id.0)] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: Signature = Signature([0; 64]);

    #[test]
    fn to_ask_for_a_view_is_to_ask_for_every_lower_one() {
        let mut asks = Asks::new(4);
        asks.note(ReplicaId(0), View(5), SIGNED, 0);
        asks.note(ReplicaId(0), View(3), SIGNED, 0);
        asks.note(ReplicaId(2), View(4), SIGNED, 0);
        assert_eq!((asks.wanted_by(1), asks.wanted_by(2)), (Some(View(5)), Some(View(4))));
        assert_eq!(asks.wanted_by(3), None);
        assert_eq!(asks.proof(View(4), 3).len(), 2);
        assert_eq!(asks.proof(View(5), 3).len(), 1);
        asks.withdraw(ReplicaId(0));
        assert_eq!((asks.of(ReplicaId(0)), asks.wanted_by(1)), (None, Some(View(4))));
    }

    #[test]
    fn what_is_no_longer_said_is_forgotten() {
        let mut asks = Asks::new(3);
        (0..3).for_each(|id| asks.note(ReplicaId(id), View(1), SIGNED, u64::from(id)));
        asks.expire(ReplicaId(0), ASK_TICKS + 1);
        assert_eq!(asks.wanted_by(3), Some(View(1)));
        asks.expire(ReplicaId(0), ASK_TICKS + 2);
        let left = [0, 1, 2].map(|id| asks.of(ReplicaId(id)).is_some());
        assert_eq!(left, [true, false, true]);
    }
}
