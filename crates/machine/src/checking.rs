//! Whether what clients send was authenticated by them.
//!
//! That is most of what a request costs a replica, and it can be done side by side. So where
//! pillars have threads each checks the requests of its own clients, and the replica's thread hands
//! over to the core what they found good.

use pentarchy_core::auth::Verifier;
use pentarchy_core::ids::{ClientId, Epoch};
use pentarchy_core::request::Envelope;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found of some envelopes.
#[derive(Debug)]
pub struct Checked {
    /// In which epoch: others may be clients in another one.
    pub epoch: Epoch,
    /// All of them.
    pub envelopes: Vec<Arc<Envelope>>,
    /// Whose are not all authentic, in ascending order. Each sent its own over its own channel, so
    /// none of what such a client said is worth another check.
    pub bad: Vec<ClientId>,
}

impl Checked {
    /// Checks all of them together, and if that fails those of each client.
    pub(crate) fn by(verifier: &dyn Verifier, epoch: Epoch, envelopes: Vec<Arc<Envelope>>) -> Self {
        let mut bad = Vec::new();
        if !are_authentic(verifier, &envelopes) {
            let mut by_client: BTreeMap<ClientId, Vec<Arc<Envelope>>> = BTreeMap::new();
            for envelope in &envelopes {
                by_client.entry(envelope.client).or_default().push(envelope.clone());
            }
            by_client.retain(|_, its| !are_authentic(verifier, its));
            bad.extend(by_client.into_keys());
        }
        Self { epoch, envelopes, bad }
    }

    /// Bytes of the envelopes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.envelopes.iter().map(|envelope| envelope.len()).sum()
    }
}

fn are_authentic(verifier: &dyn Verifier, envelopes: &[Arc<Envelope>]) -> bool {
    let envelopes: Vec<&Envelope> = envelopes.iter().map(AsRef::as_ref).collect();
    envelopes.is_empty() || verifier.envelopes(&envelopes)
}

/// How many envelopes are being checked elsewhere.
#[derive(Default)]
pub struct UnderCheck {
    all: usize,
    by_client: BTreeMap<ClientId, usize>,
}

impl UnderCheck {
    /// Of all clients.
    pub fn all(&self) -> usize {
        self.all
    }

    /// Of this one.
    pub fn of(&self, client: &ClientId) -> usize {
        self.by_client.get(client).copied().unwrap_or_default()
    }

    /// This one is handed over.
    pub fn begin(&mut self, client: ClientId) {
        self.all += 1;
        *self.by_client.entry(client).or_default() += 1;
    }

    /// It is done.
    pub fn end(&mut self, client: ClientId) {
        if let Some(its) = self.by_client.get_mut(&client) {
            self.all -= 1;
            *its -= 1;
            if *its == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::auth::Verifier;
    use pentarchy_core::counter::{Instance, TrustedMac, Ui};
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::ReplicaId;
    use pentarchy_core::request::{Draft, Request, RequestAuth};

    /// An envelope is authentic if its signature begins with 1.
    struct Ones;

    impl Verifier for Ones {
        fn signature(&self, _: ReplicaId, _: &Digest, _: &[u8; 64]) -> bool {
            false
        }
        fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
            false
        }
        fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
            false
        }
        fn envelope(&self, envelope: &Envelope) -> bool {
            envelope.auth == RequestAuth::Signature([1; 64])
        }
    }

    fn envelope(client: u8, number: u64, is_authentic: bool) -> Arc<Envelope> {
        let requests = vec![Request { number, operation: vec![client].into() }];
        let client = ClientId([client; 32]);
        let draft = Draft { client, floor: 0, events: None, requests };
        Arc::new(draft.seal(RequestAuth::Signature([u8::from(is_authentic); 64])))
    }

    #[test]
    fn one_liar_spoils_nothing_but_what_it_sent_itself() {
        let sent = |third| vec![envelope(1, 1, true), envelope(2, 1, true), third];
        let bad = |third| Checked::by(&Ones, Epoch(3), sent(third)).bad;
        assert_eq!(bad(envelope(3, 1, true)), []);
        assert_eq!(bad(envelope(3, 1, false)), [ClientId([3; 32])]);
        assert_eq!(bad(envelope(2, 2, false)), [ClientId([2; 32])]);
        let checked = Checked::by(&Ones, Epoch(3), sent(envelope(3, 1, false)));
        let bytes = sent(envelope(3, 1, false)).iter().map(|it| it.len()).sum::<usize>();
        assert_eq!((checked.epoch, checked.envelopes.len(), checked.bytes()), (Epoch(3), 3, bytes));
    }

    #[test]
    fn what_is_handed_over_counts_until_it_is_back() {
        let mut under_check = UnderCheck::default();
        let clients = [1, 2, 2].map(|client| ClientId([client; 32]));
        clients.iter().for_each(|client| under_check.begin(*client));
        assert_eq!((under_check.all(), under_check.of(&clients[1])), (3, 2));
        clients.iter().for_each(|client| under_check.end(*client));
        assert_eq!((under_check.all(), under_check.by_client.len()), (0, 0));
    }
}
