//! Worlds in which administrators have the group grow and shrink while it runs, move members, and
//! change how many of them have to agree.

use super::refreshes::WAYS_MAX;
use super::{Disturbance, Options};
use crate::network::Parts;
use crate::rng::Rng;
use crate::time::Micros;

/// A change takes two seconds if a member does not become ready, and a machine that joins needs
/// some time to fetch the state.
const EACH: Micros = 3_000_000;

impl Options {
    /// Has administrators do so a few times, whatever else goes wrong but a slow network. From a
    /// stream of its own, so that all other worlds stay as they are.
    pub(super) fn draw_reshapes(&mut self, rng: &mut Rng, percent: u32) {
        if !self.may_change() || self.has_to_follow() || !rng.percent(percent) {
            return;
        }
        let count = rng.range(1, 4).min((Parts::PLACES_MAX - self.n) as u64);
        if count == 0 {
            return;
        }
        self.make_time_for(count * EACH);
        for number in 0..count {
            let at = number * EACH + rng.below(EACH / 2);
            self.disturbances.push((at, Disturbance::Reshape(rng.range(0, WAYS_MAX))));
            self.trouble_one(at, EACH, rng);
        }
    }
}
