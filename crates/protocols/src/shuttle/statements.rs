//! What replicas say, as what convinces others covers it.

use crate::common::certificate::Vouched;
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::slot_results::Results;
use pentarchy_core::succession::{Mark, empty_history};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// What a replica says that has ordered this history: the same for each author and in both
/// directions. The domain names group, epoch and configuration, so that it counts nowhere else.
#[must_use]
pub fn order_statement(domain: &Domain, slot: Slot, history: &Digest) -> Digest {
    let anywhere = mutant!("shuttle.statement-without-configuration");
    let domain = if anywhere { &Domain::default() } else { domain };
    domain.statement("shuttle order").u64(slot.0).digest(history).finish()
}

/// What full replicas sign at a checkpoint. The authority checks the same statement.
#[must_use]
pub fn mark_statement(domain: &Domain, slot: Slot, marked: &Marked) -> Digest {
    let Marked { state, history } = *marked;
    Mark { base: Base { slot, state }, history }.statement(domain)
}

/// What came of a slot, for all clients.
#[must_use]
pub fn digest_of(results: &[Results]) -> Digest {
    let mut all = Hasher::new("shuttle results");
    all.u64(results.len() as u64);
    for Results { client, digest, .. } in results {
        all.bytes(&client.0).digest(digest);
    }
    all.finish()
}

/// What full replicas vouch for at a checkpoint. Witnesses know the history, and no state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Marked {
    /// Service state and client table.
    pub state: Digest,
    /// What led there.
    pub history: Digest,
}

impl Vouched for Marked {
    fn initial(base: Base) -> Self {
        Self { state: base.state, history: empty_history(base) }
    }
    fn state(&self) -> Digest {
        self.state
    }
    fn cover(&self, statement: &mut Hasher) {
        statement.digest(&self.state).digest(&self.history);
    }
}

impl Wire for Marked {
    fn encode(&self, to: &mut Writer) {
        self.state.encode(to);
        self.history.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { state: Digest::decode(from)?, history: Digest::decode(from)? })
    }
}
