//! What replicas have a reason for in a world, and how long it may take them.

use super::{Disturbance, Options};
use crate::network::NetworkOptions;
use crate::time::Micros;
use pentarchy_core::protocol::Tuning;

impl Options {
    /// Whether nothing goes wrong but what clients send: then nobody has a reason to leave a view.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let NetworkOptions { latency_us, jitter_us, loss_ppm, straggle_ppm, .. } = self.network;
        let takes = latency_us + jitter_us + self.network.slow_link_us;
        let network = takes < 10_000 && loss_ppm == 0 && straggle_ppm == 0 && self.hears_all();
        let hosts = self.busy_ppm == 0 && self.skew_ms == 0 && self.drift_ppm == 0;
        let replicas = self.byzantine.is_empty() && self.disturbances.is_empty();
        network && hosts && replicas && !self.abuses_macs()
    }

    /// Whether no kind of message is kept from a replica.
    const fn hears_all(&self) -> bool {
        self.hearing == 0 && self.late_checkpoints == 0 && self.left_alone_us == 0
    }

    /// Whether messages take about as long as replicas wait for a primary. Until timeouts have
    /// doubled a few times, replicas then depose primaries that do nothing wrong.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.network.latency_us >= self.timeouts.request_ms * 1_000 / 8
    }

    /// Whether messages take so long, and nothing else goes wrong but that replicas die.
    #[must_use]
    pub fn is_only_slow(&self) -> bool {
        let NetworkOptions { latency_us, jitter_us, .. } = self.network;
        let slow = NetworkOptions { latency_us, jitter_us, ..NetworkOptions::default() };
        let is_whole = self.network == slow && self.hears_all();
        let hosts = self.busy_ppm == 0 && self.skew_ms == 0 && self.drift_ppm == 0;
        let dies = |(_, it): &(Micros, Disturbance)| matches!(it, Disturbance::Crash(_));
        let replicas = self.byzantine.is_empty() && self.disturbances.iter().all(dies);
        is_whole && self.is_slow() && hosts && replicas && self.hostile.is_empty()
    }

    /// How long the network takes at best to order, one round of batches after the other, all that
    /// clients can have waiting together.
    #[must_use]
    pub fn ordering_us(&self) -> Micros {
        /// Messages between the primary's proposal of a batch and of the one that waits for it, in
        /// the protocols with most: the proposal, and two rounds of votes, as in PBFT.
        const STEPS: u64 = 3;
        let waiting = self.requests_each.min(self.outstanding as u64) * self.clients as u64;
        let Tuning { batch_requests, proposals_in_flight, .. } = self.tuning;
        let rounds = waiting / (batch_requests as u64 * proposals_in_flight).max(1);
        rounds * STEPS * (self.network.latency_us + self.network.jitter_us)
    }
}
