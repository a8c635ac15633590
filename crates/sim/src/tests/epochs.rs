//! What a replica does at the end of an epoch.

use super::start_correct;
use crate::crypto::{Crypto, INCARNATION, client_id, member_id};
use crate::devices::SimDevices;
use crate::node::{Act, Parts, ReplicaNode};
use crate::observation::Observation;
use crate::packet::Packet;
use crate::service::{Journal, Registers};
use crate::world::membership;
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::epochs::Admission;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Incarnation, Millis, ReplicaId, Slot};
use pentarchy_core::membership::Life;
use pentarchy_core::protocol::{Memory, Setup, Tuning};
use pentarchy_core::request::{Draft, Request};
use pentarchy_machine::Started;
use std::sync::{Arc, Mutex};

const SEED: u64 = 7;

/// The group's power fails when some have saved the state with which the epoch ends and nobody has
/// heard of it. They vouch for it when they are back, and a replica that had not come so far
/// fetches it in the old epoch. Nothing may be executed behind it there.
#[test]
fn an_epoch_also_ends_for_who_is_given_its_last_state() {
    let membership = Arc::new(membership(SEED, 3, 1));
    let crypto = Arc::new(Crypto::new(SEED, 3, 1));
    let life = Life { incarnation: Incarnation(INCARNATION.0 + 1), device_key: [0; 32] };
    let operation =
        Admission { epoch: membership.epoch, configuration: membership.configuration, life }
            .to_operation();
    let requests = vec![Request { number: 1, operation }];
    let client = member_id(ReplicaId(1));
    let asks = crypto.seal(Draft { client, floor: 1, events: None, requests });
    let proposal = Proposal::new(Millis(1_000), vec![Item::Whole(Arc::new(asks))]);
    let batch = proposal.complete(|_| None).expect("nothing is only named");
    let service = || Box::new(Registers::new(Journal::default()));
    let mut ahead = Executor::new(membership.clone(), service());
    ahead.execute(Slot(1), &batch, |_, _| {});
    let handover = ahead.handover().expect("the epoch ends");
    let snapshot = ahead.latest().expect("its state is kept").clone();

    let id = ReplicaId(2);
    let (memory, tuning) = (Memory::Volatile, Tuning::default());
    let setup = Setup { me: id, membership: membership.clone(), fetch: None, memory, tuning };
    let mut effects = Vec::new();
    let core = start_correct(setup, &mut effects);
    let device = Arc::new(Mutex::new(SimDevices::new(id, 1, &crypto)));
    let keys = (crypto, [client_id(SEED, 0)].into(), device);
    let executes = (Executor::new(membership.clone(), service()), Journal::default());
    let core = Started { core, effects };
    let parts = Parts::of_one_epoch(id, &membership, keys, core, executes);
    let mut acts = Vec::new();
    let mut node = ReplicaNode::new(parts, 1_000, &mut acts);
    acts.clear();
    node.on_snapshot(snapshot, &mut acts);
    let ends = |act: &Act| matches!(act, Act::Saw(Observation::Ended(end)) if *end == handover);
    let votes = |act: &Act| matches!(act, Act::Send { packet: Packet::Epochs(_), .. });
    assert!(acts.iter().any(ends), "it goes on in an epoch that is over");
    assert_eq!(acts.iter().filter(|act| votes(act)).count(), 2, "it says so to both others");
}
