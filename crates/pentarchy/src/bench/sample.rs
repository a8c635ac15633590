//! What one measurement of one system found.

use super::stats::Quantiles;
use std::collections::BTreeMap;

/// One measurement: everything between the end of the warm-up and the end.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Length of the measured window.
    pub seconds: f64,
    /// Operations whose right result arrived in the window.
    pub completed: u64,
    /// Operations that came to another end in the window, by what it was.
    pub errors: BTreeMap<&'static str, u64>,
    /// From submission to completion, on the thread that did both.
    pub latency: Quantiles,
    /// What each replica used, by id.
    pub replicas: Vec<Usage>,
    /// Microseconds of processor time that this process used, all clients together.
    pub client_cpu_us: f64,
    /// What the clients' cores sent.
    pub sent: Sent,
    /// Slots that the group ordered, if its status said so.
    pub slots: Option<u64>,
    /// View changes in the window, if the status said so.
    pub view_changes: Option<u64>,
}

/// What one replica used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Usage {
    /// Microseconds of processor time in the window, by all its threads, in user and kernel mode.
    pub cpu_us: f64,
    /// The most memory that it ever had resident, in bytes.
    pub peak_bytes: f64,
}

/// What clients sent in the window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// Envelopes that left for the first time.
    pub envelopes: u64,
    /// Requests in them.
    pub requests: u64,
    /// Envelopes that left again, because an answer was late.
    pub resent: u64,
}

impl Sample {
    /// Operations in a second.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 / self.seconds
    }

    /// Microseconds from one completion to the next.
    pub fn us_per_op(&self) -> f64 {
        self.seconds * 1e6 / self.completed as f64
    }

    /// Processor time of one replica for each completed operation.
    pub fn replica_cpu_us_per_op(&self, id: usize) -> Option<f64> {
        self.replicas.get(id).map(|usage| usage.cpu_us / self.completed as f64)
    }

    /// Processor time of the clients for each completed operation.
    pub fn client_cpu_us_per_op(&self) -> f64 {
        self.client_cpu_us / self.completed as f64
    }

    /// Mean number of requests that the group ordered together.
    pub fn requests_per_batch(&self) -> Option<f64> {
        self.slots.filter(|slots| *slots > 0).map(|slots| self.completed as f64 / slots as f64)
    }

    /// Mean number of requests under one authentication.
    pub fn requests_per_envelope(&self) -> Option<f64> {
        let Sent { envelopes, requests, .. } = self.sent;
        (envelopes > 0).then(|| requests as f64 / envelopes as f64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sample of a second with as many operations and known ratios between everything.
    pub fn sample(completed: u64) -> Sample {
        let micros = 1e6 / completed as f64;
        let count = completed as f64;
        Sample {
            seconds: 2.0,
            completed: 2 * completed,
            errors: BTreeMap::new(),
            latency: Quantiles { p50: micros, p99: 2.0 * micros, p999: 3.0 * micros, max: 9e3 },
            replicas: vec![
                Usage { cpu_us: 6.0 * count, peak_bytes: 8.0 * 1048576.0 },
                Usage { cpu_us: 4.0 * count, peak_bytes: 7.0 * 1048576.0 },
            ],
            client_cpu_us: 10.0 * count,
            sent: Sent { envelopes: completed / 10, requests: 2 * completed, resent: 0 },
            slots: Some(completed / 50),
            view_changes: Some(0),
        }
    }

    #[test]
    fn figures_are_per_completed_operation() {
        let sample = sample(1000);
        assert_eq!((sample.throughput(), sample.us_per_op()), (1000.0, 1000.0));
        assert_eq!(sample.replica_cpu_us_per_op(0), Some(3.0));
        assert_eq!(sample.replica_cpu_us_per_op(1), Some(2.0));
        assert_eq!(sample.replica_cpu_us_per_op(2), None);
        assert_eq!(sample.client_cpu_us_per_op(), 5.0);
        assert_eq!(sample.requests_per_batch(), Some(100.0));
        assert_eq!(sample.requests_per_envelope(), Some(20.0));
    }

    #[test]
    fn means_of_nothing_are_absent() {
        let mut sample = sample(1000);
        (sample.slots, sample.sent) = (Some(0), Sent::default());
        assert_eq!(sample.requests_per_batch(), None);
        assert_eq!(sample.requests_per_envelope(), None);
    }
}
