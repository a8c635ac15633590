//! Bytes from a peer at the door of each protocol: with the true keys, and with a verifier that
//! finds everything genuine, behind which the checks of shape, bounds and roles stand alone.

use super::group;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{AuthTag, Unchecked, Verifier};
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::erased::ReplicaCore;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Lane;
use pentarchy_core::protocol::{Memory, Setup};
use pentarchy_core::wire::{Reader, Wire, Writer};
use pentarchy_protocols::{PROTOCOLS, hybster, minbft, pbft, pillars, zyzzyva};
use pentarchy_sim::node::Packet;
use pentarchy_sim::world::membership;
use std::sync::Arc;

type HybridMessage = pbft::Message<TrustedMac>;

thread_local! {
    static CORES: Vec<Box<dyn ReplicaCore>> = cores();
}

/// One replica of each protocol.
fn cores() -> Vec<Box<dyn ReplicaCore>> {
    let start = |entry: &pentarchy_protocols::Entry| {
        let n = entry.rules.replicas(1);
        let mut membership = membership(group::SEED, n, usize::from(n > 1));
        if entry.rules.pillars {
            membership.lane = Lane { pillars: 3, rotates: true, pillar: None };
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
        let verifiers: [&dyn Verifier; 2] = [&*crypto, &Unchecked];
        for verifier in verifiers {
            // What is opened is also held twice by the table in which it is checked.
            if let Ok(incoming) = bounded(2 * wire.len(), || core.open(verifier, peer, &wire)) {
                assert!(!core.describe(&incoming).is_empty());
                let canonical = match core.rules().name {
                    "minbft" => canonical::<minbft::Message>(&wire),
                    name if name.starts_with("minzyzzyva") => canonical::<minbft::Message>(&wire),
                    "pbft" | "pbft-tentative" => canonical::<pbft::Message>(&wire),
                    "hybrid-pbft" => canonical::<HybridMessage>(&wire),
                    "hybrid-pbft-pillars" => canonical::<pillars::Message<HybridMessage>>(&wire),
                    "hybster-pillars" => canonical::<pillars::Message<hybster::Message>>(&wire),
                    "pbft-pillars" => canonical::<pillars::Message<pbft::Message>>(&wire),
                    "hybster" => canonical::<hybster::Message>(&wire),
                    name if name.starts_with("zyzzyva") => canonical::<zyzzyva::Message>(&wire),
                    other => panic!("{other} has messages; add them here"),
                };
                assert_eq!(canonical, wire, "one encoding of each message");
            }
            // Only clients of speculative protocols take part in them.
            if bounded(2 * wire.len(), || core.open_client(verifier, &wire)).is_ok() {
                let canonical = match core.rules().name {
                    name if name.starts_with("minzyzzyva") => again::<minbft::Message>(&wire),
                    _ => again::<zyzzyva::Message>(&wire),
                };
                assert_eq!(canonical, wire, "one encoding of each message");
            }
        }
    });
}

fn again<M: Wire>(wire: &Bytes) -> Bytes {
    M::from_bytes(wire).expect("it was opened").to_bytes()
}

fn canonical<M: Wire>(wire: &Bytes) -> Bytes {
    let mut from = Reader::new(wire);
    let author = ReplicaId::decode(&mut from).expect("it was opened");
    let tag = AuthTag::decode(&mut from).expect("it was opened");
    let message = M::decode(&mut from).expect("it was opened");
    let mut to = Writer::default();
    author.encode(&mut to);
    tag.encode(&mut to);
    message.encode(&mut to);
    to.into_bytes()
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
