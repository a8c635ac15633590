//! What is drawn for worlds of all kinds, and changes little of them.

use super::Options;
use crate::rng::Rng;

/// Of a hundred worlds, in how many applications judge replies themselves.
const JUDGED_WORLDS_PERCENT: u32 = 12;

/// Of a hundred worlds in which power fails, in how many it fails when a checkpoint became stable.
const AT_CHECKPOINTS_PERCENT: u32 = 25;

/// The same for steps of changing views.
const SPLIT_STEPS_PERCENT: u32 = 25;

impl Options {
    pub(super) fn draw_judging(&mut self, rng: &mut Rng) {
        if rng.percent(JUDGED_WORLDS_PERCENT) {
            self.workload.judged_percent = *rng.pick(&[20, 100]);
        }
    }

    /// Has power fail while a replica writes once more what is to stay when its log is cut. Until
    /// the last of it is durable, the log says some of it twice.
    pub(super) fn draw_stops_at_checkpoints(&mut self, rng: &mut Rng) {
        if self.is_durable() && !self.is_steady() && rng.percent(AT_CHECKPOINTS_PERCENT) {
            self.disk.stop_at_stable_ppm = *rng.pick(&[20_000, 100_000, 300_000]);
        }
    }

    /// Has power fail between two things that a replica keeps in one step of changing views.
    pub(super) fn draw_split_steps(&mut self, rng: &mut Rng) {
        let may = self.disk.split_steps_ppm == 0 && self.is_durable() && !self.is_steady();
        if may && rng.percent(SPLIT_STEPS_PERCENT) {
            self.disk.split_steps_ppm = *rng.pick(&[30_000, 100_000, 300_000]);
        }
    }
}
