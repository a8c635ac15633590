//! Whether a replica has caught up with its group, so that it may be counted on.

use crate::status::StatusReport;
use pentarchy_core::limits::CHECKPOINT_SLOTS;

/// A replica that has executed this much less than `f + 1` others has not caught up: more than what
/// lies in flight between replicas that keep up, and enough for a checkpoint. Of so many slots in
/// each pillar.
pub const LEVEL_SLOTS: u64 = CHECKPOINT_SLOTS;

/// A loop that did not turn for so many milliseconds has stalled.
const STALL_MS: u64 = 1_000;

/// Milliseconds from the end of a stall until what the peers sent during it, and their reports
/// after that, have surely come. Until then a replica that is far behind may not know it.
const SETTLE_MS: u64 = 2_000;

/// Whether the replica has been at work and in touch with its group for long enough to know where
/// the group is.
#[derive(Default)]
pub(crate) struct Settling {
    /// When the last round began.
    round_ms: u64,
    /// Until when it was last stalled or cut off. The start counts as an end of both.
    unsettled_ms: u64,
}

impl Settling {
    /// A round begins.
    pub const fn on_round(&mut self, now_ms: u64, is_connected: bool) {
        if !is_connected || now_ms.saturating_sub(self.round_ms) >= STALL_MS {
            self.unsettled_ms = now_ms;
        }
        self.round_ms = now_ms;
    }

    /// Milliseconds until it has been for long enough.
    pub const fn left_ms(&self, now_ms: u64) -> u64 {
        (self.unsettled_ms + SETTLE_MS).saturating_sub(now_ms)
    }
}

impl StatusReport {
    /// Why the replica has not caught up with its group, in words for an operator. Empty if it is.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.lost {
            let (asking, f) = (&self.asking, self.f);
            reasons.push(format!(
                "replicas {asking:?} lost their memory, more than the {f} that the group \
                 tolerates: this group cannot continue"
            ));
        }
        if let Some(state) = &self.catch_up {
            let (have, total) = (state.chunks_have, state.chunks_total);
            reasons.push(format!(
                "fetching the state at slot {}: {have} of {total} chunks are here",
                state.slot
            ));
        }
        if self.phase != "normal" {
            reasons.push(format!("phase is {}, not normal, in view {}", self.phase, self.view));
        }
        // With itself that makes f + 1: of any such set, one is correct.
        if self.peers.len() < self.f {
            let (peers, f) = (self.peers.len(), self.f);
            reasons.push(format!("connected to {peers} peers; at least {f} are needed"));
        }
        for (number, pillar) in self.pillars.iter().enumerate() {
            let Some(thread) = &pillar.thread else { continue };
            if thread.peers.len() < self.f {
                let (peers, f) = (thread.peers.len(), self.f);
                reasons.push(format!(
                    "pillar {number} is connected to {peers} peers; at least {f} are needed"
                ));
            }
            if thread.silent_ms >= STALL_MS {
                let silent = thread.silent_ms;
                reasons.push(format!("the thread of pillar {number} stands still for {silent} ms"));
            }
        }
        if self.settling_ms > 0 {
            let left = self.settling_ms;
            reasons.push(format!("at work and connected too short to know; {left} ms left"));
        }
        if self.unread {
            reasons.push("has not read all that its peers sent".to_owned());
        }
        if self.durability.as_ref().is_some_and(|disk| disk.log_full) {
            let why = "its log is full: it says nothing until a checkpoint is stable";
            reasons.push(why.to_owned());
        }
        let level_slots = LEVEL_SLOTS * self.pillars.len().max(1) as u64;
        if self.behind >= level_slots {
            let (behind, executed) = (self.behind, self.executed);
            reasons.push(format!("{behind} slots behind the group, executed {executed}"));
        }
        let undone = self.committed.saturating_sub(self.executed);
        if undone >= level_slots {
            reasons.push(format!("{undone} committed slots are not executed yet"));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_or_a_cut_has_to_settle() {
        let mut settling = Settling::default();
        settling.on_round(10, true);
        assert_eq!(settling.left_ms(10), SETTLE_MS - 10, "since the start");
        for now_ms in (20..5_000).step_by(20) {
            settling.on_round(now_ms, true);
        }
        assert_eq!(settling.left_ms(5_000), 0);
        settling.on_round(5_000 + STALL_MS, true);
        assert_eq!(settling.left_ms(5_000 + STALL_MS), SETTLE_MS);
        settling.on_round(5_500 + STALL_MS, true);
        assert_eq!(settling.left_ms(5_500 + STALL_MS), SETTLE_MS - 500);
        settling.on_round(5_600 + STALL_MS, false);
        assert_eq!(settling.left_ms(5_600 + STALL_MS), SETTLE_MS);
    }
}
