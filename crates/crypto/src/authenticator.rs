//! Makes the tag that a message asks for.

use crate::costs;
use crate::keys::KeyPair;
use crate::member_keys::MemberKeys;
use crate::signing_keys::SharedSigningKeys;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::authenticator;
use pentarchy_core::counter::{Counters, Instance, Memory, Refused, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::MemberId;
use pentarchy_core::membership::Membership;
use std::fmt;
use std::sync::Arc;

/// Where a member's keys of other configurations are.
struct Signing {
    member: MemberId,
    keys: SharedSigningKeys,
    is_pillar: bool,
}

impl Signing {
    /// The key by which the member signs in an epoch, if it has it.
    fn of_epoch(&self, membership: &Membership) -> Option<KeyPair> {
        let place = membership.index_of(self.member)?;
        let public = &membership.members[usize::from(place.0)].signing;
        let mut keys = self.keys.lock();
        if self.is_pillar { keys.get(public).cloned() } else { keys.adopt(public) }
    }
}

/// A replica's means to convince others: its key and its trusted counters.
pub struct Authenticator {
    keys: KeyPair,
    /// Where its keys of other configurations are; none if it keeps one.
    signing: Option<Signing>,
    /// The number of the first of its counters.
    first: u8,
    counters: Vec<Box<dyn Usig>>,
    /// For MACs; none if it makes none.
    members: Option<MemberKeys>,
}

impl Authenticator {
    /// Takes possession of all: a counter that two hosts could reach would still be safe, but each
    /// would see the other's positions as spent.
    #[must_use]
    pub fn new(keys: KeyPair, counters: Vec<Box<dyn Usig>>) -> Self {
        Self { keys, signing: None, first: 0, counters, members: None }
    }

    /// The same for a member that has a key for each configuration: the present one, and from each
    /// later epoch on the one that its configuration names. A pillar's comes to an epoch when the
    /// member may be in a later one, so it only looks for its key.
    #[must_use]
    pub fn with_keys(self, member: MemberId, signing: SharedSigningKeys, is_pillar: bool) -> Self {
        let keys = signing.lock().current().clone();
        Self { keys, signing: Some(Signing { member, keys: signing, is_pillar }), ..self }
    }

    /// The same, and it makes MACs for each of these members.
    #[must_use]
    pub fn among(self, membership: Arc<Membership>) -> Self {
        let members = Some(MemberKeys::new(self.keys.clone(), membership));
        Self { members, ..self }
    }

    /// For one who has no counter, and for so many pillars beside it, each of which has the one of
    /// its number. If there is not one for each, they need none, and it keeps what there is.
    #[must_use]
    pub fn of_pillars(
        keys: &KeyPair,
        counters: Vec<Box<dyn Usig>>,
        pillars: u8,
    ) -> (Self, Vec<Self>) {
        let is_shared = counters.len() == usize::from(pillars);
        let (kept, shared) =
            if is_shared { (Vec::new(), counters) } else { (counters, Vec::new()) };
        let mut shared = shared.into_iter();
        let of_pillar = |first| Self {
            keys: keys.clone(),
            signing: None,
            first,
            counters: shared.next().into_iter().collect(),
            members: None,
        };
        let of_pillars = (0..pillars).map(of_pillar).collect();
        (Self::new(keys.clone(), kept), of_pillars)
    }

    fn counter(&mut self, Instance(number): Instance) -> Result<&mut dyn Usig, Refused> {
        let index = number.checked_sub(self.first).ok_or(Refused::Unavailable)?;
        self.counters.of(Instance(index))
    }
}

impl authenticator::Authenticator for Authenticator {
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        // A replica that lacks its key counts as faulty: no other replica accepts what it signs.
        if let Some(keys) = self.signing.as_ref().and_then(|it| it.of_epoch(membership)) {
            self.keys = keys;
        }
        if self.members.is_some() {
            let membership = Arc::new(membership.clone());
            self.members = Some(MemberKeys::new(self.keys.clone(), membership));
        }
        self.counters.iter_mut().try_for_each(|counter| counter.begin_epoch(membership))
    }

    fn memories(&self) -> Vec<(Instance, Memory)> {
        let remembered = (self.first..).map(Instance).zip(&self.counters);
        remembered.filter_map(|(instance, it)| Some((instance, it.memory()?))).collect()
    }

    fn sign(&self, digest: &Digest) -> Signature {
        Signature(self.keys.sign(digest))
    }

    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        match auth {
            Auth::Channel => Ok(AuthTag::Channel),
            Auth::Checksum => Ok(AuthTag::Checksum(Checksum::of(digest))),
            Auth::Signature => Ok(AuthTag::Signature(self.keys.sign(digest))),
            Auth::Vector => {
                let members = self.members.as_ref().ok_or(Refused::Unavailable)?;
                Ok(AuthTag::Vector(members.make(digest)))
            }
            Auth::Usig(instance, position) => {
                costs::USIGS_CREATED.add(1);
                self.counter(*instance)?.create(*position, digest).map(AuthTag::Usig)
            }
            Auth::Mac(instance) => {
                costs::USIGS_CREATED.add(1);
                self.counter(*instance)?.mac(digest).map(AuthTag::Mac)
            }
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authenticator({:?}, {} counters)", self.keys, self.counters.len())
    }
}
