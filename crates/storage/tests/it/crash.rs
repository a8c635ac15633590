//! Crashes and failing disks: what was acknowledged is there, and nothing is called corrupt.

use crate::workload::{Model, folder, identity, options};
use pentarchy_sim::disk::{Fate, Faults, Kind, SimDisk};
use pentarchy_sim::rng::Rng;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::log::Log;
use std::panic::{AssertUnwindSafe, catch_unwind};

const STEPS: u64 = 25;

fn tearing() -> Faults {
    Faults { tears_sectors: true, ..Faults::default() }
}

/// Works, fails at an operation, is opened again, works on, and so on: with `power` the content of
/// memory is lost each time.
fn live(seed: u64, fate: Fate, at: u64, power: bool) {
    let disk = SimDisk::new(seed, tearing());
    let (mut model, mut rng) = (Model::new(seed), Rng::new(seed));
    for life in 0..4 {
        if life < 3 {
            disk.choose(disk.operations() + at + rng.below(3) * life, fate);
        }
        let ended = model
            .open(&disk)
            .and_then(|mut log| model.work(&mut log, &mut rng, STEPS).map(|()| log));
        match ended {
            Ok(mut log) => {
                model.durable = log.commit().map_or(model.durable, |durable| durable);
            }
            Err(StorageError::Disk(_) | StorageError::Failed { .. }) => {}
            Err(other) => panic!("seed {seed}, at {at}: {other}"),
        }
        // Every other time the process begins anew before the power fails.
        if !power || life % 2 == 0 {
            disk.restart();
            if let Err(other) = model.open(&disk) {
                panic!("seed {seed}, restart at {at}: {other}");
            }
        }
        if power {
            disk.lose_power();
        }
    }
    model.open(&disk).unwrap_or_else(|error| panic!("seed {seed}, at {at}: {error}"));
}

/// Operations of a life without faults.
fn operations() -> u64 {
    let disk = SimDisk::new(1, tearing());
    let mut model = Model::new(1);
    let mut log = model.open(&disk).expect("nothing fails");
    model.work(&mut log, &mut Rng::new(1), STEPS).expect("nothing fails");
    disk.operations()
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_acknowledged() {
    for at in 0..operations() + 10 {
        (0..6).for_each(|seed| live(seed * 1000 + at, Fate::Stops, at, true));
    }
}

#[test]
fn a_failure_of_any_operation_loses_nothing_that_was_acknowledged() {
    for at in 0..operations() + 10 {
        for seed in 0..4 {
            live(seed * 1000 + at, Fate::Fails, at, true);
            live(seed * 1000 + at, Fate::Fails, at, false);
        }
    }
}

#[test]
fn a_crash_while_recovery_cleans_up_leaves_what_recovery_can_read() {
    for seed in 0..1_500 {
        let disk = SimDisk::new(seed, tearing());
        let mut log = Log::create(folder(&disk), identity(), options(seed)).expect("empty");
        log.append(1, b"durable").expect("room");
        log.commit().expect("nothing fails");
        log.append(1, &[0x77; 1500]).expect("room");
        disk.choose(disk.operations() + 1, Fate::Stops);
        log.commit().expect_err("it stops at the sync");
        disk.lose_power();
        for at in 0..8 {
            disk.choose(at, Fate::Stops);
            let opened = Log::open(folder(&disk), identity(), options(seed), Some(1), |_| ());
            assert!(matches!(opened, Ok(_) | Err(StorageError::Disk(_))), "{:?}", opened.err());
            disk.lose_power();
        }
        let opened = Log::open(folder(&disk), identity(), options(seed), Some(1), |_| ());
        assert!(opened.expect("intact").1.next >= 2);
    }
}

#[test]
fn after_a_failure_nothing_is_acknowledged() {
    for kind in [Kind::Write, Kind::Sync] {
        let disk = SimDisk::new(3, Faults::default());
        let mut log = Log::create(folder(&disk), identity(), options(3)).expect("an empty disk");
        log.append(1, b"one").expect("room");
        assert_eq!(log.commit().expect("nothing fails"), 2);
        log.append(1, b"two").expect("room");
        let at = disk.operations() + u64::from(kind == Kind::Sync);
        disk.choose(at, Fate::Fails);
        assert!(matches!(log.commit(), Err(StorageError::Disk(_))));
        assert!(matches!(log.commit(), Err(StorageError::Failed { .. })));
        assert!(matches!(log.append(1, b"three"), Err(StorageError::Failed { .. })));
        assert!(matches!(log.truncate_below(1), Err(StorageError::Failed { .. })));
        assert_eq!(log.durable(), 2);
    }
}

#[test]
fn a_full_disk_ends_the_log_and_keeps_what_it_had() {
    for capacity in (6_000..24_000).step_by(700) {
        let disk = SimDisk::new(capacity, Faults { capacity, ..tearing() });
        let mut model = Model::new(capacity);
        let mut rng = Rng::new(capacity);
        let ended = model.open(&disk).and_then(|mut log| model.work(&mut log, &mut rng, 200));
        assert!(matches!(ended, Err(StorageError::Disk(_)) | Ok(())), "{ended:?}");
        disk.set_faults(tearing());
        disk.lose_power();
        let mut log = model.open(&disk).expect("there is room again");
        model.work(&mut log, &mut rng, 20).expect("there is room again");
    }
}

#[test]
fn the_bound_holds_and_a_checkpoint_makes_room() {
    let disk = SimDisk::new(1, Faults::default());
    let mut log = Log::create(folder(&disk), identity(), options(1)).expect("an empty disk");
    let refused = (0..1000).find_map(|_| {
        log.commit().expect("nothing fails");
        log.append(0, &[1; 900]).err()
    });
    assert!(matches!(refused, Some(StorageError::Full { .. })), "{refused:?}");
    assert_eq!(log.segments(), 6);
    assert!(matches!(log.append(0, &[1; 4000]), Err(StorageError::TooLarge { .. })));
    log.truncate_below(log.durable()).expect("nothing fails");
    assert_eq!(log.segments(), 1);
    log.append(0, &[1; 900]).expect("room");
    log.commit().expect("nothing fails");
}

/// Every block of a segment that went is told from those of the next one in its file, whatever a
/// crash leaves; so they need not be taken away.
#[test]
fn segments_that_went_are_written_over_and_nothing_of_them_comes_back() {
    let spares = |disk: &SimDisk| disk.paths().iter().filter(|path| path.contains("spare")).count();
    let mut most = 0;
    for seed in 0..300 {
        let disk = SimDisk::new(seed, tearing());
        let (mut model, mut rng) = (Model::new(seed), Rng::new(seed));
        let mut log = model.open(&disk).expect("nothing fails");
        for _ in 0..3 {
            model.work(&mut log, &mut rng, 20).expect("nothing fails");
            model.durable = log.commit().expect("nothing fails");
            model.needed = model.durable;
            log.truncate_below(model.needed).expect("nothing fails");
            most = most.max(spares(&disk));
            assert!(spares(&disk) <= 4);
        }
        // Long enough for one group to fill a file that was used before.
        let files = disk.paths().len();
        model.work(&mut log, &mut rng, 2).expect("nothing fails");
        assert!(disk.paths().len() <= files.max(5), "a new file beside spare ones");
        disk.lose_power();
        drop(model.open(&disk).expect("a crash is no corruption"));
        assert_eq!(spares(&disk), 0, "they go when the log is opened");
    }
    assert_eq!(most, 4);
}

/// The checks above would see it if syncs were left out: on a disk that skips all of one kind, some
/// crash loses something.
#[test]
fn a_disk_that_skips_syncs_is_caught() {
    let all = 1_000_000;
    let files = Faults { sync_lies: all, ..tearing() };
    let folders = Faults { folder_sync_lies: all, ..tearing() };
    for faults in [files, folders] {
        let run = |seed| {
            let disk = SimDisk::new(seed, faults);
            let (mut model, mut rng) = (Model::new(seed), Rng::new(seed));
            let mut log = model.open(&disk).expect("nothing fails");
            model.work(&mut log, &mut rng, STEPS).expect("nothing fails");
            disk.lose_power();
            drop(model.open(&disk).expect("a crash is no corruption"));
        };
        let caught = (0..50).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err());
        assert!(caught, "{faults:?}");
    }
}
