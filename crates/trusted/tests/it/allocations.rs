//! What certifies and checks asks nothing of the allocator.

use crate::trinx_contract::{LIFE, ME, ask, digest};
use crate::{EPOCH, SECRET, in_epoch};
use allocation_counter::measure;
use pentarchy_core::counter::Position;
use pentarchy_core::ids::{Epoch, View};
use pentarchy_trusted::order_counter::trusted_mac;
use pentarchy_trusted::trinx::{self, Instance, InstanceId, Kind};
use pentarchy_trusted::usig::{Device, GroupKey, Key};
use std::hint::black_box;

#[test]
fn what_certifies_and_checks_allocates_nothing() {
    let (key, id) = (GroupKey::new(&SECRET), InstanceId { member: ME, number: 0 });
    let mut instance = Instance::new(EPOCH, id, LIFE, key.clone());
    let mut usig = Device::new(EPOCH, ME, LIFE, Key::Group(key.clone()));
    let context = trinx::context(&EPOCH);
    let epoch = in_epoch(Epoch(EPOCH.epoch.0 + 1));
    let counted = measure(|| {
        for number in 1..20 {
            let leave = ask(Kind::Continuing, &[(0, u128::from(number) * 2)]);
            let values = [(0, u128::from(number) * 2 + 1), (3, number.into())];
            let order = ask(Kind::Independent, &values);
            for ask in [leave, order, trusted_mac(), order] {
                let said = instance.certify(&ask, &digest(number)).expect("it goes up");
                assert!(trinx::is_certified(&key, &context, id, &said, &digest(number)));
            }
            assert!(instance.certify(&leave, &digest(0)).is_err());
            for at in [0, 2].map(|index| Position::new(View(number), index)) {
                let said = usig.create(at, &digest(number)).expect("it goes up");
                assert_eq!(usig.create(at, &digest(number)), Ok(said));
            }
        }
        let memory = instance.memory();
        assert!(instance.restore(&memory).is_err());
        assert!(instance.begin_epoch(&epoch).is_ok() && usig.begin_epoch(&epoch).is_ok());
        assert!(instance.restore(&memory).is_ok());
    });
    assert_eq!(counted.count_total, 0);
    // It is seen where something does.
    assert_eq!(measure(|| drop(black_box(Box::new(1)))).count_total, 1);
}
