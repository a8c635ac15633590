//! The keys that members share in pairs, and the MACs under them: an author makes one for each
//! receiver, and each receiver checks its own
//! ([`MacVector`]).

use crate::costs;
use crate::keys::{KeyPair, channel_public};
use curve25519_dalek::MontgomeryPoint;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mac_vector::{MAC_BYTES, Mac, MacVector};
use pentarchy_core::membership::{Member, Membership};
use std::fmt;
use std::sync::{Arc, OnceLock};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

type Key = Zeroizing<[u8; 32]>;

/// One key for each direction between a member and another: what one said must not pass for what
/// the other said.
struct Directions {
    /// Of what this member says.
    out: Key,
    /// Of what the other says.
    back: Key,
}

/// A member's keys with all members, itself included. Agreed on when the first MAC is made or
/// checked: most protocols need none. Members keep their keys in all epochs.
pub struct MemberKeys {
    me: KeyPair,
    membership: Arc<Membership>,
    /// By member; none where the member's key is unusable: it convinces nobody, and nobody it.
    known: OnceLock<Vec<Option<Directions>>>,
}

impl MemberKeys {
    /// Of the member with this key.
    #[must_use]
    pub const fn new(me: KeyPair, membership: Arc<Membership>) -> Self {
        Self { me, membership, known: OnceLock::new() }
    }

    fn known(&self) -> &[Option<Directions>] {
        self.known.get_or_init(|| {
            let members = self.membership.members.iter();
            members.map(|member| directions(&self.me, member)).collect()
        })
    }

    /// A MAC for each member over the statement with this digest.
    #[must_use]
    pub fn make(&self, digest: &Digest) -> MacVector {
        let known = self.known();
        costs::MACS_MADE.add(known.len());
        let entry = |keys: &Option<Directions>| {
            keys.as_ref().map_or([0; MAC_BYTES], |keys| mac(&keys.out, digest))
        };
        MacVector::new(known.iter().map(entry))
    }

    /// Whether the author made this member's entry, which is that of `me`. There must be one entry
    /// for each member.
    #[must_use]
    pub fn check(
        &self,
        me: ReplicaId,
        author: ReplicaId,
        digest: &Digest,
        macs: &MacVector,
    ) -> bool {
        let known = self.known();
        let Some(Some(keys)) = known.get(usize::from(author.0)) else { return false };
        let Some(entry) = macs.entry(me, known.len()) else { return false };
        costs::MACS_VERIFIED.add(1);
        mac(&keys.back, digest).ct_eq(entry).into()
    }
}

impl fmt::Debug for MemberKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemberKeys({:?}, {} members)", self.me, self.membership.n())
    }
}

fn directions(me: &KeyPair, member: &Member) -> Option<Directions> {
    costs::KEY_AGREEMENTS.add(1);
    let shared = MontgomeryPoint(channel_public(&member.key)?).mul_clamped(*me.channel_secret());
    let shared = Zeroizing::new(shared.to_bytes());
    let mine = me.public();
    Some(Directions {
        out: key(&shared, &mine, &member.key),
        back: key(&shared, &member.key, &mine),
    })
}

/// The key under which `author` convinces `receiver`.
fn key(shared: &[u8; 32], author: &[u8; 32], receiver: &[u8; 32]) -> Key {
    // The length is fixed, so that the parts cannot be confused.
    let mut material = Zeroizing::new([0; 96]);
    material[..32].copy_from_slice(shared);
    material[32..64].copy_from_slice(author);
    material[64..].copy_from_slice(receiver);
    Zeroizing::new(blake3::derive_key("pentarchy 1 replica MAC", &*material))
}

/// The first bytes of keyed BLAKE3.
fn mac(key: &Key, digest: &Digest) -> Mac {
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&blake3::keyed_hash(key, &digest.0).as_bytes()[..MAC_BYTES]);
    mac
}
