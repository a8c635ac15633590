//! Only what a client asked is executed: each envelope is its client's, and each request in it has
//! the operation that this client submitted under that number.

use super::{Broken, Verdict};
use crate::crypto::Crypto;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ClientId, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the property.
pub const PROPERTY: &str = "validity";

/// What clients submitted.
pub struct Validity {
    crypto: Arc<Crypto>,
    /// A hostile client may have asked several things under one number.
    submitted: BTreeMap<(ClientId, u64), Vec<Bytes>>,
    /// They may ask for anything.
    free: BTreeSet<ClientId>,
}

impl Validity {
    /// Nothing was submitted yet.
    #[must_use]
    pub const fn new(crypto: Arc<Crypto>) -> Self {
        Self { crypto, submitted: BTreeMap::new(), free: BTreeSet::new() }
    }

    /// A client submitted an operation.
    pub fn submitted(&mut self, client: ClientId, number: u64, operation: Bytes) {
        self.submitted.entry((client, number)).or_default().push(operation);
    }

    /// Whatever is in this one's name was asked, if it authenticated it: it is a faulty member.
    pub fn trusts(&mut self, client: ClientId) {
        self.free.insert(client);
    }

    /// A correct replica executed a batch.
    ///
    /// # Errors
    /// If something in it is not from a client, or the batch is beyond the limits.
    pub fn executed(&self, slot: Slot, batch: &Batch) -> Verdict {
        if !batch.within_limits() {
            return Err(Broken::new(PROPERTY, format!("the batch at {slot} is beyond the limits")));
        }
        for envelope in &batch.envelopes {
            if !self.crypto.envelope(envelope) {
                let detail = format!("{slot} holds {envelope:?}, which its client did not make");
                return Err(Broken::new(PROPERTY, detail));
            }
            for request in &envelope.requests {
                let asked = self.submitted.get(&(envelope.client, request.number));
                if self.free.contains(&envelope.client) {
                    continue;
                }
                if !asked.is_some_and(|asked| asked.contains(&request.operation)) {
                    let (client, number) = (envelope.client, request.number);
                    let detail = format!("{slot} holds {client}#{number}, which nobody asked");
                    return Err(Broken::new(PROPERTY, detail));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::client_id;
    use pentarchy_core::batch::{Item, Proposal};
    use pentarchy_core::ids::Millis;
    use pentarchy_core::request::{Draft, Request, RequestAuth};

    #[test]
    fn what_nobody_asked_is_found() {
        let crypto = Arc::new(Crypto::new(1, 1, 1));
        let client = client_id(1, 0);
        let mut checker = Validity::new(crypto.clone());
        checker.submitted(client, 1, Bytes::from_static(b"good"));
        let draft = |number, operation| Draft {
            events: None,
            client,
            floor: 1,
            requests: vec![Request { number, operation: Bytes::from_static(operation) }],
        };
        let check = |envelope| {
            let items = vec![Item::Whole(Arc::new(envelope))];
            let batch = Proposal::new(Millis(1), items).complete(|_| None).unwrap();
            checker.executed(Slot(1), &batch)
        };
        check(crypto.seal(draft(1, b"good"))).unwrap();
        let found = |verdict: Verdict| assert_eq!(verdict.unwrap_err().property, PROPERTY);
        found(check(crypto.seal(draft(1, b"bad"))));
        found(check(crypto.seal(draft(2, b"good"))));
        found(check(draft(1, b"good").seal(RequestAuth::Signature([0; 64]))));
    }
}
