//! How clients convince replicas that a request is theirs.

use super::{Crypto, keyed, member_id, signature};
use pentarchy_core::auth::Signature;
use pentarchy_core::change::proves_possession;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use std::sync::PoisonError;

/// How clients authenticate what they ask. Members always sign.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Means {
    /// By signature.
    #[default]
    Signature,
    /// By MACs, one for each replica.
    Macs,
    /// By a tag that only the replicas' devices can check.
    Session,
}

/// A tag under a session key.
pub type Tag = [u8; RequestAuth::SESSION_BYTES];

/// The group of every world; others are known by their clients only.
const HERE: u64 = 0;

/// Under the key that a client shares with whoever signs by this one, for a configuration.
fn mac(
    secret: &Digest,
    (configuration, signing): (u64, &[u8; 32]),
    digest: &Digest,
) -> [u8; RequestAuth::MAC_BYTES] {
    let mut numbers = [0; 6];
    for (number, bytes) in numbers.iter_mut().zip(signing.as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*bytes);
    }
    if !mutant!("request.macs-outlast-configuration") {
        numbers[4] = configuration;
    }
    keyed(secret, 3, numbers, digest)
}

fn tag(secret: &Digest, group: u64, digest: &Digest) -> Tag {
    keyed(secret, 4, [group, 0, 0, 0, 0, 0], digest)
}

impl Crypto {
    /// How this client authenticates.
    pub(super) fn means_of(&self, client: &ClientId) -> Means {
        let mut members = (0..self.replicas.len() as u16).map(ReplicaId);
        let signs = members.any(|id| member_id(id) == *client);
        let signs = signs || self.administrators.contains(client);
        if signs { Means::Signature } else { self.means }
    }

    /// The tag that a client would put on this digest, also if it is of another's draft. None if it
    /// is not of this world.
    #[must_use]
    pub fn tag(&self, client: &ClientId, digest: &Digest) -> Option<Tag> {
        self.clients.get(client).map(|secret| tag(secret, HERE, digest))
    }

    /// The tag that a client puts on this digest where it is a client too: in another group, with
    /// other devices.
    #[must_use]
    pub fn tag_elsewhere(&self, client: &ClientId, digest: &Digest) -> Option<Tag> {
        self.clients.get(client).map(|secret| tag(secret, HERE + 1, digest))
    }

    /// Every client's tag on this digest.
    fn tags_of_all(&self, digest: &Digest) -> impl Iterator<Item = Tag> {
        self.clients.values().map(|secret| tag(secret, HERE, digest))
    }

    /// Whether devices take this tag for that of the envelope's client. Each can tell, in whatever
    /// state it is.
    pub(super) fn is_tagged(&self, envelope: &Envelope, tag: &Tag) -> bool {
        let Envelope { client, digest, .. } = envelope;
        let right = self.tag(client, digest);
        right == Some(*tag)
            || right.is_some() && mutant!("session.any-tag-good")
            || mutant!("session.client-not-bound") && self.tags_of_all(digest).any(|it| it == *tag)
            || mutant!("session.group-not-bound")
                && self.tag_elsewhere(client, digest) == Some(*tag)
    }

    /// Whether what clients make depends on the keys by which members sign.
    #[must_use]
    pub fn shares_keys(&self) -> bool {
        self.means == Means::Macs
    }

    /// Authenticates as the draft's client, for the group as it begins.
    #[must_use]
    pub fn seal(&self, draft: Draft) -> Envelope {
        self.seal_for(draft, ReplicaSet(u64::MAX))
    }

    /// The same, but if clients use MACs, only these replicas get one that is right.
    #[must_use]
    pub fn seal_for(&self, draft: Draft, to: ReplicaSet) -> Envelope {
        let first = (0..self.replicas.len() as u16).map(|id| member_id(ReplicaId(id)).0);
        self.seal_under(draft, (0, first.collect()), to)
    }

    /// Authenticates as the draft's client, for the members of an epoch.
    #[must_use]
    pub fn seal_in(&self, draft: Draft, membership: &Membership) -> Envelope {
        let keys: Vec<_> = membership.members.iter().map(|member| member.signing).collect();
        if self.shares_keys() {
            let mut known = self.known_keys.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(keys.iter().map(|key| (membership.number(), *key)));
        }
        self.seal_under(draft, (membership.number(), keys), ReplicaSet(u64::MAX))
    }

    fn seal_under(
        &self,
        draft: Draft,
        (configuration, keys): (u64, Vec<[u8; 32]>),
        to: ReplicaSet,
    ) -> Envelope {
        let secret = self.clients.get(&draft.client).expect("a client of this world");
        let digest = draft.digest();
        match self.means_of(&draft.client) {
            Means::Signature => {
                return draft.seal(RequestAuth::Signature(signature(secret, &digest)));
            }
            Means::Session => return draft.seal(RequestAuth::Session(tag(secret, HERE, &digest))),
            Means::Macs => {}
        }
        let entry = |(id, key): (u16, &[u8; 32])| {
            let mut entry = mac(secret, (configuration, key), &digest);
            entry[0] ^= u8::from(!to.contains(ReplicaId(id)));
            entry
        };
        let macs: Vec<u8> = (0..).zip(&keys).flat_map(entry).collect();
        draft.seal(RequestAuth::Macs(macs.into()))
    }

    /// Whether somebody signed this who has this key: each begins with the number of the replica
    /// that made it.
    fn is_by(&self, key: &[u8; 32], digest: &Digest, signed: &Signature) -> bool {
        self.is_signed((ReplicaId(key[0].into()), key), digest, &signed.0)
    }

    /// Whether an envelope would convince anyone who was a member in any epoch.
    pub(super) fn convinces_anyone(&self, envelope: &Envelope) -> bool {
        let places = (0..self.replicas.len() as u16).map(ReplicaId);
        let mut first = places.clone().map(|id| (id, (0, member_id(id).0)));
        let known = self.known_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut later = places.flat_map(|id| known.iter().map(move |key| (id, *key)));
        first.any(|(id, (number, key))| self.convinces((id, number, &key), envelope))
            || later.any(|(id, (number, key))| self.convinces((id, number, &key), envelope))
    }

    /// Whether an envelope convinces the replica that has this place in the group's configuration
    /// of this number, and signs by this key.
    pub(super) fn convinces(&self, me: (ReplicaId, u64, &[u8; 32]), envelope: &Envelope) -> bool {
        let Some(secret) = self.clients.get(&envelope.client) else { return false };
        if !proves_possession(envelope, |key, digest, signed| self.is_by(key, digest, signed)) {
            return false;
        }
        match (&envelope.auth, self.means_of(&envelope.client)) {
            (RequestAuth::Signature(signed), Means::Signature) => {
                signature(secret, &envelope.digest) == *signed
            }
            (RequestAuth::Session(said), Means::Session) => {
                tag(secret, HERE, &envelope.digest) == *said
            }
            (RequestAuth::Macs(macs), Means::Macs) => {
                let (ReplicaId(place), number, key) = me;
                let entry = macs.chunks_exact(RequestAuth::MAC_BYTES).nth(usize::from(place));
                entry == Some(&mac(secret, (number, key), &envelope.digest)[..])
            }
            _ => false,
        }
    }
}
