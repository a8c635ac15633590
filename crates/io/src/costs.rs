//! Counts of authenticated encryption in this process: each Noise message carries one tag, which is
//! the MAC of all that is in it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static SEALED: AtomicU64 = AtomicU64::new(0);
static OPENED: AtomicU64 = AtomicU64::new(0);

/// How often channels encrypted and decrypted since the process began, handshakes apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Frames {
    /// Noise messages encrypted.
    pub sealed: u64,
    /// Noise messages decrypted, or found not to be authentic.
    pub opened: u64,
}

/// The counts so far.
#[must_use]
pub fn frames() -> Frames {
    Frames { sealed: SEALED.load(Relaxed), opened: OPENED.load(Relaxed) }
}

pub(crate) fn sealed() {
    SEALED.fetch_add(1, Relaxed);
}

pub(crate) fn opened() {
    OPENED.fetch_add(1, Relaxed);
}
