//! What the disk and the log do here: `cargo run --release -p pentarchy-storage --example measure
//! -- FOLDER`. FOLDER must not exist; it is left behind.

use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId, Slot};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_storage::disk::Folder;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::log::{Log, Options};
use pentarchy_storage::snapshots::Snapshots;
use std::path::Path;
use std::time::{Duration, Instant};

const IDENTITY: Identity =
    Identity { group: GroupId([1; 16]), replica: ReplicaId(0), incarnation: Incarnation(1) };

fn main() -> Result<(), StorageError> {
    let path = std::env::args().nth(1).expect("usage: measure FOLDER, which must not exist");
    let mut data = OsFolder::open(Path::new(&path))?;
    raw(&mut data)?;
    for (records, bytes) in [(1, 512), (16, 512), (256, 512), (2048, 512), (64, 64 << 10)] {
        log(&mut data, records, bytes)?;
    }
    snapshots(&mut data)
}

/// Waits of single syncs, in order.
fn show(what: &str, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let at = |part: usize| waits[(waits.len() - 1) * part / 100].as_secs_f64() * 1e3;
    let mean = waits.iter().sum::<Duration>().as_secs_f64() / waits.len() as f64;
    println!(
        "{what}: {:.0}/s, median {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        1.0 / mean,
        at(50),
        at(99),
        at(100)
    );
}

/// The disk alone: a block written and synced.
fn raw(data: &mut OsFolder) -> Result<(), StorageError> {
    let mut file = data.create("raw")?;
    file.preallocate(32 << 20)?;
    file.sync()?;
    let mut waits = Vec::new();
    for place in 0..500 {
        file.write_at(&[place as u8; 4096], place * 4096)?;
        let begun = Instant::now();
        file.sync()?;
        waits.push(begun.elapsed());
    }
    show("disk, 4 KiB and a sync", waits);
    Ok(())
}

/// As many records of a size in each commit, for two seconds; then reads all of it.
fn log(data: &mut OsFolder, records: usize, bytes: usize) -> Result<(), StorageError> {
    let name = format!("log-{records}-{bytes}");
    let options = Options { bytes_max: 2 << 30, ..Options::new([9; 32]) };
    let mut log = Log::create(data.folder(&name)?, IDENTITY, options)?;
    let (body, mut waits, begun) = (vec![0x5a; bytes], Vec::new(), Instant::now());
    while begun.elapsed() < Duration::from_secs(2) && log.segments() < 40 {
        let begun = Instant::now();
        for _ in 0..records {
            log.append(0, &body)?;
        }
        log.commit()?;
        waits.push(begun.elapsed());
    }
    let (took, count) = (begun.elapsed().as_secs_f64(), log.durable() - 1);
    let mebibytes = count as f64 * bytes as f64 / f64::from(1 << 20);
    println!(
        "log, {records} x {bytes} B a commit: {:.0} records/s, {:.1} MiB/s",
        count as f64 / took,
        mebibytes / took
    );
    show("  commits", waits);
    drop(log);
    let (begun, mut seen) = (Instant::now(), 0);
    let (_, recovered) = Log::open(data.folder(&name)?, IDENTITY, options, Some(1), |record| {
        seen += record.body.len()
    })?;
    let took = begun.elapsed().as_secs_f64();
    let gibibytes = recovered.bytes as f64 / f64::from(1 << 30);
    println!("  recovery of {gibibytes:.2} GiB: {took:.2} s, {:.2} s/GiB", took / gibibytes);
    Ok(())
}

/// A state of 64 MiB of which a hundredth changes.
fn snapshots(data: &mut OsFolder) -> Result<(), StorageError> {
    let (mut snapshots, _) = Snapshots::open(data.folder("snapshots")?, IDENTITY)?;
    let section =
        |index: u64, round: u64| [index, round].map(u64::to_le_bytes).concat().repeat(4096);
    let mut sections: Vec<_> = (0..1024).map(|index| section(index, 0)).collect();
    for round in 1..=10 {
        let changed = if round == 1 { 0..0 } else { round * 10..round * 10 + 10 };
        changed.for_each(|index| sections[index as usize] = section(index, round));
        let snapshot = Snapshot::new(Slot(round), Tree::of(Slot(round), sections.clone()));
        let begun = Instant::now();
        let saved = snapshots.save(&snapshot, b"")?;
        snapshots.remove_below(Slot(snapshot.slot.0.saturating_sub(1)))?;
        if round < 3 || round == 10 {
            println!("snapshot {round}: {saved:?} in {:.1?}", begun.elapsed());
        }
    }
    let begun = Instant::now();
    let loaded = snapshots.load(Slot(10), None)?;
    println!("read back {} sections in {:.1?}", loaded.tree.leaves(), begun.elapsed());
    Ok(())
}
