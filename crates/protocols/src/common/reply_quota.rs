//! What a peer was sent because it asked: a question is small, its answer is not.

use alloc::collections::BTreeSet;
use pentarchy_core::digest::Digest;
use pentarchy_core::limits::{RESEND_BYTES_MAX, RESEND_MESSAGES_MAX};

/// Bodies and envelopes in answer to one peer between two ticks. They wait in its queue once as
/// they are and once encrypted.
const ANSWERS_MAX: usize = 2 * RESEND_MESSAGES_MAX;
const ANSWER_BYTES_MAX: usize = 4 * RESEND_BYTES_MAX;

/// What one peer was sent since the last tick.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReplyQuota {
    digests: BTreeSet<Digest>,
    bytes: usize,
}

impl ReplyQuota {
    /// Whether the peer may be sent this too. Not what is on its way already: who is behind asks
    /// for everything that it lacks whenever it lacks something more.
    pub fn takes(&mut self, digest: Digest, bytes: usize) -> bool {
        let fits = self.bytes == 0 || self.bytes + bytes <= ANSWER_BYTES_MAX;
        let may = fits && self.digests.len() < ANSWERS_MAX && self.digests.insert(digest);
        self.bytes += if may { bytes } else { 0 };
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: u8) -> Digest {
        Digest([name; 32])
    }

    #[test]
    fn nothing_is_sent_twice_nor_more_than_the_limits_allow() {
        let mut served = ReplyQuota::default();
        assert!(served.takes(digest(1), 10) && !served.takes(digest(1), 10));
        assert!(served.takes(digest(2), ANSWER_BYTES_MAX - 10));
        assert!(!served.takes(digest(3), 1), "no bytes are left");
        let mut served = ReplyQuota::default();
        assert!(served.takes(digest(0), ANSWER_BYTES_MAX + 1), "one may be larger");
        let mut served = ReplyQuota::default();
        let taken = (0..=u8::MAX).filter(|name| served.takes(digest(*name), 1)).count();
        assert_eq!(taken, ANSWERS_MAX);
    }
}
