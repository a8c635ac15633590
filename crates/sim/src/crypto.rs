//! Keys of the simulated world. A signature is a keyed hash under a secret that only this module
//! holds: as hard to forge as the real thing for everyone who has to go through [`Crypto`], and far
//! cheaper. Adversaries are never handed one. The hash is the audit's: nobody here looks for
//! collisions, and a cryptographic one would take a fifth of a run.

use crate::audit::Audit;
use crate::certifier::Certifier;
use crate::real_devices::RealDevices;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Certificate, Counter, Instance, Position, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, ReplicaId, ReplicaSet};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The life of every device with which a group begins.
pub const INCARNATION: Incarnation = Incarnation(1);

/// The name under which a member of the group asks to be admitted: its public key.
#[must_use]
pub const fn member_id(replica: ReplicaId) -> ClientId {
    ClientId([replica.0 as u8; 32])
}

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

/// All secrets of one world.
pub struct Crypto {
    replicas: Vec<Digest>,
    devices: Vec<Digest>,
    clients: BTreeMap<ClientId, Digest>,
    means: Means,
    /// Which counter its devices are.
    counter: Counter,
    /// Those of production, if they are asked the same.
    real: Option<RealDevices>,
}

fn secret(kind: &'static str, seed: u64, index: usize) -> Digest {
    Hasher::new("simulated secret").bytes(kind.as_bytes()).u64(seed).u64(index as u64).finish()
}

/// The keyed hash of some numbers and a digest. The secret goes in first and last.
fn keyed(secret: &Digest, kind: u8, numbers: [u64; 6], digest: &Digest) -> [u8; 16] {
    let mut audit = Audit::default();
    audit.note(numbers[0], kind, numbers[1], &secret.0);
    audit.note(numbers[2], kind, numbers[3], &digest.0);
    audit.note(numbers[4], kind, numbers[5], &secret.0);
    audit.digest().to_bytes()
}

fn signature(secret: &Digest, digest: &Digest) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..16].copy_from_slice(&keyed(secret, 1, [0; 6], digest));
    signature[32..].copy_from_slice(&digest.0);
    signature
}

fn mac(secret: &Digest, replica: u16, digest: &Digest) -> [u8; RequestAuth::MAC_BYTES] {
    keyed(secret, 3, [u64::from(replica), 0, 0, 0, 0, 0], digest)
}

fn tag(secret: &Digest, group: u64, digest: &Digest) -> Tag {
    keyed(secret, 4, [group, 0, 0, 0, 0, 0], digest)
}

impl Crypto {
    /// The keys of a world with `n` replicas and this many clients, who sign. Members are clients
    /// too, under their own keys.
    #[must_use]
    pub fn new(seed: u64, n: usize, clients: usize) -> Self {
        let client = |index| (client_id(seed, index), secret("client", seed, index));
        let member = |index| (member_id(ReplicaId(index as u16)), secret("replica", seed, index));
        Self {
            replicas: (0..n).map(|index| secret("replica", seed, index)).collect(),
            devices: (0..n).map(|index| secret("device", seed, index)).collect(),
            clients: (0..clients).map(client).chain((0..n).map(member)).collect(),
            means: Means::Signature,
            counter: Counter::Usig,
            real: None,
        }
    }

    /// The same keys, but devices count like this.
    #[must_use]
    pub fn counting(self, counter: Counter) -> Self {
        Self { counter, ..self }
    }

    /// How devices count.
    #[must_use]
    pub const fn counter(&self) -> Counter {
        self.counter
    }

    /// The same keys, and each device has one of production beside it, in a group that begins so.
    #[must_use]
    pub fn beside_real(self, first: &Membership) -> Self {
        Self { real: RealDevices::new(self.counter, first), ..self }
    }

    /// The devices of production, if they are asked the same.
    #[must_use]
    pub const fn real(&self) -> Option<&RealDevices> {
        self.real.as_ref()
    }

    /// The same keys, but clients use these means.
    #[must_use]
    pub fn with(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// How this client authenticates.
    fn means_of(&self, client: &ClientId) -> Means {
        let mut members = (0..self.replicas.len() as u16).map(ReplicaId);
        if members.any(|id| member_id(id) == *client) { Means::Signature } else { self.means }
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
    fn is_tagged(&self, envelope: &Envelope, tag: &Tag) -> bool {
        let Envelope { client, digest, .. } = envelope;
        let right = self.tag(client, digest);
        right == Some(*tag)
            || right.is_some() && mutant!("session.any-tag-good")
            || mutant!("session.client-not-bound") && self.tags_of_all(digest).any(|it| it == *tag)
            || mutant!("session.group-not-bound")
                && self.tag_elsewhere(client, digest) == Some(*tag)
    }

    /// Signs as a replica.
    #[must_use]
    pub fn sign(&self, replica: ReplicaId, digest: &Digest) -> [u8; 64] {
        signature(&self.replicas[usize::from(replica.0)], digest)
    }

    /// Authenticates as the draft's client.
    #[must_use]
    pub fn seal(&self, draft: Draft) -> Envelope {
        self.seal_for(draft, ReplicaSet(u64::MAX))
    }

    /// Authenticates as the draft's client, but if clients use MACs, only these replicas get one
    /// that is right.
    ///
    /// # Panics
    /// If the client is not of this world.
    #[must_use]
    pub fn seal_for(&self, draft: Draft, to: ReplicaSet) -> Envelope {
        let secret = self.clients.get(&draft.client).expect("a client of this world");
        let digest = draft.digest();
        match self.means_of(&draft.client) {
            Means::Signature => {
                return draft.seal(RequestAuth::Signature(signature(secret, &digest)));
            }
            Means::Session => return draft.seal(RequestAuth::Session(tag(secret, HERE, &digest))),
            Means::Macs => {}
        }
        let entry = |id: u16| {
            let mut entry = mac(secret, id, &digest);
            entry[0] ^= u8::from(!to.contains(ReplicaId(id)));
            entry
        };
        let macs: Vec<u8> = (0..self.replicas.len() as u16).flat_map(entry).collect();
        draft.seal(RequestAuth::Macs(macs.into()))
    }

    /// Whether an envelope convinces this replica.
    fn convinces(&self, me: ReplicaId, envelope: &Envelope) -> bool {
        let Some(secret) = self.clients.get(&envelope.client) else { return false };
        match (&envelope.auth, self.means_of(&envelope.client)) {
            (RequestAuth::Signature(signed), Means::Signature) => {
                signature(secret, &envelope.digest) == *signed
            }
            (RequestAuth::Session(said), Means::Session) => {
                tag(secret, HERE, &envelope.digest) == *said
            }
            (RequestAuth::Macs(macs), Means::Macs) => {
                let entry = macs.chunks_exact(RequestAuth::MAC_BYTES).nth(usize::from(me.0));
                entry == Some(&mac(secret, me.0, &envelope.digest)[..])
            }
            _ => false,
        }
    }

    /// Seals as a device.
    #[must_use]
    pub fn certify(
        &self,
        by: Certifier,
        position: Position,
        committed: Position,
        digest: &Digest,
    ) -> Certificate {
        let (view, index) = (position.view.0, position.index);
        let (incarnation, epoch) = (by.incarnation.0, by.epoch.0);
        let numbers = [view, index, committed.view.0, committed.index, incarnation, epoch];
        let mut certificate = [0; 32];
        let secret = &self.devices[usize::from(by.replica.0)];
        // The kinds of other statements are below 8.
        let kind = 2 | (by.instance.0 % 32) << 3;
        certificate[..16].copy_from_slice(&keyed(secret, kind, numbers, digest));
        Certificate::Mac(certificate)
    }

    /// The MACs by which a replica convinces each other one of a statement with this digest.
    #[must_use]
    pub fn macs_of(&self, author: ReplicaId, digest: &Digest) -> MacVector {
        let secret = &self.replicas[usize::from(author.0)];
        let receivers = 0..self.replicas.len() as u64;
        MacVector::new(receivers.map(|to| keyed(secret, 6, [to, 0, 0, 0, 0, 0], digest)))
    }

    /// Whether the author made this receiver's entry, of one for each replica.
    fn convinces_of(
        &self,
        (author, to): (ReplicaId, ReplicaId),
        digest: &Digest,
        macs: &MacVector,
    ) -> bool {
        let n = self.replicas.len();
        let entry = macs.entry(to, n).filter(|_| usize::from(author.0) < n);
        entry.is_some_and(|entry| self.macs_of(author, digest).entry(to, n) == Some(entry))
    }

    /// The MAC by which a device says that its replica said this.
    #[must_use]
    pub fn mac_by(&self, by: Certifier, digest: &Digest) -> TrustedMac {
        let numbers = [by.incarnation.0, by.epoch.0, 0, 0, 0, 0];
        let mut mac = [0; 32];
        let secret = &self.devices[usize::from(by.replica.0)];
        let kind = 5 | (by.instance.0 % 32) << 3;
        mac[..16].copy_from_slice(&keyed(secret, kind, numbers, digest));
        TrustedMac(mac)
    }

    /// Whether this device made the MAC of the statement with this digest.
    #[must_use]
    pub fn is_mac(&self, by: Certifier, digest: &Digest, mac: &TrustedMac) -> bool {
        let takes = usize::from(by.replica.0) < self.devices.len()
            && by.instance.0 < 32
            && self.mac_by(by, digest) == *mac;
        if let Some(real) = &self.real {
            real.compare_mac(by, mac, digest, takes);
        }
        takes
    }

    /// Whether this device gave the identifier to the statement with this digest.
    #[must_use]
    pub fn certified(&self, by: Certifier, digest: &Digest, ui: &Ui) -> bool {
        let may = usize::from(by.replica.0) < self.devices.len()
            && ui.instance == by.instance
            && ui.instance.0 < 32
            && ui.incarnation == by.incarnation;
        if !may {
            return false;
        }
        let takes = self.certify(by, ui.position, ui.committed, digest) == ui.certificate;
        if let Some(real) = &self.real {
            real.compare_identifier(by, ui, digest, takes);
        }
        takes
    }
}

/// The name of a client of this world.
#[must_use]
pub fn client_id(seed: u64, index: usize) -> ClientId {
    ClientId(secret("client id", seed, index).0)
}

/// As nobody in particular: an envelope is its client's if it would convince anyone, and devices
/// are as the group began.
impl Verifier for Crypto {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        let secret = self.replicas.get(usize::from(replica.0));
        secret.is_some_and(|secret| signature(secret, digest) == *signed)
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let by =
            Certifier { replica, instance: ui.instance, incarnation: INCARNATION, epoch: Epoch(0) };
        self.certified(by, digest, ui)
    }

    fn mac(
        &self,
        (replica, instance): (ReplicaId, Instance),
        digest: &Digest,
        mac: &TrustedMac,
    ) -> bool {
        let by = Certifier { replica, instance, incarnation: INCARNATION, epoch: Epoch(0) };
        self.is_mac(by, digest, mac)
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        let mut receivers = (0..self.replicas.len() as u16).map(ReplicaId);
        receivers.any(|to| self.convinces_of((author, to), digest, macs))
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        let mut ids = (0..self.replicas.len() as u16).map(ReplicaId);
        ids.any(|id| self.convinces(id, envelope))
    }
}

/// What one replica can check in an epoch.
#[derive(Clone)]
pub struct Keys {
    /// All keys.
    pub crypto: Arc<Crypto>,
    /// Whose eyes these are.
    pub me: ReplicaId,
    /// Whose devices count.
    pub membership: Arc<Membership>,
}

impl Verifier for Keys {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        self.crypto.signature(replica, digest, signed)
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let Some(member) = self.membership.members.get(usize::from(replica.0)) else {
            return false;
        };
        let (incarnation, epoch) = (member.incarnation, self.membership.epoch);
        let by = Certifier { replica, instance: ui.instance, incarnation, epoch };
        self.crypto.certified(by, digest, ui)
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
        let (incarnation, epoch) = (member.incarnation, self.membership.epoch);
        self.crypto.is_mac(Certifier { replica, instance, incarnation, epoch }, digest, mac)
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        self.crypto.convinces_of((author, self.me), digest, macs)
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        match &envelope.auth {
            RequestAuth::Session(tag)
                if self.crypto.means_of(&envelope.client) == Means::Session =>
            {
                self.crypto.is_tagged(envelope, tag)
            }
            _ => self.crypto.convinces(self.me, envelope),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::Bytes;
    use pentarchy_core::request::Request;

    #[test]
    fn nobody_can_speak_for_another() {
        let crypto = Crypto::new(1, 3, 2);
        let (digest, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let signed = crypto.sign(ReplicaId(1), &digest);
        assert!(crypto.signature(ReplicaId(1), &digest, &signed));
        assert!(!crypto.signature(ReplicaId(2), &digest, &signed));
        assert!(!crypto.signature(ReplicaId(1), &other, &signed));
        assert!(!crypto.signature(ReplicaId(9), &digest, &signed));
    }

    #[test]
    fn an_envelope_convinces_only_as_its_client_made_it() {
        let crypto = Crypto::new(1, 3, 2);
        let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
        let draft = Draft { client: client_id(1, 0), floor: 1, events: None, requests };
        let good = crypto.seal(draft.clone());
        assert!(crypto.envelope(&good));
        let mut stolen = draft;
        stolen.client = client_id(1, 1);
        assert!(!crypto.envelope(&stolen.seal(good.auth)));
    }

    #[test]
    fn macs_convince_only_those_for_whom_they_are() {
        let crypto = Arc::new(Crypto::new(1, 3, 1).with(Means::Macs));
        let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
        let draft = Draft { client: client_id(1, 0), floor: 1, events: None, requests };
        let partial = crypto.seal_for(draft.clone(), ReplicaSet::from_iter([ReplicaId(1)]));
        let convinces = |envelope: &Envelope| {
            let membership = Arc::new(crate::world::membership(1, 3, 1));
            [0, 1, 2].map(|me| {
                let (crypto, membership) = (crypto.clone(), membership.clone());
                Keys { crypto, me: ReplicaId(me), membership }.envelope(envelope)
            })
        };
        assert_eq!(convinces(&partial), [false, true, false]);
        assert_eq!(convinces(&crypto.seal(draft.clone())), [true; 3]);
        assert!(crypto.envelope(&partial), "its client made it");
        assert_eq!(convinces(&Crypto::new(1, 3, 1).seal(draft)), [false; 3], "signed");
    }

    #[test]
    fn a_tag_convinces_all_or_nobody() {
        let crypto = Arc::new(Crypto::new(1, 3, 2).with(Means::Session));
        let membership = Arc::new(crate::world::membership(1, 3, 1));
        let convinces = |envelope: &Envelope| {
            [0, 1, 2].map(|me| {
                let (crypto, membership) = (crypto.clone(), membership.clone());
                Keys { crypto, me: ReplicaId(me), membership }.envelope(envelope)
            })
        };
        let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
        let of = |client| Draft { client, floor: 1, events: None, requests: requests.clone() };
        let (client, other) = (client_id(1, 0), client_id(1, 1));
        assert_eq!(convinces(&crypto.seal(of(client))), [true; 3]);
        let digest = of(client).digest();
        let false_tags = [
            crypto.tag(&other, &digest),
            crypto.tag(&client, &of(other).digest()),
            crypto.tag_elsewhere(&client, &digest),
        ];
        for tag in false_tags {
            let envelope = of(client).seal(RequestAuth::Session(tag.unwrap()));
            assert_eq!(convinces(&envelope), [false; 3]);
            assert!(!crypto.envelope(&envelope));
        }
        assert_eq!(convinces(&Crypto::new(1, 3, 2).seal(of(client))), [false; 3], "signed");
        let member = member_id(ReplicaId(1));
        assert_eq!(convinces(&crypto.seal(of(member))), [true; 3], "members sign");
        let tag = crypto.tag(&member, &of(member).digest()).unwrap();
        assert_eq!(convinces(&of(member).seal(RequestAuth::Session(tag))), [false; 3]);
    }

    #[test]
    fn certificates_cover_everything_that_they_say() {
        let crypto = Crypto::new(1, 2, 0);
        let at = |view, index| Position::new(pentarchy_core::ids::View(view), index);
        let digest = Digest::of(b"a");
        let by = Certifier {
            replica: ReplicaId(0),
            instance: Instance::FIRST,
            incarnation: INCARNATION,
            epoch: Epoch(0),
        };
        let all = [
            crypto.certify(by, at(1, 2), at(3, 4), &digest),
            crypto.certify(Certifier { replica: ReplicaId(1), ..by }, at(1, 2), at(3, 4), &digest),
            crypto.certify(
                Certifier { incarnation: Incarnation(2), ..by },
                at(1, 2),
                at(3, 4),
                &digest,
            ),
            crypto.certify(Certifier { instance: Instance(1), ..by }, at(1, 2), at(3, 4), &digest),
            crypto.certify(Certifier { epoch: Epoch(1), ..by }, at(1, 2), at(3, 4), &digest),
            crypto.certify(by, at(2, 2), at(3, 4), &digest),
            crypto.certify(by, at(1, 3), at(3, 4), &digest),
            crypto.certify(by, at(1, 2), at(4, 4), &digest),
            crypto.certify(by, at(1, 2), at(3, 5), &digest),
            crypto.certify(by, at(1, 2), at(3, 4), &Digest::of(b"b")),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
