//! Sections of a snapshot, as a quorum that runs other code might vouch for them: they are refused,
//! or they are what the restored part says of itself.

use super::kv_commands;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::limits::CLIENT_WINDOW;
use pentarchy_core::membership::Membership;
use pentarchy_core::service::Service;
use pentarchy_core::sessions::{SESSION_SECTIONS, Sessions};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Leaf, Tree};
use pentarchy_services::kv::{Kv, SECTIONS};
use pentarchy_services::null::Null;
use pentarchy_sim::world::membership;
use std::sync::Arc;

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let kind = input.u8();
    let index = u32::from(input.u16());
    match kind % 3 {
        0 => sessions(index % SESSION_SECTIONS, input.rest()),
        1 => {
            let (low, high) = (u32::from(input.u16()), u32::from(input.u16()));
            store((high << 16 | low) % SECTIONS, input.rest());
        }
        _ => executor(index % SESSION_SECTIONS, &mut input),
    }
}

fn sessions(index: u32, bytes: &[u8]) {
    let mut table = Sessions::default();
    if bounded(bytes.len(), || table.restore_section(index, bytes)).is_err() {
        return;
    }
    assert_eq!(table.section(index), bytes, "one encoding of a table");
    let Some(client) = bytes.first_chunk().copied().map(ClientId) else { return };
    for (number, floor) in [(0, 0), (CLIENT_WINDOW, 1), (u64::MAX, u64::MAX - 1)] {
        table.begin(client, floor, Some(floor), Slot(9));
        table.desk(&client).settle(number, || vec![1; 9]);
    }
    let again = table.section(index);
    let mut copy = Sessions::default();
    assert_eq!(copy.restore_section(index, &again), Ok(()));
    assert_eq!(copy.section(index), again);
}

fn store(index: u32, bytes: &[u8]) {
    let mut kv = Kv::default();
    let before = kv.state_bytes();
    if bounded(bytes.len(), || kv.restore_section(index, bytes)).is_err() {
        return;
    }
    assert_eq!(kv.section(index), bytes, "one encoding of a section");
    assert!(kv.state_bytes() >= before);
    let empty = Kv::default().section(index);
    assert_eq!(kv.restore_section(index, &empty), Ok(()));
    assert_eq!((kv.len(), kv.state_bytes()), (0, 0), "an empty section takes all away");
}

fn members() -> Arc<Membership> {
    Arc::new(membership(1, 3, 1))
}

/// A whole state of three sections that the input fills: header, one of the clients, the service.
fn executor(index: u32, input: &mut Input<'_>) {
    let (header, clients, service) = (input.bytes(), input.bytes(), input.rest());
    let mut sections = vec![Vec::new(); 1 + SESSION_SECTIONS as usize + 1];
    sections[0] = header.to_vec();
    sections[1 + index as usize] = clients.to_vec();
    sections[1 + SESSION_SECTIONS as usize] = service.to_vec();
    let slot = header.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let snapshot = Snapshot::new(Slot(slot), Tree::of(Slot(slot), sections));
    let digest = snapshot.digest;
    let mut executor = Executor::new(members(), Box::new(Null::default()));
    if executor.install(snapshot).is_ok() {
        assert_eq!(executor.executed(), Slot(slot));
        assert_eq!(executor.latest().map(|kept| kept.digest), Some(digest));
        assert_eq!(executor.checkpoint(), digest, "what is installed is what is said of it");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut table = Sessions::default();
    for id in [4, 5, 6, 7] {
        let client = ClientId([id; 32]);
        table.begin(client, u64::from(id), (id > 5).then_some(1), Slot(3));
        table.emit(&client, vec![id; 4].into());
        table.desk(&client).settle(8, || vec![id; 5]);
        table.desk(&client).settle(10, || vec![0; 3 << 20]);
    }
    let clients = table.section(1);
    seeds.push([&[0, 1, 0][..], &clients].concat());
    let mut kv = Kv::default();
    let (filling, _) = kv_commands::SCRIPT.split_once("OBJECT").expect("before it is emptied");
    kv_commands::execute(&mut kv, filling.as_bytes());
    for index in kv.filled_sections().take(12) {
        let (low, high) = (index as u16, (index >> 16) as u16);
        let place = [low.to_le_bytes(), high.to_le_bytes()].concat();
        seeds.push([&[1, 0, 0][..], &place, &kv.section(index)].concat());
    }
    let mut whole = vec![2, 1, 0];
    let mut executor = Executor::new(members(), Box::new(Null::default()));
    executor.checkpoint();
    let header = executor.latest().and_then(|kept| kept.tree.section(0)).and_then(Leaf::joined);
    let header = header.unwrap_or_default();
    crate::input::put_bytes(&header, &mut whole);
    crate::input::put_bytes(&clients, &mut whole);
    whole.extend_from_slice(&[0; 8]);
    seeds.push(whole);
    seeds
}
