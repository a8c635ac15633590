//! Bytes from a peer at the ingress of each protocol: with the true keys, and with a verifier that
//! finds everything genuine, behind which the checks of shape, bounds and roles stand alone.

use super::group;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Unchecked, Verifier};
use pentarchy_core::authored;
use pentarchy_core::erased::ReplicaCore;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::{Memory, Setup};
use pentarchy_protocols::{Descriptor, PROTOCOLS};
use pentarchy_sim::packet::Packet;
use pentarchy_sim::world::membership;
use std::sync::Arc;

thread_local! {
    static CORES: Vec<Box<dyn ReplicaCore>> = cores();
}

/// One replica of each protocol.
fn cores() -> Vec<Box<dyn ReplicaCore>> {
    let start = |entry: &&Descriptor| {
        let n = entry.rules.replicas(1);
        let mut membership = membership(group::SEED, n, usize::from(n > 1));
        if entry.rules.pillars {
            membership.lane = PillarConfig { pillars: 3, rotates: true, pillar: None };
        }
        let setup = Setup {
            me: ReplicaId(0),
            membership: Arc::new(membership),
            fetch: None,
            memory: Memory::Volatile,
            tuning: group::TUNING,
        };
        (entry.start)(setup, &mut Vec::new())
    };
    PROTOCOLS.iter().map(start).collect()
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let choice = usize::from(input.u8());
    let peer = ReplicaId(u16::from(input.u8() % 4));
    let wire = input.shared();
    let crypto = group::crypto();
    CORES.with(|cores| {
        let core = &cores[choice % cores.len()];
        let protocol = PROTOCOLS[choice % cores.len()];
        let verifiers: [&dyn Verifier; 2] = [&*crypto, &Unchecked];
        for verifier in verifiers {
            // What is opened is also held twice by the table in which it is checked.
            if let Ok(incoming) = bounded(2 * wire.len(), || core.open(verifier, peer, &wire)) {
                assert!(!core.describe(&incoming).is_empty());
                let canonical = canonical(protocol, &wire);
                assert_eq!(canonical, wire, "one encoding of each message");
            }
            // Only clients of speculative protocols take part in them.
            if bounded(2 * wire.len(), || core.open_client(verifier, &wire)).is_ok() {
                let canonical = (protocol.recode)(&wire).expect("it was opened");
                assert_eq!(canonical, wire, "one encoding of each message");
            }
        }
    });
}

fn canonical(protocol: &Descriptor, wire: &Bytes) -> Bytes {
    let (author, tag, mut body) = authored::divide(wire).expect("it was opened");
    let message = (protocol.recode)(&body.rest()).expect("it was opened");
    authored::join(author, &tag, &message)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let packets = group::recorded_packets();
    let wires = packets.iter().filter_map(|packet| match packet {
        Packet::Protocol(_, wire) => Some(wire),
        _ => None,
    });
    let mut seeds: Vec<_> = wires.map(|wire| [&[0, wire[0]][..], wire].concat()).collect();
    seeds.push([&[1, 0][..], &seeds[0][2..]].concat());
    seeds
}
