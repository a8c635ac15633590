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

use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_trusted::DeviceIdentity;

const SECRET: [u8; 32] = [7; 32];
const EPOCH: EpochId =
    EpochId { group: GroupId([5; 16]), configuration: Digest([6; 32]), epoch: Epoch(1) };
const REPLICAS: u16 = 3;

/// Another epoch of the same group under the same configuration.
fn in_epoch(epoch: Epoch) -> EpochId {
    EpochId { epoch, ..EPOCH }
}

/// Members have the numbers of their places.
fn member(ReplicaId(place): ReplicaId) -> MemberId {
    MemberId(place.into())
}

/// A group whose devices share a secret.
fn by_mac() -> Membership {
    membership(&[[0; 32]; REPLICAS as usize])
}

/// The identity of a signing device of this replica, in this life.
fn signing(replica: ReplicaId, incarnation: Incarnation) -> DeviceIdentity {
    DeviceIdentity::chosen(incarnation, Some([replica.0 as u8 + 1; 32]))
}

fn device_keys() -> Vec<[u8; 32]> {
    (0..REPLICAS).map(|id| signing(ReplicaId(id), Incarnation(0)).device_key()).collect()
}

/// A group whose devices are in life `100 + replica`.
fn membership(device_keys: &[[u8; 32]]) -> Membership {
    let member = |(index, device_key): (u64, &[u8; 32])| {
        let keys = pentarchy_crypto::keys::KeyPair::from_seed([0x40 + index as u8; 32]);
        let incarnation = Incarnation(100 + index);
        (keys.public(), Life { incarnation, device_key: *device_key })
    };
    let members = (0..).zip(device_keys).map(member);
    let EpochId { group, configuration, epoch } = EPOCH;
    Membership { configuration, epoch, ..Membership::of_keys(group, 1, members) }
}
