//! A client core that counts what another one sends.

use super::sample::Sent;
use pentarchy_core::ports::client::{ClientCore, Effect, Event};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all clients together have sent so far.
#[derive(Default, Debug)]
pub struct Counts {
    envelopes: AtomicU64,
    requests: AtomicU64,
    resent: AtomicU64,
}

impl Counts {
    /// The counts now, while clients go on.
    pub fn now(&self) -> Sent {
        Sent {
            envelopes: self.envelopes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            resent: self.resent.load(Ordering::Relaxed),
        }
    }
}

impl Sent {
    /// What was sent since an earlier count.
    pub const fn since(self, before: Self) -> Self {
        Self {
            envelopes: self.envelopes - before.envelopes,
            requests: self.requests - before.requests,
            resent: self.resent - before.resent,
        }
    }
}

/// Passes everything on to the core inside.
pub struct Counting {
    inner: Box<dyn ClientCore>,
    counts: Arc<Counts>,
    /// Above every request number that was sent.
    next: u64,
}

impl Counting {
    /// Counts what this core sends.
    pub fn new(inner: Box<dyn ClientCore>, counts: Arc<Counts>) -> Self {
        Self { inner, counts, next: 0 }
    }
}

impl ClientCore for Counting {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        let before = out.len();
        self.inner.step(event, out);
        for effect in &out[before..] {
            let Effect::Request { draft, .. } = effect else { continue };
            let last = draft.requests.iter().map(|request| request.number).max().unwrap_or(0);
            // Numbers ascend, and a draft that leaves again is the same draft.
            if last < self.next {
                self.counts.resent.fetch_add(1, Ordering::Relaxed);
            } else {
                self.next = last + 1;
                self.counts.envelopes.fetch_add(1, Ordering::Relaxed);
                self.counts.requests.fetch_add(draft.requests.len() as u64, Ordering::Relaxed);
            }
        }
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
    use pentarchy_core::protocol::Timeouts;
    use pentarchy_core::quorum::Quorums;
    use pentarchy_protocols::DEFAULT;
    use pentarchy_protocols::common::voting_client::VotingClient;

    #[test]
    fn what_is_sent_again_is_told_from_what_is_new() {
        let counts = Arc::new(Counts::default());
        let timeouts = Timeouts::default();
        let quorums = DEFAULT.rules.client_quorums(Quorums { n: 3, f: 1 });
        let core = VotingClient::new(ClientId([1; 32]), quorums, timeouts, 0);
        let mut core = Counting::new(Box::new(core), counts.clone());
        let mut out = Vec::new();
        for replica in 0..3 {
            core.step(Event::Connected(ReplicaId(replica)), &mut out);
        }
        for number in 5..8 {
            core.step(Event::Submit { number, operation: Bytes::new() }, &mut out);
        }
        core.step(Event::Round { now: Millis(1) }, &mut out);
        assert_eq!(counts.now(), Sent { envelopes: 1, requests: 3, resent: 0 });
        core.step(Event::Round { now: Millis(2 + timeouts.client_retry_ms) }, &mut out);
        let after = counts.now();
        assert_eq!(after.since(Sent::default()), Sent { envelopes: 1, requests: 3, resent: 1 });
        assert_eq!(core.outstanding(), 3);
    }
}
