//! Worlds in which administrators change the group while it runs.

use super::{Disturbance, Options};
use crate::rng::Rng;

/// Of how many worlds, in percent.
const WORLDS_PERCENT: u32 = 15;

/// The ways to go about it are numbered from 1 to this.
pub(super) const WAYS_MAX: u64 = 1_000_000;

impl Options {
    /// Has administrators renew the members' keys a few times, whatever else goes wrong. From a
    /// stream of its own, so that all other worlds stay as they are.
    pub(super) fn draw_refreshes(&mut self, rng: &mut Rng) {
        let has_twins = self.places().len() > self.n;
        if has_twins || self.pillars > 1 || self.heal_at == 0 || !rng.percent(WORLDS_PERCENT) {
            return;
        }
        self.has_administrators = true;
        for _ in 0..rng.range(1, 3) {
            let refresh = Disturbance::Refresh(rng.range(1, WAYS_MAX));
            self.disturbances.push((rng.below(self.heal_at), refresh));
        }
    }
}
