//! What others made, checked under real keys: envelopes by signature, MAC and session tag,
//! statements by signature and by a device's certificate. Nothing that was changed is genuine, and
//! a batch gets the verdict of its parts.

use crate::input::{Input, put_bytes};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Instance, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, ReplicaId};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use pentarchy_trusted::Check;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

const ENVELOPES_MAX: usize = 4;

/// What the devices that check sessions share.
const SECRET: [u8; 32] = [9; 32];

struct Group {
    by_signature: GroupVerifier,
    by_mac: GroupVerifier,
    by_session: GroupVerifier,
    /// Every envelope that an honest client made.
    genuine: BTreeSet<Vec<u8>>,
}

struct Devices(Check);

impl UsigCheck for Devices {
    fn check(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.0.check(replica, ui, digest)
    }
}

fn key(id: u8) -> KeyPair {
    KeyPair::from_seed([id; 32])
}

fn members() -> Arc<Membership> {
    let member = |id: u8| {
        let device_key = key(id + 10).public();
        (key(id).public(), Life { incarnation: Incarnation(1), device_key })
    };
    let group = Membership::of_keys(GroupId([5; 16]), 1, (1..=3).map(member));
    Arc::new(Membership { epoch: Epoch(1), ..group })
}

fn drafts() -> Vec<Draft> {
    let request = |number| Request { number, operation: Bytes::from_static(b"get a") };
    let of = |client: ClientId, numbers: std::ops::Range<u64>| Draft {
        client,
        floor: 1,
        events: None,
        requests: numbers.map(request).collect(),
    };
    vec![
        of(key(20).client_id(), 1..2),
        of(key(20).client_id(), 2..5),
        of(key(21).client_id(), 1..3),
    ]
}

fn sealed(mode: RequestMode) -> Vec<Envelope> {
    let signer = |client: ClientId| {
        let keys = [key(20), key(21)].into_iter().find(|keys| keys.client_id() == client);
        let keys = keys.expect("a client of this group");
        let domain = members().group_domain();
        match mode {
            RequestMode::Signature => ClientSigner::signature(keys, domain),
            RequestMode::Mac => ClientSigner::macs(keys, &members()).expect("good keys"),
            RequestMode::Session => {
                let devices = pentarchy_trusted::session::public_key(&SECRET);
                ClientSigner::session(keys, &devices, domain).expect("good keys")
            }
        }
    };
    drafts().into_iter().map(|draft| signer(draft.client).seal(draft)).collect()
}

fn group() -> &'static Group {
    static GROUP: OnceLock<Group> = OnceLock::new();
    GROUP.get_or_init(|| {
        let verifier = |mode| {
            let check = Check::signature(&members()).expect("good keys");
            let me = Some((ReplicaId(0), &key(1)));
            GroupVerifier::new(members(), Arc::new(Devices(check)), mode, me).expect("good keys")
        };
        let modes = [RequestMode::Signature, RequestMode::Mac, RequestMode::Session];
        let genuine = modes.into_iter().flat_map(sealed);
        let check = Check::mac(&SECRET, &members());
        let sessions = Arc::new(check.sessions(&members()).expect("devices that share a secret"));
        let by_session =
            GroupVerifier::with_sessions(members(), Arc::new(Devices(check)), sessions);
        Group {
            by_signature: verifier(RequestMode::Signature),
            by_mac: verifier(RequestMode::Mac),
            by_session: by_session.expect("good keys"),
            genuine: genuine.map(|envelope| envelope.to_bytes().to_vec()).collect(),
        }
    })
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    match input.u8() % 5 {
        0 => envelopes(&group().by_signature, false, &mut input),
        1 => envelopes(&group().by_mac, true, &mut input),
        2 => statement(&mut input),
        3 => certificate(&mut input),
        _ => envelopes(&group().by_session, false, &mut input),
    }
}

fn envelopes(verifier: &GroupVerifier, by_mac: bool, input: &mut Input<'_>) {
    let mut envelopes = Vec::new();
    while !input.is_empty() && envelopes.len() < ENVELOPES_MAX {
        let bytes = Bytes::copy_from_slice(input.bytes());
        envelopes.extend(Envelope::from_bytes(&bytes));
    }
    let all: Vec<&Envelope> = envelopes.iter().collect();
    let together = verifier.envelopes(&all);
    let verdicts: Vec<bool> = envelopes.iter().map(|one| verifier.envelope(one)).collect();
    assert_eq!(together, verdicts.iter().all(|good| *good), "a batch and its parts");
    for (envelope, good) in envelopes.iter().zip(verdicts) {
        // A replica checks its own MAC only: the others' may differ in a genuine envelope.
        if good && !by_mac {
            assert!(group().genuine.contains(&envelope.to_bytes()[..]), "forged: {envelope:?}");
        }
    }
}

fn statement(input: &mut Input<'_>) {
    let replica = ReplicaId(u16::from(input.u8() % 3));
    let mut signature = [0; 64];
    let bytes = input.rest();
    let length = bytes.len().min(64);
    signature[..length].copy_from_slice(&bytes[..length]);
    let digest = Digest::of(b"statement");
    let good = group().by_signature.signature(replica, &digest, &signature);
    assert!(!good || signature == key(replica.0 as u8 + 1).sign(&digest), "forged");
}

fn certificate(input: &mut Input<'_>) {
    let replica = ReplicaId(u16::from(input.u8() % 3));
    let Ok(ui) = Ui::from_bytes(&input.shared()) else { return };
    let good = group().by_signature.usig(replica, &Digest::of(b"statement"), &ui);
    assert!(!good, "no device certified anything");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let modes = [(0, RequestMode::Signature), (1, RequestMode::Mac), (4, RequestMode::Session)];
    for (kind, mode) in modes {
        let envelopes = sealed(mode);
        let mut all = vec![kind];
        for envelope in &envelopes {
            put_bytes(&envelope.to_bytes(), &mut all);
            let mut one = vec![kind];
            put_bytes(&envelope.to_bytes(), &mut one);
            seeds.push(one);
        }
        seeds.push(all);
    }
    seeds.push([&[2, 0][..], &key(1).sign(&Digest::of(b"statement"))].concat());
    let position = pentarchy_core::counter::Position::new(pentarchy_core::ids::View(0), 3);
    let certificates = [
        pentarchy_core::counter::Certificate::Signature([7; 64]),
        pentarchy_core::counter::Certificate::Mac([7; 32]),
    ];
    for certificate in certificates {
        let ui = Ui {
            incarnation: Incarnation(1),
            instance: Instance::FIRST,
            position,
            committed: position,
            certificate,
        };
        seeds.push([&[3, 1][..], &ui.to_bytes()].concat());
    }
    seeds
}
