//! What replicas say to each other: signatures and counter certificates.

use crate::{FakeDevices, membership, replica_key, ui};
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::authenticator::Authenticator as _;
use pentarchy_core::counter::{Certificate, Instance, Position, Refused, TrustedMac, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, ReplicaId, View};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::costs::costs;
use pentarchy_crypto::request_auth::BadMemberKey;
use pentarchy_crypto::verifier::{BadVerifier, GroupVerifier, RequestMode};
use std::sync::Arc;

const DIGEST: Digest = Digest([9; 32]);

fn verifier() -> (GroupVerifier, Arc<FakeDevices>) {
    verifier_with(FakeDevices::default())
}

fn verifier_with(devices: FakeDevices) -> (GroupVerifier, Arc<FakeDevices>) {
    let devices = Arc::new(devices);
    let verifier =
        GroupVerifier::new(membership(), devices.clone(), RequestMode::Signature, None).unwrap();
    (verifier, devices)
}

/// Certifies whatever it is asked to, until it breaks.
struct Scripted(Result<(), Refused>);

impl Usig for Scripted {
    fn incarnation(&self) -> Incarnation {
        Incarnation(100)
    }
    fn begin_epoch(&mut self, _: &Membership) -> Result<(), Refused> {
        self.0
    }
    fn create(&mut self, position: Position, _: &Digest) -> Result<Ui, Refused> {
        self.0.map(|()| Ui { position, ..ui(0, Certificate::Mac([0; 32])) })
    }
    fn verify(&self, _: ReplicaId, _: &Ui, _: &Digest) -> bool {
        false
    }
}

#[test]
fn the_authenticator_makes_what_is_asked() {
    let before = costs();
    let mut authenticator = Authenticator::new(replica_key(0), vec![Box::new(Scripted(Ok(())))]);
    let mut tag = |auth| authenticator.tag(&auth, &DIGEST);
    assert_eq!(tag(Auth::Channel), Ok(AuthTag::Channel));
    assert_eq!(tag(Auth::Signature), Ok(AuthTag::Signature(replica_key(0).sign(&DIGEST))));
    let position = Position::new(View(4), 7);
    assert_eq!(tag(Auth::usig(position)).unwrap().ui().unwrap().position, position);
    let spent = costs().since(&before);
    assert!(spent.signatures_made >= 2 && spent.usigs_created >= 1, "{spent:?}");

    for refusal in [Refused::Spent, Refused::Unavailable] {
        let mut broken = Authenticator::new(replica_key(0), vec![Box::new(Scripted(Err(refusal)))]);
        assert_eq!(broken.tag(&Auth::usig(position), &DIGEST), Err(refusal));
    }
}

fn made(author: u16) -> MacVector {
    let authenticator = Authenticator::new(replica_key(author), Vec::new());
    let tag = authenticator.among(membership()).tag(&Auth::Vector, &DIGEST);
    tag.unwrap().vector().unwrap().clone()
}

#[test]
fn a_vector_of_macs_convinces_each_member_of_its_own_entry() {
    let eyes_of = |me| verifier().0.of_member(ReplicaId(me), replica_key(me));
    let n = membership().n() as u16;
    for author in 0..n {
        let macs = made(author);
        for me in 0..n {
            let eyes = eyes_of(me);
            let convinces = |by, digest, macs: &[_]| {
                eyes.vector(ReplicaId(by), digest, &MacVector::new(macs.iter().copied()))
            };
            let entries = macs.entries();
            assert!(convinces(author, &DIGEST, entries), "{author} to {me}");
            assert!(!convinces(author, &Digest([8; 32]), entries), "another statement");
            for other in (0..n).filter(|other| *other != author) {
                assert!(!convinces(other, &DIGEST, entries), "{other} in the name of {author}");
            }
            for (at, _) in entries.iter().enumerate() {
                let mut changed = entries.to_vec();
                changed[at][0] ^= 1;
                let is_mine = at == usize::from(me);
                assert_eq!(convinces(author, &DIGEST, &changed), !is_mine, "each checks its own");
            }
            assert!(!convinces(author, &DIGEST, &entries[1..]), "one for each member");
            assert!(!convinces(author, &DIGEST, &[entries, &[[0; 16]]].concat()), "and no more");
        }
        assert!(!eyes_of(0).vector(ReplicaId(n), &DIGEST, &macs), "no member");
        assert!(!verifier().0.vector(ReplicaId(author), &DIGEST, &macs), "eyes without a key");
    }
}

#[test]
fn who_shares_no_keys_with_members_makes_no_macs() {
    let mut authenticator = Authenticator::new(replica_key(0), Vec::new());
    assert_eq!(authenticator.tag(&Auth::Vector, &DIGEST), Err(Refused::Unavailable));
}

#[test]
fn a_signature_convinces_for_its_replica_and_digest_only() {
    let (verifier, _) = verifier();
    let good = replica_key(1).sign(&DIGEST);
    for _ in 0..2 {
        assert!(verifier.signature(ReplicaId(1), &DIGEST, &good));
        assert!(!verifier.signature(ReplicaId(0), &DIGEST, &good));
        assert!(!verifier.signature(ReplicaId(3), &DIGEST, &good));
        assert!(!verifier.signature(ReplicaId(u16::MAX), &DIGEST, &good));
        assert!(!verifier.signature(ReplicaId(1), &Digest([8; 32]), &good));
        for bit in 0..512 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!verifier.signature(ReplicaId(1), &DIGEST, &bad));
        }
    }
}

#[test]
fn a_certificate_must_be_of_the_kind_and_life_that_the_membership_admits() {
    let (verifier, devices) = verifier();
    let mac = |id: u16| ui(id, Certificate::Mac([id as u8; 32]));
    let signature = |id: u16| ui(id, Certificate::Signature([id as u8; 64]));
    assert!(verifier.usig(ReplicaId(0), &DIGEST, &mac(0)));
    assert!(verifier.usig(ReplicaId(1), &DIGEST, &mac(1)));
    assert!(verifier.usig(ReplicaId(2), &DIGEST, &signature(2)));
    let asked = devices.asked();
    assert!(!verifier.usig(ReplicaId(0), &DIGEST, &signature(0)), "signature by a MAC device");
    assert!(!verifier.usig(ReplicaId(2), &DIGEST, &mac(2)), "MAC by a signing device");
    assert!(!verifier.usig(ReplicaId(3), &DIGEST, &mac(3)), "no such replica");
    let other_life = Ui { incarnation: Incarnation(99), ..mac(0) };
    assert!(!verifier.usig(ReplicaId(0), &DIGEST, &other_life));
    let other_life = Ui { incarnation: Incarnation(99), ..signature(2) };
    assert!(!verifier.usig(ReplicaId(2), &DIGEST, &other_life));
    assert_eq!(devices.asked(), asked, "these are refused without asking a device");
}

#[test]
fn signed_certificates_are_checked_once_and_false_ones_every_time() {
    let (verifier, devices) = verifier();
    let good = ui(2, Certificate::Signature([2; 64]));
    for _ in 0..5 {
        assert!(verifier.usig(ReplicaId(2), &DIGEST, &good));
    }
    assert_eq!(devices.asked(), 1);

    // Whatever differs in any part is another claim, and is asked about.
    let others = [
        (Digest([8; 32]), good),
        (DIGEST, Ui { position: Position::new(View(0), 4), ..good }),
        (DIGEST, Ui { position: Position::new(View(1), 3), ..good }),
        (DIGEST, Ui { committed: Position::new(View(0), 1), ..good }),
        (DIGEST, Ui { committed: Position::new(View(1), 2), ..good }),
    ];
    for (index, (digest, ui)) in others.iter().enumerate() {
        verifier.usig(ReplicaId(2), digest, ui);
        assert_eq!(devices.asked(), 2 + index, "{ui:?}");
    }

    let bad = ui(2, Certificate::Signature([3; 64]));
    let before = devices.asked();
    for _ in 0..5 {
        assert!(!verifier.usig(ReplicaId(2), &DIGEST, &bad));
    }
    assert_eq!(devices.asked(), before + 5);
}

#[test]
fn what_another_process_found_genuine_it_is_not_asked_again() {
    let (good, false_one) = (TrustedMac([0; 32]), TrustedMac([7; 32]));
    let certified = ui(0, Certificate::Mac([0; 32]));
    for apart in [false, true] {
        let (verifier, devices) = verifier_with(FakeDevices { apart, ..FakeDevices::default() });
        let check = |by: u16, digest, mac| {
            verifier.mac((ReplicaId(by), Instance::FIRST), &digest, mac);
            verifier.mac((ReplicaId(by), Instance::FIRST), &digest, mac)
        };
        let again = if apart { 1 } else { 2 };
        assert!(check(0, DIGEST, &good));
        assert_eq!(devices.asked(), again);
        // Whatever differs in any part is another claim.
        assert!(check(0, Digest([8; 32]), &good));
        assert_eq!(devices.asked(), 2 * again);
        assert!(!check(1, DIGEST, &good), "of another replica");
        assert_eq!(devices.asked(), 2 * again + 2);
        assert!(verifier.mac((ReplicaId(0), Instance(1)), &DIGEST, &good), "of another instance");
        assert_eq!(devices.asked(), 2 * again + 3);
        assert!(!check(0, DIGEST, &false_one));
        assert_eq!(devices.asked(), 2 * again + 5, "what is false is not remembered");
        let usig = |_| assert!(verifier.usig(ReplicaId(0), &DIGEST, &certified));
        (0..2).for_each(usig);
        assert_eq!(devices.asked(), 3 * again + 5, "a certificate likewise");
    }
}

#[test]
fn a_membership_with_an_unusable_key_has_no_verifier() {
    let mut broken: Membership = (*membership()).clone();
    // The neutral element: a point, but anyone can sign for it.
    let key = &mut Arc::make_mut(&mut broken.members)[1].signing;
    *key = [0; 32];
    key[0] = 1;
    let devices = Arc::new(FakeDevices::default());
    let error =
        GroupVerifier::new(Arc::new(broken), devices, RequestMode::Signature, None).unwrap_err();
    assert_eq!(error, BadVerifier::MemberKey(BadMemberKey { replica: ReplicaId(1) }));
    assert!(error.to_string().contains("r1"));
}
