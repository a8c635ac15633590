//! Replicas that are frozen and go on at random, at most `f` at a time.

use super::record::Gap;
use pentarchy_sim::rng::Rng;
use rustix::process::Signal;
use serde::Serialize;
use std::time::Duration;

/// How long a replica is frozen, in milliseconds; half as long to half as long again.
const FROZEN_MS: [u64; 6] = [50, 200, 400, 800, 1_500, 3_000];

/// How long none is frozen instead before the next one is.
const BETWEEN_MS: [u64; 5] = [0, 50, 300, 1_000, 2_000];

/// How long before a gap began a replica may have gone on that is named with it: it may have been
/// behind still.
const BEFORE: Duration = Duration::from_millis(500);

/// One time that a replica was frozen.
#[derive(Clone, Copy, Serialize)]
pub struct Pause {
    /// Which one.
    pub replica: u32,
    /// Seconds from the start of the measurement.
    pub from: f64,
    /// The same, when it went on; none until it has.
    pub to: Option<f64>,
}

/// Of as many replicas as may be frozen at a time, one after the other.
#[derive(Clone, Copy)]
struct Lane {
    /// Which of the pauses is going on.
    frozen: Option<usize>,
    next: Duration,
}

/// See the [module](self).
pub struct Pauses {
    rng: Rng,
    n: u32,
    lanes: Vec<Lane>,
    /// All, in the order in which they began.
    pub done: Vec<Pause>,
}

impl Pauses {
    /// Of at most `f` of `n` replicas at a time; the same ones for the same seed.
    pub fn new(seed: u64, n: u32, f: usize) -> Self {
        let lane = Lane { frozen: None, next: Duration::from_secs(1) };
        Self { rng: Rng::new(seed), n, lanes: vec![lane; f], done: Vec::new() }
    }

    /// When something is to be done next.
    pub fn next(&self) -> Option<Duration> {
        self.lanes.iter().map(|lane| lane.next).min()
    }

    /// Freezes whom it is time to freeze, and has go on whose time is over.
    pub fn go_on<E>(
        &mut self,
        now: Duration,
        mut send: impl FnMut(u32, Signal) -> Result<(), E>,
    ) -> Result<(), E> {
        for index in 0..self.lanes.len() {
            let lane = self.lanes[index];
            if lane.next > now {
                continue;
            }
            let (frozen, lasts) = match lane.frozen {
                Some(pause) => {
                    send(self.done[pause].replica, Signal::CONT)?;
                    self.done[pause].to = Some(now.as_secs_f64());
                    (None, BETWEEN_MS[self.rng.below(5) as usize])
                }
                None => {
                    let replica = self.victim();
                    send(replica, Signal::STOP)?;
                    self.done.push(Pause { replica, from: now.as_secs_f64(), to: None });
                    (Some(self.done.len() - 1), FROZEN_MS[self.rng.below(6) as usize])
                }
            };
            let micros = self.rng.range(lasts * 500, lasts * 1_500);
            self.lanes[index] = Lane { frozen, next: now + Duration::from_micros(micros) };
        }
        Ok(())
    }

    /// Any that is not frozen.
    fn victim(&mut self) -> u32 {
        let frozen: Vec<u32> =
            self.lanes.iter().filter_map(|lane| Some(self.done[lane.frozen?].replica)).collect();
        let others: Vec<u32> = (0..self.n).filter(|id| !frozen.contains(id)).collect();
        others[self.rng.below(others.len() as u64) as usize]
    }

    /// The replicas that the bench froze during a gap or shortly before it.
    pub fn beside(&self, gap: &Gap) -> Vec<Pause> {
        let (from, to) = (gap.from - BEFORE.as_secs_f64(), gap.from + gap.ms / 1e3);
        let meets = |pause: &&Pause| pause.from < to && pause.to.is_none_or(|end| end > from);
        self.done.iter().filter(meets).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_f_are_frozen_and_each_goes_on() {
        let (mut pauses, mut frozen, mut most) = (Pauses::new(7, 5, 2), Vec::new(), 0);
        while let Some(now) = pauses.next().filter(|now| now.as_secs() < 600) {
            let send = |replica, signal| {
                if signal == Signal::STOP {
                    assert!(!frozen.contains(&replica));
                    frozen.push(replica);
                } else {
                    assert!(frozen.contains(&replica));
                    frozen.retain(|id| *id != replica);
                }
                most = most.max(frozen.len());
                Ok::<(), ()>(())
            };
            pauses.go_on(now, send).unwrap();
        }
        assert_eq!(most, 2);
        let victims: std::collections::BTreeSet<u32> =
            pauses.done.iter().map(|pause| pause.replica).collect();
        assert_eq!(victims.len(), 5);
        let last = pauses.done[pauses.done.len() - 3];
        let gap = Gap { from: last.from + 0.001, ms: 1.0 };
        assert!(pauses.beside(&gap).iter().any(|pause| pause.from == last.from));
        let early = Gap { from: 0.1, ms: 10.0 };
        assert!(pauses.beside(&early).is_empty());
    }
}
