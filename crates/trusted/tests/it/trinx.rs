//! TrInX in this process: the contract, every short story, and the counter that orders.

use crate::trinx_contract::{LIFE, ME, MINE, ask, contract, digest};
use crate::{EPOCH, REPLICAS, SECRET, member, membership, signing};
use pentarchy_core::counter::{Memory, Position, Refused, Statement, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, MemberId, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::secret_file::to_hex;
use pentarchy_crypto::verifier::UsigCheck;
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::order_counter::{is_trusted_mac, trusted_mac};
use pentarchy_trusted::trinx::{
    COUNTERS, Claim, Instance, InstanceId, Kind, Memory as Kept, Reading, Value, context, statement,
};
use pentarchy_trusted::usig::GroupKey;
use pentarchy_trusted::{DeviceIdentity, OrderCounter, TrinxInProcess};
use std::collections::HashSet;

fn device(member: MemberId, life: Incarnation) -> TrinxInProcess {
    let identity = DeviceIdentity::chosen(life, None);
    TrinxInProcess::initialise(&SECRET, EPOCH, member, &identity, 2).expect("a MAC identity")
}

#[test]
fn in_process_instances_keep_the_contract() {
    let make = |member, life| -> Box<dyn Trinx> { Box::new(device(member, life)) };
    contract(&make).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn an_identity_with_a_key_of_its_own_is_not_for_trinx() {
    let identity = signing(MINE, LIFE);
    assert!(TrinxInProcess::initialise(&SECRET, EPOCH, ME, &identity, 1).is_none());
    let opened = OrderCounter::open(&group(), ME, &identity, Some(&SECRET));
    assert_eq!(opened.err(), Some(BadDevice::WrongKind));
    let mac = DeviceIdentity::chosen(LIFE, None);
    let opened = OrderCounter::open(&group(), ME, &mac, None);
    assert_eq!(opened.err(), Some(BadDevice::SecretMissing));
}

#[test]
fn a_trusted_mac_says_who_and_moves_nothing() {
    let mut device = device(ME, LIFE);
    let (by, context) = (InstanceId { member: ME, number: 1 }, context(&EPOCH));
    for of in 0..20 {
        let said = device.certify(1, &trusted_mac(), &digest(of)).unwrap();
        assert!(is_trusted_mac(&said.claim) && device.verify(&context, by, &said, &digest(of)));
    }
    assert_eq!(device.memory(1), Some(Kept::default()));
    let moved = device.certify(1, &ask(Kind::Continuing, &[(1, 1)]), &digest(0)).unwrap();
    assert!(!is_trusted_mac(&moved.claim));
    let order = device.certify(1, &ask(Kind::Continuing, &[(0, 0)]), &digest(0)).unwrap();
    assert!(!is_trusted_mac(&order.claim));
}

/// The bytes under a certificate must not move. Computed with Python's `hmac`, from the layout in
/// the documentation alone (the domain with Python's `blake3`).
#[test]
fn a_certificate_is_what_it_always_was() {
    let id = InstanceId { member: ME, number: 3 };
    let mut instance = Instance::new(EPOCH, id, Incarnation(5), GroupKey::new(&SECRET));
    let digest = Digest(std::array::from_fn(|index| index as u8));
    let asks = [
        ask(Kind::Independent, &[(0, (2 << 64) + 17)]),
        ask(Kind::Continuing, &[(0, 3 << 64), (1, 0)]),
        trusted_mac(),
    ];
    for (ask, known) in asks.iter().zip(KNOWN) {
        assert_eq!(*to_hex(&instance.certify(ask, &digest).unwrap().seal), known);
    }
}

const KNOWN: [&str; 3] = [
    "ca20fa508ada5856e857baf7cb7b8a0b8d1e25f2cb06728d7f194291ad5a7f70",
    "47c0784660ba8cf68b5480ecd7ac6ede091ea9cf3ab07c271d51f27ea8193bdd",
    "ed2bb2a03b24a64c9191c8779dd961f4eb19bf44ce286bb141b3276a0897dca6",
];

/// All claims of four counters, whose values, as those before, are small or far apart.
fn claims() -> impl Iterator<Item = Claim> {
    let values = [0, 1, 1 << 64].map(Value);
    let readings: Vec<Option<Reading>> = std::iter::once(None)
        .chain(values.into_iter().flat_map(|value| {
            let previous = std::iter::once(None).chain(values.into_iter().map(Some));
            previous.map(move |previous| Some(Reading { value, previous }))
        }))
        .collect();
    let count = readings.len();
    let of = move |number: usize| {
        std::array::from_fn(|at| readings[number / count.pow(at as u32) % count])
    };
    (0..count.pow(COUNTERS as u32)).map(of).flat_map(|readings| {
        [Kind::Continuing, Kind::Independent].map(|kind| Claim {
            incarnation: LIFE,
            kind,
            readings,
        })
    })
}

/// Also of those that no instance would make, as whoever checks is shown them.
#[test]
fn no_two_claims_are_sealed_as_the_same_bytes() {
    let by = InstanceId { member: ME, number: 3 };
    let mut seen = HashSet::new();
    for claim in claims() {
        let statement = statement(&digest(1), by, &claim, &digest(2));
        assert!(statement.as_bytes().starts_with(b"pentarchy trinx1"));
        assert!(seen.insert(statement.as_bytes().to_vec()), "{claim:?}");
    }
    assert_eq!(seen.len(), 2 * 13_usize.pow(4));
    let claim = claims().next().unwrap();
    let others = [
        statement(&digest(3), by, &claim, &digest(2)),
        statement(&digest(1), by, &claim, &digest(3)),
        statement(&digest(1), InstanceId { member: MemberId(0), ..by }, &claim, &digest(2)),
        statement(&digest(1), InstanceId { number: 4, ..by }, &claim, &digest(2)),
        statement(&digest(1), by, &Claim { incarnation: Incarnation(1), ..claim }, &digest(2)),
    ];
    assert!(others.iter().all(|other| seen.insert(other.as_bytes().to_vec())));
}

fn group() -> Membership {
    membership(&[[0; 32]; REPLICAS as usize])
}

fn counter(member: MemberId) -> OrderCounter<TrinxInProcess> {
    let identity = DeviceIdentity::chosen(LIFE, None);
    OrderCounter::open(&group(), member, &identity, Some(&SECRET)).expect("a MAC device")
}

fn position(view: u64, index: u64) -> Position {
    Position::new(View(view), index)
}

#[test]
fn leaving_names_the_value_before_and_nothing_else_does() {
    let mut counter = counter(ME);
    let none = Position::default();
    let story = [
        (position(0, 2), none),
        (position(0, 7), none),
        (position(1, 0), position(0, 7)),
        // Unlike with a USIG, leaving once more hides what was before.
        (position(2, 0), position(1, 0)),
        (position(2, 1), none),
        (position(5, 0), position(2, 1)),
    ];
    assert_eq!(counter.create(none, &digest(0)), Err(Refused::Spent));
    let mut said = Vec::new();
    for (of, (at, committed)) in (0..).zip(story) {
        let ui = counter.create(at, &digest(of)).unwrap();
        assert_eq!((ui.incarnation, ui.position, ui.committed), (LIFE, at, committed));
        assert!(counter.verify(MINE, &ui, &digest(of)) && !counter.verify(MINE, &ui, &digest(99)));
        assert!(!counter.verify(ReplicaId(0), &ui, &digest(of)));
        assert_eq!(counter.create(at, &digest(99)), Err(Refused::Spent));
        assert_eq!(counter.create(at, &digest(of)), Ok(ui));
        for other in [none, position(0, 1), position(0, 7), at, position(9, 9)] {
            let other = Ui { committed: other, ..ui };
            assert_eq!(counter.verify(MINE, &other, &digest(of)), other == ui, "{other:?}");
        }
        said.push(ui);
    }
    // Neither kind passes for the other.
    let as_order = Ui { position: position(1, 7), ..said[2] };
    let as_leaving = Ui { position: position(1, 0), committed: position(0, 7), ..said[1] };
    assert!(!counter.verify(MINE, &as_order, &digest(2)));
    assert!(!counter.verify(MINE, &as_leaving, &digest(1)));
}

/// A host that kept its counter's memory goes on with another one of the same life.
#[test]
fn a_memory_survives_its_way_through_the_host() {
    let mut before = counter(ME);
    for view in 0..6 {
        for index in [0, 1, 4].into_iter().filter(|index| view > 0 || *index > 0) {
            before.create(position(view, index), &digest(view + index)).unwrap();
        }
    }
    let memory = before.memory().unwrap();
    assert_eq!((memory.last, memory.committed), (position(5, 4), position(5, 4)));
    let mut after = counter(ME);
    let wrong = [
        Memory { last: position(6, 0), ..memory.clone() },
        Memory { committed: position(1, 0), ..memory.clone() },
        Memory { recent: Vec::new(), ..memory.clone() },
        Memory { recent: vec![memory.recent[0]; 9], ..memory.clone() },
    ];
    for wrong in wrong {
        assert_eq!(after.restore(&wrong), Err(Refused::Spent), "{wrong:?}");
    }
    after.restore(&memory).unwrap();
    assert_eq!(after.restore(&memory), Err(Refused::Spent));
    assert_eq!(after.memory(), Some(memory.clone()));
    for Statement { position, digest, .. } in memory.recent {
        assert_eq!(after.create(position, &digest), before.create(position, &digest));
    }
    assert_eq!(after.create(position(5, 4), &digest(1)), Err(Refused::Spent));
    let next = after.create(position(7, 0), &digest(1));
    assert_eq!(next.map(|ui| ui.committed), Ok(position(5, 4)));
}

#[test]
fn the_order_counter_follows_epochs() {
    let later = Membership { epoch: Epoch(EPOCH.epoch.0 + 1), ..group() };
    let mut counter = counter(ME);
    let old = counter.create(position(3, 3), &digest(1)).unwrap();
    counter.begin_epoch(&later).unwrap();
    assert!(!counter.verify(MINE, &old, &digest(1)));
    let new = counter.create(position(0, 2), &digest(1)).unwrap();
    assert!(counter.check().check(MINE, &new, &digest(1)));
    assert!(!self::counter(ME).verify(MINE, &new, &digest(1)));
    assert!(self::counter(ME).check().for_epoch(&later).check(MINE, &new, &digest(1)));
    assert_eq!(counter.begin_epoch(&group()), Err(Refused::Spent));
}

/// Three counters of a replica, in this process and in one of their own.
fn three_counters() -> [Vec<Box<dyn Usig>>; 2] {
    let identity = DeviceIdentity::chosen(LIFE, None);
    let here = OrderCounter::open_all(&group(), ME, &identity, Some(&SECRET), 3);
    let process = crate::process::start(Device::Trinx(3), ME, LIFE);
    let apart = OrderCounter::apart_all(&process, &group(), 3);
    [boxed(here.expect("MAC devices")), boxed(apart)]
}

fn boxed<U: Usig + 'static>(counters: Vec<U>) -> Vec<Box<dyn Usig>> {
    counters.into_iter().map(|counter| -> Box<dyn Usig> { Box::new(counter) }).collect()
}

#[test]
fn each_counter_of_a_replica_counts_for_itself_and_what_it_certifies_names_it() {
    three_counters().into_iter().for_each(count_for_themselves);
}

fn count_for_themselves(mut counters: Vec<Box<dyn Usig>>) {
    let at = position(0, 1);
    let made: Vec<_> =
        counters.iter_mut().map(|counter| counter.create(at, &digest(1)).unwrap()).collect();
    for (number, ui) in (0u8..).zip(&made) {
        assert_eq!(ui.instance.0, number);
        assert!(counters.iter().all(|counter| counter.verify(MINE, ui, &digest(1))));
        for other in (0u8..3).filter(|other| *other != number) {
            let posing = Ui { instance: pentarchy_core::counter::Instance(other), ..*ui };
            assert!(!counters[0].verify(MINE, &posing, &digest(1)), "{number} as {other}");
        }
    }
}

/// Threads that have one each come to an epoch one after the other.
#[test]
fn each_counter_of_a_replica_begins_an_epoch_for_itself() {
    for mut counters in three_counters() {
        let later = Membership { epoch: Epoch(EPOCH.epoch.0 + 1), ..group() };
        counters[0].begin_epoch(&later).unwrap();
        let old = counters[1].create(position(5, 99), &digest(1)).unwrap();
        let new = counters[0].create(position(0, 2), &digest(2)).unwrap();
        let [before, then] = [group(), later.clone()].map(|of| counter(ME).check().for_epoch(&of));
        assert!(before.check(MINE, &old, &digest(1)) && !then.check(MINE, &old, &digest(1)));
        assert!(then.check(MINE, &new, &digest(2)) && !before.check(MINE, &new, &digest(2)));
        let stands = |counter: &dyn Usig| counter.memory().map(|memory| memory.last);
        assert_eq!(stands(&*counters[1]), Some(position(5, 99)));
        counters[1].begin_epoch(&later).unwrap();
        assert_eq!(stands(&*counters[1]), Some(Position::default()));
        let new = counters[1].create(position(0, 2), &digest(3)).unwrap();
        assert!(then.check(MINE, &new, &digest(3)) && !before.check(MINE, &new, &digest(3)));
        // It holds nobody up who is there already, and nobody who has still to come.
        assert_eq!(stands(&*counters[0]), Some(position(0, 2)));
        assert!(counters[2].create(position(0, 1), &digest(4)).is_ok());
    }
}

/// A member that stays is believed as the replica that it is in the next configuration.
#[test]
fn a_member_is_believed_in_whatever_place_its_configuration_has_it() {
    for mut counters in three_counters() {
        let (epoch, members) = (Epoch(EPOCH.epoch.0 + 1), group().members[1..].into());
        let next = Membership { epoch, members, ..group() };
        counters[0].begin_epoch(&next).unwrap();
        let said = counters[0].create(position(0, 2), &digest(1)).unwrap();
        let elsewhere = counter(member(ReplicaId(2))).check().for_epoch(&next);
        for (place, is_its) in [(0, true), (1, false), (2, false), (u16::MAX, false)] {
            assert_eq!(counters[0].verify(ReplicaId(place), &said, &digest(1)), is_its);
            assert_eq!(elsewhere.check(ReplicaId(place), &said, &digest(1)), is_its);
        }
    }
}

/// What a USIG certifies is no TrInX certificate under the same key, nor the other way round.
#[test]
fn the_two_kinds_of_devices_do_not_pass_for_each_other() {
    let mut usig = crate::devices::mac_device(MINE, LIFE);
    let mut counter = counter(ME);
    for at in [position(1, 0), position(1, 5)] {
        let theirs = usig.create(at, &digest(1)).unwrap();
        let ours = counter.create(at, &digest(1)).unwrap();
        let zero = Position::default();
        for committed in [theirs.committed, ours.committed, zero] {
            assert!(!counter.verify(MINE, &Ui { committed, ..theirs }, &digest(1)));
            assert!(!usig.verify(MINE, &Ui { committed, ..ours }, &digest(1)));
        }
    }
}
