//! How many certificates one core makes in a second, of 32-byte digests, in process:
//! `cargo run --release -p pentarchy-trusted --example certify`.

use pentarchy_core::counter::{Position, Refused, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, ReplicaId, View};
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::order_counter::trusted_mac;
use pentarchy_trusted::trinx::{self, Ask, COUNTERS, InstanceId, Kind, Value};
use pentarchy_trusted::usig::GroupKey;
use pentarchy_trusted::{DeviceIdentity, InProcess, TrinxInProcess};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Repeats for a second, and prints how often that was.
fn measure(name: &str, mut once: impl FnMut(u64) -> Result<(), Refused>) {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        for _ in 0..1_000 {
            count += 1;
            if let Err(refused) = once(count) {
                println!("{name} {refused}");
                return;
            }
        }
    }
    let per_second = count as f64 / begun.elapsed().as_secs_f64();
    println!("{name} {per_second:.0} per second");
}

fn ask(kind: Kind, values: &[(usize, u64)]) -> Ask {
    let mut all = [None; COUNTERS];
    for (counter, value) in values {
        all[*counter] = Some(Value(u128::from(*value)));
    }
    Ask { kind, values: all }
}

fn main() {
    let (secret, epoch, me) = ([7; 32], (GroupId([1; 16]), Epoch(0)), ReplicaId(0));
    let digest = Digest::of(b"what is certified");
    let identity = || DeviceIdentity::chosen(Incarnation(1), None);
    let instances = || TrinxInProcess::initialise(&secret, epoch, me, &identity(), 1);
    let mut usig = InProcess::mac(&secret, epoch, me, identity()).expect("a MAC device");
    measure("certify/device=usig", |count| {
        usig.create(Position::new(View(0), count + 2), black_box(&digest)).map(|_| ())
    });
    for (name, kind, counters) in [
        ("independent", Kind::Independent, 1),
        ("continuing", Kind::Continuing, 1),
        ("continuing", Kind::Continuing, COUNTERS),
    ] {
        let mut trinx = instances().expect("a MAC identity");
        measure(&format!("certify/device=trinx kind={name} counters={counters}"), |count| {
            let values: Vec<_> = (0..counters).map(|counter| (counter, count)).collect();
            trinx.certify(0, &ask(kind, &values), black_box(&digest)).map(|_| ())
        });
    }
    let mut trinx = instances().expect("a MAC identity");
    measure("certify/device=trinx kind=trusted_mac", |_| {
        trinx.certify(0, &trusted_mac(), black_box(&digest)).map(|_| ())
    });
    let said = trinx.certify(0, &ask(Kind::Independent, &[(0, 9)]), &digest).expect("fresh");
    let (key, context) = (GroupKey::new(&secret), trinx::context(&epoch.0, epoch.1));
    let by = InstanceId { replica: me, number: 0 };
    measure("verify/device=trinx", |_| {
        let good = trinx::is_certified(&key, &context, by, black_box(&said), &digest);
        if good { Ok(()) } else { Err(Refused::Unavailable) }
    });
}
