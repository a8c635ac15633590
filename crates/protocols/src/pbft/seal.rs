//! What PBFT asks of a [seal], beside that it convinces: how many votes make a
//! certificate.

use crate::common::certificate::Check;
use crate::common::seal::{self, Seal as _};
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use pentarchy_core::quorum::Quorums;

/// By what votes and view changes convince third parties.
pub trait Seal: seal::Seal {
    /// Whether this replica made it for the statement.
    fn is_by(&self, check: &Check<'_>, author: ReplicaId, statement: &Digest) -> bool {
        self.is_good(check, author, statement)
    }

    /// So many votes make a certificate, and so many members a NEW-VIEW.
    #[must_use]
    fn quorum(quorums: Quorums) -> usize {
        quorums.byzantine_quorum()
    }
}

impl Seal for Signature {}

impl Seal for TrustedMac {
    fn is_by(&self, check: &Check<'_>, author: ReplicaId, statement: &Digest) -> bool {
        let anyone = mutant!("hybrid-pbft.mac-of-anyone");
        let by = |id| self.is_good(check, id, statement);
        by(author) || anyone && check.membership.ids().any(by)
    }

    fn quorum(quorums: Quorums) -> usize {
        let unique = mutant!("hybrid-pbft.mac-taken-for-unique");
        if unique { quorums.weak() } else { quorums.byzantine_quorum() }
    }
}
