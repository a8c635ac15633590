//! Groups in which nothing goes wrong, but whose links take long: what the latency of a protocol is
//! made of when messages cost more than everything else. A replica computes in no time, so what is
//! left are communication steps, and who has to be waited for.

use crate::rng::Rng;
use crate::run::{Factories, Violation, time_options};
use crate::swarm::Options;
use crate::time::Micros;
use pentarchy_core::protocol::{Timeouts, Tuning};

/// Links between all nodes, and what goes over them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wide {
    /// Faults that are tolerated; nobody is faulty.
    pub f: usize,
    /// How long a message takes on average, in microseconds.
    pub link_us: Micros,
    /// The standard deviation of that.
    pub deviation_us: Micros,
    /// Requests of one client, who submits the next when the last one has its result.
    pub requests: u64,
}

impl Wide {
    /// The world: that of [`Options::calm`] with the sizes of a real group. Timers wait as much
    /// longer as links take longer than a millisecond, so that none runs out.
    #[must_use]
    pub fn options(&self, factories: &Factories<'_>) -> Options {
        let mut options = Options::calm();
        (options.f, options.n) = (self.f, factories.rules.replicas(self.f));
        options.requests_each = self.requests;
        options.think_us = self.link_us;
        options.tuning = Tuning::default();
        let (longer, usual) = (1 + self.link_us / 1_000, Timeouts::default());
        options.timeouts = Timeouts {
            request_ms: usual.request_ms * longer,
            view_change_ms: usual.view_change_ms * longer,
            resend_ms: usual.resend_ms * longer,
            client_retry_ms: usual.client_retry_ms * longer,
        };
        (options.network.latency_us, options.network.jitter_us) = (self.link_us, 0);
        options.network.deviation_us = self.deviation_us;
        options
    }

    /// How long each request took, in the world of this seed.
    ///
    /// # Errors
    /// The property that the world breaks.
    pub fn latencies(
        &self,
        seed: u64,
        factories: &Factories<'_>,
    ) -> Result<Vec<Micros>, Violation> {
        let options = self.options(factories);
        time_options(seed, options, factories, Rng::new(seed), None).map(|(_, took)| took)
    }
}
