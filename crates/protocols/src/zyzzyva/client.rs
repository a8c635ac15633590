//! Zyzzyva's client (sections 3.2 to 3.4): it relies on what all replicas (of Zyzzyva5 all but `f`)
//! answered on the same history in the same view, as every later view takes that over; or on what a
//! quorum did, once it had them sign that, showed all the signatures, and a quorum keeps them.

use super::certificate::Committed;
use super::message::Message;
use super::table::Table;
use crate::common::confirming_client::Confirms;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::wire::Wire;

/// What a client relies on by these thresholds.
pub struct Proving(pub Table);

/// What it has of a place.
#[derive(Default)]
pub struct Signed {
    signatures: BTreeMap<ReplicaId, Signature>,
    /// How often it asked for them.
    attempts: u64,
}

impl Confirms for Proving {
    type Collected = Signed;

    fn fast(&self) -> usize {
        let few = mutant!("zyzzyva.client-believes-a-quorum");
        if few { self.0.quorum } else { self.0.fast }
    }

    fn enough(&self) -> usize {
        self.0.quorum
    }

    fn confirming(&self) -> usize {
        if mutant!("zyzzyva.client-trusts-one-keeper") { 1 } else { self.0.quorum }
    }

    fn learns(&self) -> bool {
        self.0.learns
    }

    fn unasked(&self) -> bool {
        self.0.commits
    }

    fn ask(&self, place: Place, signed: &mut Signed) -> Vec<Bytes> {
        signed.attempts += 1;
        let mut messages = vec![Message::Vouch { view: place.view, slot: place.slot }.to_bytes()];
        if signed.signatures.len() >= self.0.quorum {
            messages.push(signed.certificate(place, self.0.quorum));
        }
        messages
    }

    fn on_vouched(
        &self,
        from: ReplicaId,
        (place, signature): (Place, Signature),
        signed: &mut Signed,
    ) -> Option<Bytes> {
        if signed.signatures.contains_key(&from) {
            return None;
        }
        signed.signatures.insert(from, signature);
        if signed.signatures.len() != self.0.quorum {
            return None;
        }
        mark!("zyzzyva/client_certificate_made");
        Some(signed.certificate(place, self.0.quorum))
    }
}

impl Signed {
    /// A commit certificate. The client cannot tell which signatures are good; if some are not, it
    /// tries others.
    fn certificate(&self, place: Place, quorum: usize) -> Bytes {
        let mut signatures: Vec<(ReplicaId, Signature)> =
            self.signatures.iter().map(|(id, signature)| (*id, *signature)).collect();
        let order = |(id, _): &(ReplicaId, Signature)| {
            let seed = [self.attempts.to_le_bytes(), u64::from(id.0).to_le_bytes()].concat();
            if self.attempts <= 1 { Digest::default() } else { Digest::of(&seed) }
        };
        signatures.sort_by_key(order);
        signatures.truncate(quorum);
        Message::Certificate(Arc::new(Committed { place, signatures })).to_bytes()
    }
}
