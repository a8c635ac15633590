//! Checks what others made, for one membership.

use crate::costs;
use crate::keys::{KeyPair, is_signed_by};
use crate::member_keys::MemberKeys;
use crate::request_auth::{self, BadMemberKey, PairKeys, SignedRequest};
use crate::seen::Seen;
use crate::session::Tag;
use ed25519_dalek::{Signature, VerifyingKey};
use pentarchy_core::auth::{self, Verifier};
use pentarchy_core::change::proves_possession;
use pentarchy_core::configuration::Access;
use pentarchy_core::counter::{Certificate, Instance, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::{ClientId, Incarnation, ReplicaId};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::{Envelope, RequestAuth};
use std::fmt;
use std::sync::Arc;

/// Checks counter certificates. Implemented by the trusted devices' crate; the one for MACs holds
/// the devices' key and so belongs to the device.
pub trait UsigCheck: Send + Sync {
    /// Whether the device of `replica` gave `ui` to the statement with this digest. Whether the
    /// membership admits that life of the device is not asked here.
    fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool;

    /// Whether a device in this life made the MAC of the statement with this digest. Devices of
    /// most kinds make none.
    fn check_mac(&self, by: Maker, mac: &TrustedMac, digest: &Digest) -> bool {
        let _ = (by, mac, digest);
        false
    }

    /// Whether it is another process that is asked, so that a look at what is remembered is faster.
    fn is_apart(&self) -> bool {
        false
    }
}

/// Who is said to have made a trusted MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Maker {
    /// Whose device.
    pub replica: ReplicaId,
    /// Which of that replica's.
    pub instance: Instance,
    /// In which life.
    pub incarnation: Incarnation,
}

/// A client's tag of an envelope, to be checked.
#[derive(Clone, Copy, Debug)]
pub struct TaggedRequest<'a> {
    /// Whose envelope it is said to be.
    pub client: &'a ClientId,
    /// See [`request_auth::request_statement`].
    pub statement: Digest,
    /// What is said to prove it.
    pub tag: &'a Tag,
}

/// Checks the tags that clients make under session keys. Implemented by the trusted devices' crate,
/// as only devices have those keys. There is deliberately no way to have a tag made.
pub trait SessionCheck: Send + Sync {
    /// Whether each of these requests was tagged by its client. Every device of a group gives the
    /// same answer.
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool;
}

/// How the group's clients authenticate envelopes; equal in all replicas of a group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RequestMode {
    /// By signature: the default, and safe against malicious clients.
    #[default]
    Signature,
    /// By a MAC for each replica: for clients that fail only by accident.
    Mac,
    /// By a tag that the replicas' trusted devices check: as fast as MACs and safe against
    /// malicious clients and replicas, as long as no device betrays its key.
    Session,
}

/// Why a [`GroupVerifier`] cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadVerifier {
    /// A key of the membership is unusable.
    MemberKey(BadMemberKey),
    /// MACs can be checked only by a replica, under its own key.
    MacNeedsKeys,
    /// Session tags can be checked only by a trusted device.
    SessionNeedsDevice,
}

impl fmt::Display for BadVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemberKey(error) => fmt::Display::fmt(error, f),
            Self::MacNeedsKeys => {
                f.write_str("request MACs can only be checked with a replica's own key")
            }
            Self::SessionNeedsDevice => {
                f.write_str("session tags can only be checked by a trusted device")
            }
        }
    }
}

impl std::error::Error for BadVerifier {}

/// The verifier of one membership. Shared by threads.
///
/// Signatures that were found genuine are remembered ([`Seen`]), and so are certificates and MACs
/// of devices if another process has to be asked; what was found false is not. Other MACs and
/// session tags are as fast to check again as to look up.
pub struct GroupVerifier {
    membership: Arc<Membership>,
    /// Of the requests that are signed or have session tags, ...
    domain: Domain,
    /// ... and of those that have MACs.
    macs_domain: Domain,
    /// By replica; the points of [`Membership::members`] unpacked once.
    keys: Vec<VerifyingKey>,
    usig: Arc<dyn UsigCheck>,
    requests: RequestCheck,
    /// Whose requests are genuine.
    access: Access,
    seen: Seen,
    /// Whose entries in vectors of MACs are checked; nobody's, and none convinces, if there is
    /// none.
    member: Option<(ReplicaId, MemberKeys)>,
}

enum RequestCheck {
    Signature,
    Mac(PairKeys),
    Session(Arc<dyn SessionCheck>),
}

impl GroupVerifier {
    /// A verifier for the membership. `me` is needed in [`RequestMode::Mac`] only: the replica that
    /// checks, and its key, under which its entries are made.
    ///
    /// # Errors
    /// [`BadVerifier`] if a member's key is no public key, or `me` is missing but needed, or for
    /// [`RequestMode::Session`], where [`Self::with_sessions`] is to be used.
    pub fn new(
        membership: Arc<Membership>,
        usig: Arc<dyn UsigCheck>,
        requests: RequestMode,
        me: Option<(ReplicaId, &KeyPair)>,
    ) -> Result<Self, BadVerifier> {
        let requests = match (requests, me) {
            (RequestMode::Signature, _) => RequestCheck::Signature,
            (RequestMode::Mac, Some((me, keys))) => RequestCheck::Mac(PairKeys::new(me, keys)),
            (RequestMode::Mac, None) => return Err(BadVerifier::MacNeedsKeys),
            (RequestMode::Session, _) => return Err(BadVerifier::SessionNeedsDevice),
        };
        Self::make(membership, usig, requests)
    }

    /// A verifier for the membership, whose clients' requests are checked by a trusted device.
    ///
    /// # Errors
    /// [`BadVerifier`] if a member's key is no public key.
    pub fn with_sessions(
        membership: Arc<Membership>,
        usig: Arc<dyn UsigCheck>,
        sessions: Arc<dyn SessionCheck>,
    ) -> Result<Self, BadVerifier> {
        Self::make(membership, usig, RequestCheck::Session(sessions))
    }

    fn make(
        membership: Arc<Membership>,
        usig: Arc<dyn UsigCheck>,
        requests: RequestCheck,
    ) -> Result<Self, BadVerifier> {
        let unpack = |replica: ReplicaId| {
            let key = VerifyingKey::from_bytes(&membership.members[usize::from(replica.0)].signing);
            key.ok()
                .filter(|key| !key.is_weak())
                .ok_or(BadVerifier::MemberKey(BadMemberKey { replica }))
        };
        let keys = membership.ids().map(unpack).collect::<Result<_, _>>()?;
        let (domain, macs_domain) = (membership.group_domain(), membership.macs_domain());
        let (access, seen, member) = (Access::Open, Seen::default(), None);
        Ok(Self { membership, domain, macs_domain, keys, usig, requests, access, seen, member })
    }

    /// The same in the eyes of this member, whose key it is: vectors of MACs convince it of its own
    /// entry.
    #[must_use]
    pub fn of_member(self, me: ReplicaId, keys: KeyPair) -> Self {
        let member = Some((me, MemberKeys::new(keys, self.membership.clone())));
        Self { member, ..self }
    }

    /// If clients are listed, takes requests to the service of these, the members and the
    /// administrators only.
    /// Every replica of a group must have the same list: a lying replica could have any other
    /// client's requests ordered where only connections are checked, and replicas that disagree
    /// would stop each other.
    #[must_use]
    pub fn admitting(self, access: &Access) -> Self {
        Self { access: access.clone(), ..self }
    }

    /// Runs a check unless the claim was proved before.
    fn once(&self, claim: &Digest, check: impl FnOnce() -> bool) -> bool {
        if self.seen.contains(claim) {
            return true;
        }
        let genuine = check();
        if genuine {
            self.seen.insert([claim]);
        }
        genuine
    }

    fn usig_once(&self, replica: ReplicaId, digest: &Digest, ui: &Ui, seal: &[u8]) -> bool {
        let claim = usig_claim(replica, digest, ui, seal);
        self.once(&claim, || self.check_usig(replica, digest, ui))
    }

    fn check_usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        costs::USIGS_VERIFIED.add(1);
        self.usig.check(replica, ui, digest)
    }

    /// Checks together those that are signed and were not seen before. A batch is genuine exactly
    /// if each of its signatures is, so a refused one needs no second look.
    fn all_signed(&self, envelopes: &[&Envelope]) -> bool {
        let mut claims = Vec::with_capacity(envelopes.len());
        let mut unseen = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let RequestAuth::Signature(signature) = &envelope.auth else {
                return false;
            };
            let claim = envelope_claim(&envelope.digest, signature);
            if !self.seen.contains(&claim) {
                let statement = self.statement(envelope);
                unseen.push(SignedRequest { client: &envelope.client, statement, signature });
                claims.push(claim);
            }
        }
        let genuine = request_auth::all_signed(&unseen);
        if genuine {
            self.seen.insert(&claims);
        }
        genuine
    }

    fn statement(&self, envelope: &Envelope) -> Digest {
        request_auth::request_statement(&self.domain, &envelope.digest)
    }

    /// Has the envelopes of members and administrators, and those that ask something of the group
    /// itself, checked by signature, and all others by `clients`. What those ask changes who is
    /// trusted, and with which devices, so it must not rest on devices. Nor on MACs: who trusts
    /// clients to fail by accident only does not trust replicas so far.
    fn members_sign(
        &self,
        envelopes: &[&Envelope],
        clients: impl FnOnce(&[&Envelope]) -> bool,
    ) -> bool {
        let group = &self.membership;
        let is_signed = |it: &&&Envelope| group.governs(&it.client) || it.is_to_group();
        let (signed, by_clients): (Vec<&Envelope>, Vec<&Envelope>) =
            envelopes.iter().partition(is_signed);
        (signed.is_empty() || self.all_signed(&signed)) && clients(&by_clients)
    }

    fn all_maced(&self, pair_keys: &PairKeys, envelopes: &[&Envelope]) -> bool {
        envelopes.iter().all(|envelope| match &envelope.auth {
            RequestAuth::Macs(macs) => {
                let digest = &envelope.digest;
                let statement = request_auth::request_statement(&self.macs_domain, digest);
                pair_keys.check(self.keys.len(), &envelope.client, &statement, macs)
            }
            RequestAuth::Signature(_) | RequestAuth::Session(_) => false,
        })
    }

    /// One call of the device for all of them.
    fn all_tagged(&self, sessions: &dyn SessionCheck, envelopes: &[&Envelope]) -> bool {
        let mut tagged = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let RequestAuth::Session(tag) = &envelope.auth else {
                return false;
            };
            let statement = self.statement(envelope);
            tagged.push(TaggedRequest { client: &envelope.client, statement, tag });
        }
        costs::SESSION_TAGS_VERIFIED.add(tagged.len());
        sessions.check(&tagged)
    }
}

impl Verifier for GroupVerifier {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        let Some(key) = self.keys.get(usize::from(replica.0)) else {
            return false;
        };
        self.once(&signature_claim(replica, digest, signature), || {
            costs::SIGNATURES_VERIFIED.add(1);
            key.verify_strict(&digest.0, &Signature::from_bytes(signature)).is_ok()
        })
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let Some(member) = self.membership.members.get(usize::from(replica.0)) else {
            return false;
        };
        if ui.incarnation != member.incarnation {
            return false;
        }
        // The membership says which kind its devices make; the other kind would let whoever holds
        // the weaker key speak for a device of the stronger.
        let by_mac = member.life().is_mac();
        match &ui.certificate {
            Certificate::Mac(_) if by_mac && !self.usig.is_apart() => {
                self.check_usig(replica, digest, ui)
            }
            Certificate::Mac(mac) => by_mac && self.usig_once(replica, digest, ui, mac),
            Certificate::Signature(signature) => {
                !by_mac && self.usig_once(replica, digest, ui, signature)
            }
        }
    }

    fn mac(
        &self,
        (replica, instance): (ReplicaId, Instance),
        digest: &Digest,
        mac: &TrustedMac,
    ) -> bool {
        let Some(member) = self.membership.members.get(usize::from(replica.0)) else {
            return false;
        };
        let by = Maker { replica, instance, incarnation: member.incarnation };
        let check = || {
            costs::USIGS_VERIFIED.add(1);
            self.usig.check_mac(by, mac, digest)
        };
        let is_apart = self.usig.is_apart();
        member.life().is_mac()
            && if is_apart { self.once(&mac_claim(by, mac, digest), check) } else { check() }
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        let checks = |(me, keys): &(_, MemberKeys)| keys.check(*me, author, digest, macs);
        self.member.as_ref().is_some_and(checks)
    }

    fn key(&self, key: &[u8; 32], digest: &Digest, signature: &[u8; 64]) -> bool {
        is_signed_by(key, digest, signature)
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        self.envelopes(&[envelope])
    }

    fn envelopes(&self, envelopes: &[&Envelope]) -> bool {
        let listed = |envelope: &&Envelope| self.membership.serves(&self.access, envelope);
        let genuine = envelopes.iter().all(listed)
            && match &self.requests {
                RequestCheck::Signature => self.all_signed(envelopes),
                RequestCheck::Mac(pair_keys) => {
                    self.members_sign(envelopes, |clients| self.all_maced(pair_keys, clients))
                }
                RequestCheck::Session(sessions) => {
                    self.members_sign(envelopes, |clients| self.all_tagged(&**sessions, clients))
                }
            };
        let is_signed = |key: &[u8; 32], digest: &Digest, signed: &auth::Signature| {
            let claim = possession_claim(key, digest, signed);
            self.once(&claim, || is_signed_by(key, digest, &signed.0))
        };
        genuine && envelopes.iter().all(|envelope| proves_possession(envelope, is_signed))
    }
}

impl fmt::Debug for GroupVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupVerifier({:?}, {})", self.membership.group, self.membership.epoch)
    }
}

/// What [`Seen`] remembers of a replica's signature.
fn signature_claim(replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> Digest {
    Hasher::new("seen signature").u64(replica.0.into()).digest(digest).bytes(signature).finish()
}

/// What [`Seen`] remembers of a device's certificate: every field of the identifier is in it.
fn usig_claim(replica: ReplicaId, digest: &Digest, ui: &Ui, seal: &[u8]) -> Digest {
    let mut hasher = Hasher::new("seen certificate");
    hasher.u64(replica.0.into()).digest(digest).u64(ui.incarnation.0);
    hasher.u64(ui.instance.0.into());
    for position in [ui.position, ui.committed] {
        hasher.u64(position.view.0).u64(position.index);
    }
    hasher.bytes(seal).finish()
}

/// What [`Seen`] remembers of a trusted MAC.
fn mac_claim(by: Maker, mac: &TrustedMac, digest: &Digest) -> Digest {
    let mut hasher = Hasher::new("seen trusted mac");
    hasher.u64(by.replica.0.into()).u64(by.instance.0.into()).u64(by.incarnation.0);
    hasher.digest(digest).bytes(&mac.0).finish()
}

/// The digest names the member.
fn possession_claim(key: &[u8; 32], digest: &Digest, signed: &auth::Signature) -> Digest {
    Hasher::new("seen possession").bytes(key).digest(digest).bytes(&signed.0).finish()
}

/// What [`Seen`] remembers of an envelope. The digest names the client.
fn envelope_claim(digest: &Digest, signature: &[u8; 64]) -> Digest {
    Hasher::new("seen envelope").digest(digest).bytes(signature).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::costs;
    use crate::request_auth::ClientSigner;
    use pentarchy_core::ids::GroupId;
    use pentarchy_core::request::{Draft, Request};

    struct NoDevices;

    impl UsigCheck for NoDevices {
        fn check(&self, _: ReplicaId, _: &Ui, _: &Digest) -> bool {
            false
        }
    }

    fn draft(client: ClientId) -> Draft {
        let request = Request { number: 1, operation: b"get".as_slice().into() };
        Draft { client, floor: 1, events: None, requests: vec![request] }
    }

    #[test]
    fn an_envelope_is_checked_once() {
        let membership = Membership::of_keys(GroupId::default(), 0, []);
        let domain = membership.group_domain();
        let membership = Arc::new(membership);
        let verifier =
            GroupVerifier::new(membership, Arc::new(NoDevices), RequestMode::Signature, None)
                .expect("no member has a bad key");
        let seal = |seed: u8| {
            let signer = ClientSigner::signature(KeyPair::from_seed([seed; 32]), domain);
            signer.seal(draft(signer.client_id()))
        };
        let envelopes: Vec<Envelope> = (0..9).map(seal).collect();
        let all: Vec<&Envelope> = envelopes.iter().collect();
        // The counts are those of the process; no other unit test of this crate checks signatures.
        let checked = || costs().signatures_verified;
        let before = checked();
        assert!(verifier.envelopes(&all[..4]) && verifier.envelope(all[4]));
        assert_eq!(checked() - before, 5);
        assert!(verifier.envelopes(&all[..5]) && verifier.envelope(all[0]));
        assert_eq!(checked() - before, 5);
        assert!(verifier.envelopes(&all));
        let listed = verifier.admitting(&Access::only([envelopes[1].client]));
        assert!(listed.envelope(all[1]) && !listed.envelope(all[0]));
        assert!(!listed.envelopes(&all[..2]));
        assert_eq!(checked() - before, 9);
    }
}
