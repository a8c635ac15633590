//! How a client authenticates an envelope, and how a replica checks it.
//!
//! Three ways. A *signature* convinces every replica alike, whoever passed the envelope on; it is
//! the default. A *session tag* does so too, where replicas have trusted devices that share a key
//! with the client and check the tag ([`crate::session`]): at the cost of a MAC, and as long as no
//! device betrays that key. A list of *MACs*, one for each replica, is cheaper but convinces each
//! replica of its own entry only: a client who makes some entries right and some wrong can have
//! correct replicas disagree about its requests and depose a correct primary (Clement et al.,
//! *Making Byzantine fault tolerant systems tolerate Byzantine faults*, NSDI 2009). It is for
//! groups whose clients fail only by accident.
//!
//! All cover the envelope's digest, bound to format version and group; MACs also to the group's
//! configuration ([`Membership::macs_domain`]).

use crate::agreed::{PairKey, agree, derive, mac};
use crate::costs;
use crate::keys::KeyPair;
use crate::session::SessionKey;
use ed25519_zebra::{Signature, VerificationKey, VerificationKeyBytes, batch};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ClientId, ReplicaId};
use pentarchy_core::limits::CLIENTS_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Envelopes from which on one common check is faster than one for each.
pub const BATCH_MIN: usize = 2;

/// A key of the membership that is no usable public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMemberKey {
    /// Whose key.
    pub replica: ReplicaId,
}

impl fmt::Display for BadMemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the membership's key of replica {} is not a public key", self.replica)
    }
}

impl std::error::Error for BadMemberKey {}

/// A public key of a group's trusted devices with which no secret key can be agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadSessionKey;

impl fmt::Display for BadSessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the session key of the trusted devices is not a public key: take the configuration \
             as it was made with the group",
        )
    }
}

impl std::error::Error for BadSessionKey {}

/// What a client signs in order to make an envelope.
#[must_use]
pub fn request_statement(domain: &Domain, envelope: &Digest) -> Digest {
    domain.statement("request").digest(envelope).finish()
}

/// The client's side: turns drafts into envelopes.
pub struct ClientSigner {
    keys: KeyPair,
    domain: Domain,
    means: Means,
}

enum Means {
    Signature,
    Macs(Vec<PairKey>),
    Session(SessionKey),
}

impl ClientSigner {
    /// Signs envelopes for the group whose [`Membership::group_domain`] this is.
    #[must_use]
    pub const fn signature(keys: KeyPair, domain: Domain) -> Self {
        Self { keys, domain, means: Means::Signature }
    }

    /// Adds a MAC for each replica of the membership instead; see the module's warning.
    ///
    /// # Errors
    /// [`BadMemberKey`] if there is no key to be agreed on with a member.
    pub fn macs(keys: KeyPair, membership: &Membership) -> Result<Self, BadMemberKey> {
        let secret = keys.channel_secret();
        let client = keys.client_id();
        let key_with = |(replica, member): (ReplicaId, &[u8; 32])| {
            pair_key(&secret, member, &client, member).ok_or(BadMemberKey { replica })
        };
        let members = membership.ids().zip(membership.members.iter().map(|member| &member.signing));
        let pair_keys = members.map(key_with).collect::<Result<_, _>>()?;
        Ok(Self { keys, domain: membership.macs_domain(), means: Means::Macs(pair_keys) })
    }

    /// Adds one tag that only the group's trusted devices can check. `devices` is their public key
    /// and `domain` the group's [`Membership::group_domain`], as the configuration names them.
    ///
    /// # Errors
    /// [`BadSessionKey`] if that is a point with which anybody would come to the same key.
    pub fn session(
        keys: KeyPair,
        devices: &[u8; 32],
        domain: Domain,
    ) -> Result<Self, BadSessionKey> {
        let key = SessionKey::of_client(&keys, &domain, devices).ok_or(BadSessionKey)?;
        Ok(Self { keys, domain, means: Means::Session(key) })
    }

    /// Whose envelopes these are.
    #[must_use]
    pub fn client_id(&self) -> ClientId {
        self.keys.client_id()
    }

    /// Authenticates a draft of this client. One of another client comes out as an envelope that
    /// every replica refuses.
    #[must_use]
    pub fn seal(&self, draft: Draft) -> Envelope {
        draft.seal_with(|digest| {
            let statement = request_statement(&self.domain, digest);
            match &self.means {
                Means::Signature => RequestAuth::Signature(self.keys.sign(&statement)),
                Means::Macs(pair_keys) => {
                    costs::MACS_MADE.add(pair_keys.len());
                    let macs = pair_keys.iter().flat_map(|key| mac(key, &statement));
                    RequestAuth::Macs(macs.collect::<Vec<u8>>().into())
                }
                Means::Session(key) => {
                    costs::SESSION_TAGS_MADE.add(1);
                    RequestAuth::Session(key.tag(&statement))
                }
            }
        })
    }
}

impl fmt::Debug for ClientSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let means = match &self.means {
            Means::Signature => "signature",
            Means::Macs(_) => "macs",
            Means::Session(_) => "session",
        };
        write!(f, "ClientSigner({:?}, {means})", self.keys)
    }
}

/// A client's signature of an envelope, to be checked.
pub(crate) struct SignedRequest<'a> {
    pub client: &'a ClientId,
    pub statement: Digest,
    pub signature: &'a [u8; 64],
}

/// Whether every client signed its envelope.
///
/// All correct replicas must come to the same verdict on an envelope, or a client could have them
/// quarrel over whether the primary's proposal is valid. The usual rules for one signature and for
/// a batch differ on crafted points of low order, so a verdict would depend on what else happened
/// to be in the batch. The rule of ZIP 215 does not: both sides of the equation are multiplied by
/// the cofactor in either case, and the scalar must be canonical. It lets a client choose a key of
/// low order, for which anyone can sign; that harms only this client.
pub(crate) fn all_signed(requests: &[SignedRequest<'_>]) -> bool {
    costs::SIGNATURES_VERIFIED.add(requests.len());
    if requests.len() < BATCH_MIN {
        return requests.iter().all(is_signed);
    }
    let mut batch = batch::Verifier::new();
    for SignedRequest { client, statement, signature } in requests {
        let key = VerificationKeyBytes::from(client.0);
        batch.queue((key, Signature::from(**signature), &statement.0));
    }
    batch.verify(UnwrapErr(SysRng)).is_ok()
}

fn is_signed(request: &SignedRequest<'_>) -> bool {
    let signature = Signature::from(*request.signature);
    VerificationKey::try_from(request.client.0)
        .is_ok_and(|key| key.verify(&signature, &request.statement.0).is_ok())
}

/// The replica's side of the MACs. Derives the key for a client from its id when the client first
/// proves to have it.
pub(crate) struct PairKeys {
    me: ReplicaId,
    public: [u8; 32],
    secret: Zeroizing<[u8; 32]>,
    known: Mutex<HashMap<ClientId, PairKey>>,
}

impl PairKeys {
    pub(crate) fn new(me: ReplicaId, keys: &KeyPair) -> Self {
        let known = Mutex::new(HashMap::new());
        Self { me, public: keys.public(), secret: keys.channel_secret(), known }
    }

    /// Whether this replica's entry is right. There must be one entry for each of `n` replicas.
    pub(crate) fn check(
        &self,
        n: usize,
        client: &ClientId,
        statement: &Digest,
        macs: &[u8],
    ) -> bool {
        let start = usize::from(self.me.0) * RequestAuth::MAC_BYTES;
        let entry = macs.get(start..start + RequestAuth::MAC_BYTES);
        let Some(entry) = entry.filter(|_| macs.len() == n * RequestAuth::MAC_BYTES) else {
            return false;
        };
        costs::MACS_VERIFIED.add(1);
        let is_right = |key: &PairKey| bool::from(mac(key, statement).ct_eq(entry));
        if let Some(key) = self.known().get(client) {
            return is_right(key);
        }
        let Some(key) = pair_key(&self.secret, &client.0, client, &self.public) else {
            return false;
        };
        is_right(&key) && self.remember(client, key)
    }

    /// Keeps the key of a client that has just used it. When the table is full it starts afresh:
    /// whoever is still there pays one key agreement.
    fn remember(&self, client: &ClientId, key: PairKey) -> bool {
        let mut known = self.known();
        if known.len() >= CLIENTS_MAX {
            known.clear();
        }
        known.insert(*client, key);
        true
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<ClientId, PairKey>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key between a client and a replica, from the secret of one and the public key of the other.
fn pair_key(
    secret: &[u8; 32],
    peer: &[u8; 32],
    client: &ClientId,
    replica: &[u8; 32],
) -> Option<PairKey> {
    Some(derive("pentarchy 1 request MAC", &agree(secret, peer)?, &client.0, replica))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_pair_keys_is_bounded_and_forgets_nobody_for_good() {
        let keys = KeyPair::from_seed([1; 32]);
        let pair_keys = PairKeys::new(ReplicaId(0), &keys);
        for number in 0..2 * CLIENTS_MAX as u64 {
            let mut client = ClientId([0; 32]);
            client.0[..8].copy_from_slice(&number.to_le_bytes());
            pair_keys.remember(&client, Zeroizing::new([0; 32]));
            assert!(pair_keys.known().len() <= CLIENTS_MAX);
        }
    }

    #[test]
    fn only_a_client_with_the_right_mac_gets_into_the_table() {
        let pair_keys = PairKeys::new(ReplicaId(0), &KeyPair::from_seed([1; 32]));
        let client = KeyPair::from_seed([2; 32]).client_id();
        assert!(!pair_keys.check(1, &client, &Digest([3; 32]), &[0; 16]));
        assert!(pair_keys.known().is_empty());
    }
}
