//! What this crate promises, from outside.

mod envelopes;
mod files;
mod keys;
mod replicas;
mod signing_keys;

use pentarchy_core::counter::{Certificate, Instance, Position, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, ReplicaId, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::request::{Draft, Request};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::verifier::{Maker, UsigCheck};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The key of replica `id` in these tests.
fn replica_key(id: u16) -> KeyPair {
    KeyPair::from_seed([id as u8 + 1; 32])
}

/// Three replicas. The devices of replicas 0 and 1 certify by MAC, that of replica 2 by signature.
fn membership() -> Arc<Membership> {
    let member = |id: u16| {
        let device_key = if id == 2 { [2; 32] } else { [0; 32] };
        let incarnation = Incarnation(100 + u64::from(id));
        (replica_key(id).public(), Life { incarnation, device_key })
    };
    let group = Membership::of_keys(GroupId([5; 16]), 1, (0..3).map(member));
    Arc::new(Membership { epoch: Epoch(1), ..group })
}

fn draft(client: ClientId, number: u64) -> Draft {
    let operation = number.to_be_bytes().to_vec().into();
    Draft { client, floor: 1, events: None, requests: vec![Request { number, operation }] }
}

/// A device that gives each replica's certificates the bytes `[replica; _]`, and counts questions.
#[derive(Default)]
struct FakeDevices {
    asked: AtomicUsize,
    /// Whether they are in another process.
    apart: bool,
}

impl FakeDevices {
    fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

impl UsigCheck for FakeDevices {
    fn check(&self, replica: ReplicaId, ui: &Ui, _: &Digest) -> bool {
        self.asked.fetch_add(1, Relaxed);
        let expected = replica.0 as u8;
        match ui.certificate {
            Certificate::Mac(bytes) => bytes == [expected; 32],
            Certificate::Signature(bytes) => bytes == [expected; 64],
        }
    }

    fn check_mac(&self, by: Maker, mac: &TrustedMac, _: &Digest) -> bool {
        self.asked.fetch_add(1, Relaxed);
        mac.0 == [by.replica.0 as u8; 32]
    }

    fn is_apart(&self) -> bool {
        self.apart
    }
}

fn ui(replica: u16, certificate: Certificate) -> Ui {
    Ui {
        incarnation: Incarnation(100 + u64::from(replica)),
        instance: Instance::FIRST,
        position: Position::new(View(0), 3),
        committed: Position::new(View(0), 2),
        certificate,
    }
}
