//! A running hash of all that happens. Equal seeds must give equal hashes: a difference means that
//! a core, a service or the world itself reads something beside its inputs.

use pentarchy_core::digest::{Digest, Hasher};

/// The hash so far.
pub struct Audit {
    hasher: Hasher,
    entries: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { hasher: Hasher::new("simulated world"), entries: 0 }
    }
}

impl Audit {
    /// Adds an entry: when, what kind, which nodes, what bytes.
    pub fn note(&mut self, time: u64, kind: u8, nodes: u64, bytes: &[u8]) {
        self.entries += 1;
        self.hasher.u64(time).u64(u64::from(kind) << 56 | nodes).bytes(bytes);
    }

    /// Entries so far.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The hash of all entries so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Audit;

    #[test]
    fn order_and_content_matter() {
        let digest = |entries: &[(u64, &[u8])]| {
            let mut audit = Audit::default();
            entries.iter().for_each(|(time, bytes)| audit.note(*time, 1, 2, bytes));
            audit.digest()
        };
        assert_eq!(digest(&[(1, b"a"), (1, b"b")]), digest(&[(1, b"a"), (1, b"b")]));
        assert_ne!(digest(&[(1, b"a"), (1, b"b")]), digest(&[(1, b"b"), (1, b"a")]));
        assert_ne!(digest(&[(1, b"ab")]), digest(&[(1, b"a"), (1, b"b")]));
    }
}
