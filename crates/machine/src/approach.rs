//! How fast a replica that is behind comes closer, and when it will have caught up.

use serde::Serialize;
use std::collections::VecDeque;

/// Between two looks, in milliseconds.
const LOOK_MS: u64 = 500;

/// Looks over which speed is measured.
const LOOKS: usize = 8;

/// Where a replica is at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The process's clock, in milliseconds.
    pub at_ms: u64,
    /// The last slot that it has executed.
    pub executed: u64,
    /// Slots that `f + 1` others have committed and it has not executed.
    pub behind: u64,
    /// If it fetches a state: its slot, sections of it, those that are here, and bytes that were
    /// moved.
    pub state: Option<(u64, usize, usize, u64)>,
}

/// How a replica catches up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pace {
    /// By what: `messages` that are missing, or the group's `state`.
    pub by: &'static str,
    /// Slots that it executes in a second.
    pub slots_per_second: f64,
    /// Bytes of state that come in a second.
    pub bytes_per_second: f64,
    /// Seconds until it has caught up, or until the state is here, at this speed; none if it does
    /// not come closer.
    pub seconds_left: Option<f64>,
}

/// The last few looks, as long as there is something to catch up with.
#[derive(Default)]
pub struct Approach {
    looks: VecDeque<Look>,
}

impl Approach {
    /// Takes note of where the replica is.
    pub fn look(&mut self, look: Look) {
        if look.behind == 0 && look.state.is_none() {
            self.looks.clear();
            return;
        }
        // Another state is another way.
        let way = |look: &Look| look.state.map(|(slot, ..)| slot);
        if self.looks.back().is_some_and(|last| way(last) != way(&look)) {
            self.looks.clear();
        }
        if self.looks.back().is_some_and(|last| look.at_ms < last.at_ms + LOOK_MS) {
            return;
        }
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    /// How fast it was since the first of these looks; none if there is nothing to measure.
    pub fn pace(&self, now: Look) -> Option<Pace> {
        let first = self.looks.front().filter(|first| first.at_ms < now.at_ms)?;
        let seconds = (now.at_ms - first.at_ms) as f64 / 1e3;
        let speed = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let left = |todo: u64, speed: f64| (speed > 0.0).then(|| todo as f64 / speed);
        let slots_per_second = speed(first.executed, now.executed);
        Some(match (first.state, now.state) {
            (Some((_, _, had, before)), Some((_, total, have, bytes))) => Pace {
                by: "state",
                slots_per_second,
                bytes_per_second: speed(before, bytes),
                seconds_left: left(
                    (total - have.min(total)) as u64,
                    speed(had as u64, have as u64),
                ),
            },
            _ => Pace {
                by: "messages",
                slots_per_second,
                bytes_per_second: 0.0,
                seconds_left: left(now.behind, speed(now.behind, first.behind)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(at_ms: u64, executed: u64, behind: u64) -> Look {
        Look { at_ms, executed, behind, state: None }
    }

    #[test]
    fn the_gap_closes_at_the_speed_at_which_it_closed() {
        let mut approach = Approach::default();
        approach.look(messages(0, 100, 1_000));
        assert_eq!(approach.pace(messages(0, 100, 1_000)), None, "no time has passed");
        // The group goes on meanwhile: 300 executed bring it only 200 closer.
        let pace = approach.pace(messages(2_000, 400, 800)).unwrap();
        assert_eq!((pace.by, pace.slots_per_second), ("messages", 150.0));
        assert_eq!(pace.seconds_left, Some(8.0));
        let pace = approach.pace(messages(2_000, 400, 1_200)).unwrap();
        assert_eq!(pace.seconds_left, None, "it falls behind");
        approach.look(messages(3_000, 1_500, 0));
        assert_eq!(approach.pace(messages(4_000, 1_500, 0)), None, "it has caught up");
    }

    #[test]
    fn only_the_last_few_looks_count_and_another_state_begins_anew() {
        let mut approach = Approach::default();
        for at in 0..100 {
            approach.look(messages(at * LOOK_MS / 2, 0, 5_000));
        }
        assert_eq!(approach.looks.len(), LOOKS);
        let state = |at_ms, slot, have, bytes| Look {
            state: Some((slot, 10, have, bytes)),
            ..messages(at_ms, 0, 9)
        };
        approach.look(state(50_000, 64, 2, 1_000));
        let pace = approach.pace(state(51_000, 64, 4, 5_000)).unwrap();
        assert_eq!((pace.by, pace.bytes_per_second), ("state", 4_000.0));
        assert_eq!(pace.seconds_left, Some(3.0));
        approach.look(state(52_000, 128, 0, 0));
        assert_eq!(approach.looks.len(), 1);
    }
}
