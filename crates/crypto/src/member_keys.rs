//! The keys that members share in pairs, and the MACs under them: an author makes one for each
//! receiver, and each receiver checks its own ([`MacVector`]).

use crate::agreed::{PairKey, agree, derive, mac};
use crate::costs;
use crate::keys::KeyPair;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mac_vector::{MAC_BYTES, MacVector};
use pentarchy_core::membership::{Member, Membership};
use std::fmt;
use std::sync::{Arc, OnceLock};
use subtle::ConstantTimeEq;

/// One key for each direction between a member and another: what one said must not pass for what
/// the other said.
struct Directions {
    /// Of what this member says.
    out: PairKey,
    /// Of what the other says.
    back: PairKey,
}

/// A member's keys with all members, itself included. Agreed on when the first MAC is made or
/// checked: most protocols need none. The authenticator makes them anew for each epoch.
pub struct MemberKeys {
    me: KeyPair,
    membership: Arc<Membership>,
    /// By member; none where the member's key is unusable: this member and that one accept no MAC
    /// of each other.
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
    let (shared, mine) = (agree(&me.channel_secret(), &member.signing)?, me.public());
    // The key under which the first convinces the second.
    let key = |author, receiver| derive("pentarchy 1 replica MAC", &shared, author, receiver);
    Some(Directions { out: key(&mine, &member.signing), back: key(&member.signing, &mine) })
}
