//! Counts of cryptographic operations in this process: what a benchmark divides by its requests.

use pentarchy_core::digest::hashed;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often each operation was carried out since the process began. What a cache answered is not
/// in here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Costs {
    /// Ed25519 signatures made with nodes' keys.
    pub signatures_made: u64,
    /// Ed25519 signatures of nodes that were checked, in batches or one at a time.
    pub signatures_verified: u64,
    /// MACs made, one for each receiver.
    pub macs_made: u64,
    /// MACs checked.
    pub macs_verified: u64,
    /// Tags of envelopes made under session keys.
    pub session_tags_made: u64,
    /// Tags of envelopes checked under session keys.
    pub session_tags_verified: u64,
    /// Keys agreed on with X25519, for MACs and sessions.
    pub key_agreements: u64,
    /// Calls for a counter certificate.
    pub usigs_created: u64,
    /// Counter certificates checked.
    pub usigs_verified: u64,
    /// Digests made. MACs, signatures and counter certificates hash too, which is not in here.
    pub hashes: u64,
    /// Bytes that went into them.
    pub hashed_bytes: u64,
}

impl Costs {
    /// What was done since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            signatures_made: self.signatures_made.wrapping_sub(earlier.signatures_made),
            signatures_verified: self.signatures_verified.wrapping_sub(earlier.signatures_verified),
            macs_made: self.macs_made.wrapping_sub(earlier.macs_made),
            macs_verified: self.macs_verified.wrapping_sub(earlier.macs_verified),
            session_tags_made: self.session_tags_made.wrapping_sub(earlier.session_tags_made),
            session_tags_verified: self
                .session_tags_verified
                .wrapping_sub(earlier.session_tags_verified),
            key_agreements: self.key_agreements.wrapping_sub(earlier.key_agreements),
            usigs_created: self.usigs_created.wrapping_sub(earlier.usigs_created),
            usigs_verified: self.usigs_verified.wrapping_sub(earlier.usigs_verified),
            hashes: self.hashes.wrapping_sub(earlier.hashes),
            hashed_bytes: self.hashed_bytes.wrapping_sub(earlier.hashed_bytes),
        }
    }
}

pub(crate) static SIGNATURES_MADE: Counter = Counter::new();
pub(crate) static SIGNATURES_VERIFIED: Counter = Counter::new();
pub(crate) static MACS_MADE: Counter = Counter::new();
pub(crate) static MACS_VERIFIED: Counter = Counter::new();
pub(crate) static SESSION_TAGS_MADE: Counter = Counter::new();
pub(crate) static SESSION_TAGS_VERIFIED: Counter = Counter::new();
pub(crate) static KEY_AGREEMENTS: Counter = Counter::new();
pub(crate) static USIGS_CREATED: Counter = Counter::new();
pub(crate) static USIGS_VERIFIED: Counter = Counter::new();

/// The counts so far. Each is exact; together they are of nearly, not exactly, one moment.
#[must_use]
pub fn costs() -> Costs {
    let (hashes, hashed_bytes) = hashed();
    Costs {
        signatures_made: SIGNATURES_MADE.get(),
        signatures_verified: SIGNATURES_VERIFIED.get(),
        macs_made: MACS_MADE.get(),
        macs_verified: MACS_VERIFIED.get(),
        session_tags_made: SESSION_TAGS_MADE.get(),
        session_tags_verified: SESSION_TAGS_VERIFIED.get(),
        key_agreements: KEY_AGREEMENTS.get(),
        usigs_created: USIGS_CREATED.get(),
        usigs_verified: USIGS_VERIFIED.get(),
        hashes,
        hashed_bytes,
    }
}

pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
