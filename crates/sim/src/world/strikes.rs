//! When the world cuts a replica's power, or has it lose its memory: just after a step on which the
//! replica's next messages rest, and which the replica's disk may not have yet.

use super::replicas::Happened;
use super::{Target, World};
use crate::node::Kept;
use crate::swarm::Failure;
use pentarchy_storage::kept::Job;

/// Entries, sends and jobs of the disk from the end of an epoch until the next one has begun, or
/// from when a checkpoint is stable until what is to stay is durable once more, about.
const STEPS_INTO_EPOCH: u64 = 16;

impl World<'_> {
    /// Whether this is a bad moment to lose power or memory: an epoch ended, a checkpoint became
    /// stable, a state was fetched, or views are changing.
    pub(super) fn look_whether_to_strike(&mut self, index: usize, happened: &Happened) {
        if happened.ended {
            self.on_ended(index);
        }
        if happened.stable {
            self.on_stable(index);
        }
        if happened.installed {
            self.on_installed(index);
        }
        if self.options.disk.split_steps_ppm > 0 {
            self.on_step(index);
        }
    }

    /// A checkpoint became stable at a replica, whose log is to be cut.
    fn on_stable(&mut self, index: usize) {
        let stop_ppm = self.options.disk.stop_at_stable_ppm;
        if stop_ppm == 0 || self.healed {
            return;
        }
        let late = usize::from(self.options.late_checkpoints);
        if late > 0 {
            // It is about to write once more what is to stay.
            let is_meant = late == index + 1 && self.is_changing_views(index);
            if is_meant && self.rng.chance(stop_ppm) {
                let lasts = self.rng.below(600_000);
                self.stop(index, Failure::Power, 0, lasts);
                if let Some(mut kept) = self.replicas[index].node.kept() {
                    kept.begin(Job::Log);
                    kept.survives("stable");
                }
                self.look_whether_dead(index);
            }
        } else if self.rng.chance(stop_ppm) {
            self.stop_soon(index);
        }
    }

    /// A replica has a state that it fetched: the power fails as soon as that is durable, and
    /// before the replica has taken it up.
    fn on_installed(&mut self, index: usize) {
        let stop_ppm = self.options.disk.stop_at_saved_ppm;
        if stop_ppm > 0 && !self.healed && self.rng.chance(stop_ppm) {
            self.has_fail(index, 1_000, Kept::fail_when_saved);
            if self.options.left_alone_us > 0 && self.rng.percent(50) {
                // It hears again of the view that others are in, maybe before it has the proof.
                self.replicas[index].deaf_until = self.now;
            }
        }
    }

    /// While a replica changes views, the power may fail between two things that it keeps in one
    /// step.
    fn on_step(&mut self, index: usize) {
        if let Some(mut kept) = self.replicas[index].node.kept() {
            kept.begin_step(0);
        }
        let is_normal = self.replicas[index].node.core().status().phase == "normal";
        if !is_normal && !self.healed {
            let (split_ppm, lasts) = (self.options.disk.split_steps_ppm, self.rng.below(600_000));
            self.has_fail(index, lasts, |kept| kept.begin_step(split_ppm));
        }
    }

    /// An epoch ended at a replica: the worst moment to lose one's memory, or power.
    fn on_ended(&mut self, index: usize) {
        let stop_ppm = self.options.stop_at_end_ppm;
        if stop_ppm > 0 && !self.healed && self.rng.chance(stop_ppm) {
            self.stop_soon(index);
        }
        if self.healed || !self.rng.chance(self.options.restart_at_end_ppm) {
            return;
        }
        let target = match self.rng.percent(50) {
            true => Target::Replica(self.replicas[index].id),
            false => Target::Primary,
        };
        let after = self.rng.range(1, 300_000);
        self.lose(target, after);
    }

    /// The power of a replica fails soon, for less than a second.
    fn stop_soon(&mut self, index: usize) {
        let (points, lasts) = (self.rng.below(STEPS_INTO_EPOCH), self.rng.below(600_000));
        self.stop(index, Failure::Power, points, lasts);
    }
}
