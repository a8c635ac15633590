//! A replicated store of which each replica has more than the whole process has memory for.
//!
//! `cargo run --release --example large -- [MiB of state]`

use pentarchy::store::{Answer, Limits, Operation, Store};
use pentarchy::{LocalCluster, Service};
use pentarchy_core::wire::Wire;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 32 << 10;

/// For all that it does.
const PATIENCE: Duration = Duration::from_secs(300);

fn service(folder: &Path) -> Box<dyn Service> {
    let limits = Limits { cache_bytes: 8 << 20, ..Limits::default() };
    Box::new(Store::create(folder, limits).expect("room for the store's file"))
}

fn value(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(VALUE_BYTES / 8)
}

/// The most memory that this process ever had, in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// Whether a replica was admitted again, and has the group's state.
fn has_fetched(cluster: &LocalCluster, id: usize) -> bool {
    cluster.status(id).is_some_and(|it| {
        it.role != "joining" && it.state.is_some() && it.behind == 0 && it.catch_up.is_none()
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mebibytes: u64 = std::env::args().nth(1).map_or(Ok(1024), |word| word.parse())?;
    let keys = (mebibytes << 20) / VALUE_BYTES as u64;
    let folder = tempfile::tempdir()?;
    let builder = LocalCluster::builder().data(folder.path()).cold_state();
    let mut cluster = builder.start(|| service(folder.path()))?;
    let client = cluster.client()?;
    let (begun, step) = (Instant::now(), |what: &str, begun: Instant| {
        println!(
            "{what}: {:.1} s, {} MiB of memory at most",
            begun.elapsed().as_secs_f32(),
            peak()
        );
    });
    for first in (0..keys).step_by(32) {
        let put = |key: u64| Operation::Put(key.to_be_bytes().to_vec(), value(key)).to_bytes();
        let waiting: Vec<_> =
            (first..keys.min(first + 32)).map(|key| client.submit(put(key))).collect();
        for pending in waiting {
            assert_eq!(Answer::from_bytes(&pending.wait()?), Ok(Answer::Done));
        }
    }
    step("put", begun);

    // One goes on from its folder, and one has lost it, and fetches all from the others.
    cluster.kill(1)?;
    cluster.restart(1, service(folder.path()))?;
    cluster.kill(2)?;
    fs::remove_dir_all(folder.path().join("replica-2/data"))?;
    cluster.restart(2, service(folder.path()))?;
    for key in [0, keys / 2, keys - 1] {
        let found = client.call(Operation::Get(key.to_be_bytes().to_vec()).to_bytes())?;
        assert_eq!(Answer::from_bytes(&found), Ok(Answer::Value(value(key))));
    }
    step("restarted", begun);
    while !has_fetched(&cluster, 2) {
        if begun.elapsed() > PATIENCE {
            return Err("the replica that lost its folder does not become level".into());
        }
        sleep(Duration::from_millis(50));
    }
    // Now nobody can answer without the one that fetched.
    cluster.kill(0)?;
    let found = client.call(Operation::Get(0u64.to_be_bytes().to_vec()).to_bytes())?;
    assert_eq!(Answer::from_bytes(&found), Ok(Answer::Value(value(0))));
    step("fetched", begun);
    Ok(())
}
