//! How many certificates a core makes in a second, of 32-byte digests, in process and in a process
//! of their own: `cargo run --release -p pentarchy-trusted --example certify`.

use pentarchy_core::counter::{Position, Refused, Usig};
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{GroupId, Incarnation, MemberId, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::backend::process::{TrinxProcess, serve};
use pentarchy_trusted::order_counter::trusted_mac;
use pentarchy_trusted::trinx::{self, Ask, COUNTERS, InstanceId, Kind, Value};
use pentarchy_trusted::usig::GroupKey;
use pentarchy_trusted::{CounterProcess, DeviceIdentity, InProcess, TrinxInProcess};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const SECRET: [u8; 32] = [7; 32];
const ME: MemberId = MemberId(0);

/// Questions whose time is taken one by one.
const TIMED: usize = 200_000;

/// Repeats for a second, and says how often that was, in a second.
fn repeat(mut once: impl FnMut(u64) -> Result<(), Refused>) -> Result<f64, Refused> {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        for _ in 0..1_000 {
            count += 1;
            once(count)?;
        }
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// Repeats for a second, and prints how often that was.
fn measure(name: &str, once: impl FnMut(u64) -> Result<(), Refused>) {
    match repeat(once) {
        Ok(per_second) => println!("{name} {per_second:.0} per second"),
        Err(refused) => println!("{name} {refused}"),
    }
}

fn ask(kind: Kind, values: &[(usize, u64)]) -> Ask {
    let mut all = [None; COUNTERS];
    for (counter, value) in values {
        all[*counter] = Some(Value(u128::from(*value)));
    }
    Ask { kind, values: all }
}

fn identity() -> DeviceIdentity {
    DeviceIdentity::chosen(Incarnation(1), None)
}

fn digest() -> Digest {
    black_box(Digest([9; 32]))
}

/// A group of one member.
fn group() -> Membership {
    Membership::of_keys(GroupId([1; 16]), 0, [([3; 32], Life::mac(Incarnation(1)))])
}

fn epoch() -> EpochId {
    group().epoch_id()
}

fn here(instances: u16) -> TrinxInProcess {
    TrinxInProcess::initialise(&SECRET, epoch(), ME, &identity(), instances)
        .expect("a MAC identity")
}

/// What orders: one counter goes to the next value.
fn order(device: &mut dyn Trinx, instance: u16, count: u64) -> Result<(), Refused> {
    device.certify(instance, &ask(Kind::Independent, &[(0, count)]), &digest()).map(|_| ())
}

fn in_process() {
    let digest = digest();
    let mut usig = InProcess::mac(&SECRET, &group(), ME, identity()).expect("a MAC device");
    measure("certify/device=usig", |count| {
        usig.create(Position::new(View(0), count + 2), &digest).map(|_| ())
    });
    for (name, kind, counters) in [
        ("independent", Kind::Independent, 1),
        ("continuing", Kind::Continuing, 1),
        ("continuing", Kind::Continuing, COUNTERS),
    ] {
        let mut trinx = here(1);
        measure(&format!("certify/device=trinx kind={name} counters={counters}"), |count| {
            let values: Vec<_> = (0..counters).map(|counter| (counter, count)).collect();
            trinx.certify(0, &ask(kind, &values), &digest).map(|_| ())
        });
    }
    let mut trinx = here(1);
    measure("certify/device=trinx kind=trusted_mac", |_| {
        trinx.certify(0, &trusted_mac(), &digest).map(|_| ())
    });
    let said = trinx.certify(0, &ask(Kind::Independent, &[(0, 9)]), &digest).expect("fresh");
    let (key, context) = (GroupKey::new(&SECRET), trinx::context(&epoch()));
    let by = InstanceId { member: ME, number: 0 };
    measure("verify/device=trinx", |_| {
        let good = trinx::is_certified(&key, &context, by, black_box(&said), &digest);
        if good { Ok(()) } else { Err(Refused::Unavailable) }
    });
}

/// So many threads with an instance each, at the same time.
fn side_by_side(name: &str, devices: Vec<(Box<dyn Trinx>, u16)>) {
    let begin = Arc::new(Barrier::new(devices.len()));
    let threads: Vec<_> = devices
        .into_iter()
        .map(|(mut device, instance)| {
            let begin = begin.clone();
            std::thread::spawn(move || {
                begin.wait();
                repeat(|count| order(&mut *device, instance, count))
            })
        })
        .collect();
    let instances = threads.len();
    let all = threads.into_iter().map(|thread| thread.join().expect("no panic"));
    match all.sum::<Result<f64, Refused>>() {
        Ok(sum) => println!("certify/{name} instances={instances} {sum:.0} per second, together"),
        Err(refused) => println!("certify/{name} instances={instances} {refused}"),
    }
}

fn apart(instances: u16, secret: &Path) -> Arc<CounterProcess> {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.arg(secret);
    let device = Device::Trinx(instances);
    CounterProcess::start(program, device, epoch(), ME, &identity()).expect("a process")
}

/// How long one question takes, of those who ask one after the other.
fn latency(secret: &Path) {
    let mut device = TrinxProcess::new(apart(1, secret));
    let mut times = Vec::with_capacity(TIMED);
    for count in 1..=TIMED as u64 {
        let begun = Instant::now();
        if let Err(refused) = order(&mut device, 0, count) {
            return println!("latency/device=process {refused}");
        }
        times.push(begun.elapsed().as_nanos());
    }
    times.sort_unstable();
    let at = |percent: usize| times[(TIMED - 1) * percent / 100] as f64 / 1_000.0;
    println!("latency/device=process p50 {:.1} us, p99 {:.1} us", at(50), at(99));
}

fn main() {
    // The counter's process is this program with the name of a file.
    if let Some(secret) = std::env::args_os().nth(1) {
        serve::serve(Path::new(&secret)).expect("started by this program");
        return;
    }
    let secret = std::env::temp_dir().join(format!("certify-{}", std::process::id()));
    GroupSecret::from_bytes(SECRET).save(&secret).expect("a file");
    in_process();
    for count in [1, 2] {
        let devices = (0..count).map(|it| (Box::new(here(count)) as Box<dyn Trinx>, it));
        side_by_side("device=in_process", devices.collect());
    }
    for count in [1, 2] {
        let process = apart(count, &secret);
        let device = || Box::new(TrinxProcess::new(process.clone())) as Box<dyn Trinx>;
        side_by_side("device=process", (0..count).map(|it| (device(), it)).collect());
    }
    latency(&secret);
    std::fs::remove_file(&secret).expect("made above");
}
