//! The trusted code that checks clients' requests: the devices' half of each client's session key.
//!
//! A device answers whether tags are right and never makes one. The host can thus neither forge a
//! request nor choose who is convinced: every device gives the same answer about the same tag. No
//! state of a device has a part in the answer, so neither a device that was set back nor a copy of
//! one says anything else.

use crate::usig::GroupKey;
use pentarchy_core::digest::Domain;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::CLIENTS_MAX;
use pentarchy_crypto::session::{SessionKey, public_half};
use pentarchy_crypto::verifier::{SessionCheck, TaggedRequest};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// Keys that are kept, in each of two generations.
pub const KEYS_MAX: usize = CLIENTS_MAX;

/// The devices' public key, for the configuration of the group with this secret.
#[must_use]
pub fn public_key(group_secret: &[u8; 32]) -> [u8; 32] {
    public_half(&GroupKey::new(group_secret).session_secret())
}

/// Checks the requests of one group's clients, in all of its epochs.
pub struct Sessions {
    group: Domain,
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
    known: Mutex<Known>,
}

/// Keys of clients that have proved to have them. A client is forgotten only if it said nothing
/// while [`KEYS_MAX`] others did; then its next request costs one agreement, which is no more than
/// a signature. Who has no key of a client gets nothing in here.
#[derive(Default)]
struct Known {
    recent: HashMap<ClientId, SessionKey>,
    earlier: HashMap<ClientId, SessionKey>,
}

impl Sessions {
    pub(crate) fn new(key: &GroupKey, group: Domain) -> Self {
        let secret = key.session_secret();
        let public = public_half(&secret);
        Self { group, secret, public, known: Mutex::default() }
    }

    /// The devices' public key, which clients find in the configuration.
    #[must_use]
    pub const fn public_key(&self) -> [u8; 32] {
        self.public
    }

    fn is_right(&self, request: &TaggedRequest<'_>) -> bool {
        let client = request.client;
        let known = self.known().recent.get(client).cloned();
        if let Some(key) = known {
            return key.is_tag(&request.statement, request.tag);
        }
        let earlier = self.known().earlier.get(client).cloned();
        let keys = (&*self.secret, &self.public);
        let key = earlier.or_else(|| SessionKey::of_device(keys, &self.group, client));
        let key = key.filter(|key| key.is_tag(&request.statement, request.tag));
        key.map(|key| self.known().remember(client, key)).is_some()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remember(&mut self, client: &ClientId, key: SessionKey) {
        if self.recent.len() >= KEYS_MAX {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.recent.insert(*client, key);
    }
}

impl SessionCheck for Sessions {
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool {
        requests.iter().all(|request| self.is_right(request))
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::GroupId;
    use pentarchy_crypto::keys::KeyPair;

    fn sessions() -> Sessions {
        Sessions::new(&GroupKey::new(&[7; 32]), Domain::of_group(&GroupId([1; 16])))
    }

    fn client(number: usize) -> ClientId {
        let mut client = ClientId([0; 32]);
        client.0[..8].copy_from_slice(&number.to_le_bytes());
        client
    }

    #[test]
    fn the_table_is_bounded_and_keeps_who_spoke_last() {
        let sessions = sessions();
        let keys = KeyPair::from_seed([2; 32]);
        let key = SessionKey::of_client(&keys, &sessions.group, &sessions.public).unwrap();
        let has = |known: &Known, number: usize| {
            [&known.recent, &known.earlier].iter().any(|keys| keys.contains_key(&client(number)))
        };
        for number in 0..3 * KEYS_MAX {
            let mut known = sessions.known();
            known.remember(&client(number), key.clone());
            assert!(known.recent.len() <= KEYS_MAX && known.earlier.len() <= KEYS_MAX);
            assert!(number < KEYS_MAX || has(&known, number + 1 - KEYS_MAX));
        }
        assert!(!has(&sessions.known(), 0));
    }
}
