//! Each way to authenticate an envelope, in both directions.

use crate::{FakeDevices, draft, membership, replica_key};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::{Petition, Ready};
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::{Life, Membership, PillarConfig};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::{BadSessionKey, ClientSigner, request_statement};
use pentarchy_crypto::session::{SessionKey, public_half};
use pentarchy_crypto::verifier::{
    BadVerifier, GroupVerifier, RequestMode, SessionCheck, TaggedRequest,
};
use sha2::{Digest as _, Sha512};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn client(number: u8) -> KeyPair {
    KeyPair::from_seed([0x80 + number; 32])
}

fn verifier(mode: RequestMode, me: u16) -> GroupVerifier {
    verifier_of(membership(), mode, me)
}

fn verifier_of(membership: Arc<Membership>, mode: RequestMode, me: u16) -> GroupVerifier {
    let keys = replica_key(me);
    let devices = Arc::new(FakeDevices::default());
    GroupVerifier::new(membership, devices, mode, Some((ReplicaId(me), &keys))).unwrap()
}

fn signed(number: u8) -> Envelope {
    let signer = ClientSigner::signature(client(number), membership().group_domain());
    signer.seal(draft(signer.client_id(), 1))
}

fn maced(number: u8) -> Envelope {
    let signer = ClientSigner::macs(client(number), &membership()).unwrap();
    signer.seal(draft(signer.client_id(), 1))
}

/// The secret of the devices' key pair in these tests.
const DEVICES: [u8; 32] = [0x77; 32];

/// A device's session check without a memory. Counts questions.
#[derive(Default)]
struct FakeSessions {
    asked: AtomicUsize,
}

impl SessionCheck for FakeSessions {
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool {
        self.asked.fetch_add(1, Relaxed);
        requests.iter().all(|request| {
            let pair = (&DEVICES, &public_half(&DEVICES));
            SessionKey::of_device(pair, &membership().group_domain(), request.client)
                .is_some_and(|key| key.is_tag(&request.statement, request.tag))
        })
    }
}

fn session_verifier(sessions: &Arc<FakeSessions>) -> GroupVerifier {
    let devices = Arc::new(FakeDevices::default());
    GroupVerifier::with_sessions(membership(), devices, sessions.clone()).unwrap()
}

fn session_signer(keys: KeyPair) -> ClientSigner {
    ClientSigner::session(keys, &public_half(&DEVICES), membership().group_domain()).unwrap()
}

fn tagged(number: u8) -> Envelope {
    let signer = session_signer(client(number));
    signer.seal(draft(signer.client_id(), 1))
}

/// Every envelope that differs from this one in one bit and still decodes.
fn flipped(envelope: &Envelope) -> Vec<Envelope> {
    let bytes = envelope.to_bytes();
    let flip = |bit: usize| {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        Envelope::from_bytes(&changed.into()).ok()
    };
    (0..8 * bytes.len()).filter_map(flip).collect()
}

#[test]
fn a_signed_envelope_convinces_and_no_changed_one_does() {
    let verifier = verifier(RequestMode::Signature, 0);
    let envelope = signed(1);
    let changed = flipped(&envelope);
    assert!(changed.len() > 8 * 100);
    assert!(changed.iter().all(|envelope| !verifier.envelope(envelope)));
    assert!(verifier.envelope(&envelope));
    assert!(verifier.envelope(&Envelope::from_bytes(&envelope.to_bytes()).unwrap()));
    // Now that the genuine one is remembered, the false ones must still be refused.
    assert!(changed.iter().all(|envelope| !verifier.envelope(envelope)));
}

#[test]
fn macs_convince_each_replica_of_its_own_entry() {
    let envelope = maced(1);
    let RequestAuth::Macs(macs) = envelope.auth.clone() else { panic!("no macs") };
    assert_eq!(macs.len(), 3 * RequestAuth::MAC_BYTES);
    for me in 0..3 {
        let verifier = verifier(RequestMode::Mac, me);
        assert!(verifier.envelope(&envelope) && verifier.envelope(&envelope));
        let own =
            usize::from(me) * RequestAuth::MAC_BYTES..usize::from(me + 1) * RequestAuth::MAC_BYTES;
        for bit in 0..8 * macs.len() {
            let mut changed = macs.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = draft(envelope.client, 1).seal(RequestAuth::Macs(changed.into()));
            assert_eq!(verifier.envelope(&changed), !own.contains(&(bit / 8)));
        }
        for length in [0, 16, 32, 47, 49, 64] {
            let mut changed = macs.to_vec();
            changed.resize(length, 0);
            let changed = draft(envelope.client, 1).seal(RequestAuth::Macs(changed.into()));
            assert!(!verifier.envelope(&changed), "{length} bytes of MACs");
        }
        let other_operation = draft(envelope.client, 2).seal(envelope.auth.clone());
        assert!(!verifier.envelope(&other_operation));
        let other_client = draft(client(2).client_id(), 1).seal(envelope.auth.clone());
        assert!(!verifier.envelope(&other_client));
    }
}

#[test]
fn a_tagged_envelope_convinces_and_no_changed_one_does() {
    let verifier = session_verifier(&Arc::default());
    let envelope = tagged(1);
    let changed = flipped(&envelope);
    assert!(changed.len() > 8 * 60);
    assert!(verifier.envelope(&envelope));
    assert!(changed.iter().all(|envelope| !verifier.envelope(envelope)));
    assert!(verifier.envelope(&Envelope::from_bytes(&envelope.to_bytes()).unwrap()));
    let other_client = draft(client(2).client_id(), 1).seal(envelope.auth.clone());
    assert!(!verifier.envelope(&other_client));
}

#[test]
fn the_device_is_asked_once_for_many_envelopes() {
    let sessions = Arc::new(FakeSessions::default());
    let verifier = session_verifier(&sessions);
    let member = ClientSigner::signature(replica_key(1), membership().group_domain());
    let mut all: Vec<Envelope> = (1..6).map(tagged).collect();
    all.insert(2, member.seal(draft(member.client_id(), 1)));
    let check = |all: &[Envelope]| verifier.envelopes(&all.iter().collect::<Vec<_>>());
    assert!(check(&all));
    assert_eq!(sessions.asked.load(Relaxed), 1);
    for index in 0..all.len() {
        let good = all[index].clone();
        all[index] = draft(good.client, 2).seal(good.auth.clone());
        assert!(!check(&all), "number {index}");
        all[index] = good;
    }
    assert!(check(&all));
}

#[test]
fn there_is_no_signer_for_devices_whose_key_anybody_could_find() {
    let signer =
        |devices: [u8; 32]| ClientSigner::session(client(1), &devices, membership().group_domain());
    assert!(signer(public_half(&DEVICES)).is_ok());
    for point in EIGHT_TORSION {
        let error = signer(point.to_montgomery().to_bytes()).unwrap_err();
        assert_eq!(error, BadSessionKey);
    }
}

#[test]
fn each_mode_refuses_the_others() {
    for envelope in [signed(1), maced(1)] {
        assert!(!session_verifier(&Arc::default()).envelope(&envelope));
    }
    for mode in [RequestMode::Signature, RequestMode::Mac] {
        assert!(!verifier(mode, 0).envelope(&tagged(1)));
    }
    let devices = Arc::new(FakeDevices::default());
    let me = replica_key(0);
    let error =
        GroupVerifier::new(membership(), devices, RequestMode::Session, Some((ReplicaId(0), &me)));
    assert_eq!(error.unwrap_err(), BadVerifier::SessionNeedsDevice);
    assert!(!verifier(RequestMode::Signature, 0).envelope(&maced(1)));
    assert!(!verifier(RequestMode::Mac, 0).envelope(&signed(1)));
    let devices = Arc::new(FakeDevices::default());
    let error = GroupVerifier::new(membership(), devices, RequestMode::Mac, None).unwrap_err();
    assert_eq!(error, BadVerifier::MacNeedsKeys);
}

#[test]
fn members_sign_what_they_ask_of_the_group_whatever_clients_do() {
    let domain = membership().group_domain();
    let signed = ClientSigner::signature(replica_key(1), domain);
    let maced = ClientSigner::macs(replica_key(1), &membership()).unwrap();
    let draft = || draft(ClientId(replica_key(1).public()), 1);
    for mode in [RequestMode::Signature, RequestMode::Mac] {
        assert!(verifier(mode, 0).envelope(&signed.seal(draft())));
        assert!(!verifier(mode, 0).envelope(&maced.seal(draft())));
    }
    let verifier = session_verifier(&Arc::default());
    assert!(verifier.envelope(&signed.seal(draft())));
    assert!(!verifier.envelope(&session_signer(replica_key(1)).seal(draft())));
}

#[test]
fn an_envelope_is_good_in_every_epoch_of_its_group_and_in_no_other_group() {
    let next = Arc::new(Membership { epoch: Epoch(2), ..(*membership()).clone() });
    assert!(verifier_of(next.clone(), RequestMode::Signature, 0).envelope(&signed(1)));
    assert!(verifier_of(next, RequestMode::Mac, 0).envelope(&maced(1)));
    // Members that keep their keys take no MACs that others of their configuration refuse.
    let configuration = Digest::of(b"the next one");
    let next = Arc::new(Membership { configuration, ..(*membership()).clone() });
    assert!(verifier_of(next.clone(), RequestMode::Signature, 0).envelope(&signed(1)));
    assert!(!verifier_of(next, RequestMode::Mac, 0).envelope(&maced(1)));
    let other = Arc::new(Membership { group: GroupId([6; 16]), ..(*membership()).clone() });
    assert!(!verifier_of(other.clone(), RequestMode::Signature, 0).envelope(&signed(1)));
    assert!(!verifier_of(other, RequestMode::Mac, 0).envelope(&maced(1)));
}

#[test]
fn a_client_id_that_is_no_key_is_refused() {
    for byte in 0..=255 {
        let client = ClientId([byte; 32]);
        for auth in [RequestAuth::Signature([byte; 64]), RequestAuth::Macs(vec![byte; 48].into())] {
            let envelope = draft(client, 1).seal(auth);
            assert!(!verifier(RequestMode::Mac, 0).envelope(&envelope));
        }
    }
}

#[test]
fn a_batch_is_as_good_as_its_worst_envelope() {
    for size in [0, 1, 2, 3, 4, 5, 33] {
        let good: Vec<Envelope> = (0..size).map(signed).collect();
        let all: Vec<&Envelope> = good.iter().collect();
        assert!(verifier(RequestMode::Signature, 0).envelopes(&all));
        for bad in 0..good.len() {
            let RequestAuth::Signature(mut signature) = good[bad].auth else { panic!() };
            signature[bad % 64] ^= 1;
            let forged = draft(good[bad].client, 1).seal(RequestAuth::Signature(signature));
            let mut mixed = all.clone();
            mixed[bad] = &forged;
            let verifier = verifier(RequestMode::Signature, 0);
            assert!(!verifier.envelopes(&mixed));
            // The failed batch left nothing behind.
            assert!(!verifier.envelope(&forged) && verifier.envelope(&good[bad]));
        }
    }
}

/// A client's secret scalar and public point, to make signatures that no honest signer makes.
struct Crafty {
    scalar: Scalar,
    public: [u8; 32],
}

impl Crafty {
    fn new(number: u8) -> Self {
        let keys = client(number);
        let scalar = Scalar::from_bytes_mod_order(clamp_integer(*keys.channel_secret()));
        Self { scalar, public: keys.public() }
    }

    /// A signature whose commitment is shifted by `offset`.
    fn sign(&self, offset: EdwardsPoint) -> Envelope {
        let draft = draft(ClientId(self.public), 1);
        let statement = request_statement(&membership().group_domain(), &draft.digest());
        let nonce = Scalar::from(0x0123_4567_89ab_cdef_u64);
        let commitment = (nonce * ED25519_BASEPOINT_POINT + offset).compress().to_bytes();
        let challenge = Sha512::new()
            .chain_update(commitment)
            .chain_update(self.public)
            .chain_update(statement.0)
            .finalize();
        let challenge = Scalar::from_bytes_mod_order_wide(&challenge.into());
        let response = nonce + challenge * self.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&commitment);
        signature[32..].copy_from_slice(response.as_bytes());
        draft.seal(RequestAuth::Signature(signature))
    }
}

#[test]
fn crafted_signatures_are_judged_alike_alone_and_in_any_batch() {
    let others: Vec<Envelope> = (10..14).map(signed).collect();
    for (index, torsion) in EIGHT_TORSION.into_iter().enumerate() {
        let crafted = Crafty::new(index as u8).sign(torsion);
        let alone = verifier(RequestMode::Signature, 0).envelope(&crafted);
        assert!(alone, "the rule of ZIP 215 ignores points of low order");
        for round in 0..16 {
            let mut batch = vec![&crafted];
            batch.extend(&others[..round % 4 + 1]);
            assert_eq!(verifier(RequestMode::Signature, 0).envelopes(&batch), alone);
        }
    }
}

#[test]
fn errors_that_cancel_out_do_not() {
    let offset = Scalar::from(77_u8) * ED25519_BASEPOINT_POINT;
    let (one, two) = (Crafty::new(1).sign(offset), Crafty::new(2).sign(-offset));
    let verifier = verifier(RequestMode::Signature, 0);
    assert!(!verifier.envelope(&one) && !verifier.envelope(&two));
    assert!(!verifier.envelopes(&[&one, &two]));
    assert!(!verifier.envelopes(&[&one, &two, &one, &two]));
}

#[test]
fn the_same_statement_covers_both_modes() {
    let domain = membership().group_domain();
    let digest = Digest([1; 32]);
    assert_eq!(
        request_statement(&domain, &digest),
        domain.statement("request").digest(&digest).finish()
    );
}

/// Whatever means clients have: a member signs, and its next key signs too.
#[test]
fn a_member_that_is_ready_shows_that_it_has_its_next_key() {
    let (member, next, other) = (replica_key(1), client(1), client(2));
    let signer = ClientSigner::signature(replica_key(1), membership().group_domain());
    let sealed = |key: &KeyPair, named: [u8; 32]| {
        let (epoch, change) = (Epoch(0), Digest::of(b"change"));
        let life = Life::mac(Incarnation(1));
        let possession = Signature([0; 64]);
        let mut ready = Ready { epoch, change, signing: named, life, possession };
        ready.possession = Signature(key.sign(&ready.statement(&member.client_id())));
        let operation = Petition::Ready(ready).to_bytes();
        let requests = vec![Request { number: 1, operation }];
        signer.seal(Draft { client: member.client_id(), floor: 1, events: None, requests })
    };
    let good = sealed(&next, next.public());
    let stolen = sealed(&next, other.public());
    let no_key = sealed(&next, [0xff; 32]);
    let modes = [RequestMode::Signature, RequestMode::Mac].map(|mode| verifier(mode, 0));
    for verifier in modes.into_iter().chain([session_verifier(&Arc::default())]) {
        assert!(verifier.envelope(&good), "{verifier:?}");
        assert!(!verifier.envelope(&stolen) && !verifier.envelope(&no_key), "{verifier:?}");
        assert!(!verifier.envelopes(&[&good, &stolen]), "{verifier:?}");
    }
}

/// What administrators ask changes who is trusted, whatever means clients have.
#[test]
fn an_administrator_signs() {
    let administrator = client(9);
    let administrators = Administrators { threshold: 1, keys: vec![administrator.public()] };
    let entry = |id: u16| MemberEntry {
        id: MemberId(id.into()),
        identity: replica_key(id).public(),
        signing: replica_key(id).public(),
        sealed: None,
        address: String::new(),
    };
    let configuration = Configuration {
        group: membership().group,
        number: 0,
        protocol: "toy".to_owned(),
        facts: Facts {
            fault_model: FaultModel::Hybrid,
            group_size: Count::per_fault_and_one(2),
            quorum: QuorumRule::Majority,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: None,
        },
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Macs,
        secret: None,
        administrators,
        access: Access::Open,
        members: (0..3).map(entry).collect(),
        next_member: MemberId(3),
    };
    let group = Arc::new(configuration.begin(&[Life::default(); 3]));
    let domain = group.group_domain();
    let draft = || draft(administrator.client_id(), 1);
    let signed = ClientSigner::signature(client(9), domain).seal(draft());
    let maced = ClientSigner::macs(client(9), &group).unwrap().seal(draft());
    let tagged = session_signer(client(9)).seal(draft());
    let devices = Arc::new(FakeDevices::default());
    let sessions =
        GroupVerifier::with_sessions(group.clone(), devices, Arc::new(FakeSessions::default()));
    let modes = [RequestMode::Signature, RequestMode::Mac];
    let verifiers = modes.map(|mode| verifier_of(group.clone(), mode, 0));
    for verifier in verifiers.into_iter().chain(sessions) {
        assert!(verifier.envelope(&signed), "{verifier:?}");
        assert!(!verifier.envelope(&maced) && !verifier.envelope(&tagged), "{verifier:?}");
        let listed = verifier.admitting(&Access::only([client(1).client_id()]));
        assert!(listed.envelope(&signed), "as a member's, whoever else is listed");
    }
}
