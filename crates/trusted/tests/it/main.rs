//! One contract suite for every device, and what surrounds the devices.

mod allocations;
mod broken;
mod contract;
mod devices;
mod identity;
mod known_answers;
mod macs;
mod process;
mod sessions;
mod trinx;
mod trinx_broken;
mod trinx_contract;
mod trinx_stories;

use pentarchy_core::ids::{Epoch, GroupId, Incarnation, ReplicaId};
use pentarchy_core::membership::{Base, Member, Membership};
use pentarchy_trusted::DeviceIdentity;

const SECRET: [u8; 32] = [7; 32];
const EPOCH: (GroupId, Epoch) = (GroupId([5; 16]), Epoch(1));
const REPLICAS: u16 = 3;

/// The identity of a signing device of this replica, in this life.
fn signing(replica: ReplicaId, incarnation: Incarnation) -> DeviceIdentity {
    DeviceIdentity::chosen(incarnation, Some([replica.0 as u8 + 1; 32]))
}

fn device_keys() -> Vec<[u8; 32]> {
    (0..REPLICAS).map(|id| signing(ReplicaId(id), Incarnation(0)).device_key()).collect()
}

/// A group whose devices are in life `100 + replica`.
fn membership(device_keys: &[[u8; 32]]) -> Membership {
    let member = |(index, device_key): (u64, &[u8; 32])| Member {
        key: pentarchy_crypto::keys::KeyPair::from_seed([0x40 + index as u8; 32]).public(),
        incarnation: Incarnation(100 + index),
        device_key: *device_key,
    };
    let members = (0..).zip(device_keys).map(member).collect();
    let (group, epoch) = EPOCH;
    Membership { group, epoch, f: 1, members, base: Base::default(), lane: Default::default() }
}
