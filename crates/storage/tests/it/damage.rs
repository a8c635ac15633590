//! Damage: it is reported, or all that was acknowledged is there. Nothing panics.

use crate::workload::{Model, folder, identity, options, record};
use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};
use pentarchy_core::mutant;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::rng::Rng;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::log::{Log, read};

/// A log after some work, with several segments.
fn worked(seed: u64, steps: u64) -> (SimDisk, Model) {
    let disk = SimDisk::new(seed, Faults { tears_sectors: true, ..Faults::default() });
    let mut model = Model::new(seed);
    let mut log = model.open(&disk).expect("nothing fails");
    let mut rng = Rng::new(seed);
    while log.segments() < 3 || steps > log.durable() {
        model.work(&mut log, &mut rng, 1).expect("nothing fails");
    }
    model.durable = log.commit().expect("nothing fails");
    (disk, model)
}

/// Opens a damaged copy. True if the damage was reported.
fn is_reported(disk: &SimDisk, model: &Model, path: &str, content: Option<Vec<u8>>) -> bool {
    let damaged = disk.copy();
    damaged.tamper(path, content);
    let mut model = *model;
    match model.open(&damaged) {
        Ok(_) => false,
        Err(StorageError::Disk(error)) => panic!("{path}: {error}"),
        Err(_) => true,
    }
}

#[test]
fn every_flipped_bit_of_what_was_acknowledged_is_reported() {
    let (disk, model) = worked(1, 20);
    for path in disk.paths() {
        let content = disk.content(&path);
        for at in 0..content.len() {
            let mask = [1, 0x10, 0x80, 0xff][at % 4];
            let mut damaged = content.clone();
            damaged[at] ^= mask;
            let written =
                content[at - at % 512..(at / 512 + 1) * 512].iter().any(|byte| *byte != 0);
            let reported = is_reported(&disk, &model, &path, Some(damaged));
            assert!(reported || !written, "{path} byte {at}");
        }
    }
}

#[test]
fn every_file_that_is_cut_or_missing_is_reported() {
    let (disk, model) = worked(2, 20);
    for path in disk.paths() {
        let content = disk.content(&path);
        assert!(is_reported(&disk, &model, &path, None), "{path} missing");
        for length in 0..content.len() {
            let cut = content[..length].to_vec();
            assert!(is_reported(&disk, &model, &path, Some(cut)), "{path} cut to {length}");
        }
        let longer = [&content[..], &[0; 512]].concat();
        assert!(is_reported(&disk, &model, &path, Some(longer)), "{path} longer");
    }
}

#[test]
fn a_lost_block_is_taken_for_a_torn_tail_only_in_the_last_group() {
    let (disk, mut model) = worked(3, 25);
    let mut log = model.open(&disk).expect("intact");
    for number in log.next()..log.next() + 3 {
        let body = record(3, number).body;
        log.append(record(3, number).kind, &body).expect("room");
    }
    let before_last = log.durable();
    (model.appended, model.durable) = (log.next(), log.commit().expect("nothing fails"));
    let mut taken = 0;
    let paths = disk.paths();
    for path in &paths {
        let content = disk.content(path);
        for block in 0..content.len() / 512 {
            let mut damaged = content.clone();
            damaged[block * 512..(block + 1) * 512].fill(0);
            if damaged == content {
                continue;
            }
            let copy = disk.copy();
            copy.tamper(path, Some(damaged));
            let mut lenient = Model { durable: 1, needed: 1, ..model };
            if let Ok(log) = lenient.open(&copy) {
                assert_eq!(Some(path), paths.last(), "only the last segment has an open end");
                assert_eq!(log.next(), before_last, "only of the last group");
                taken += 1;
            }
        }
    }
    // A disk that loses what it has synced cannot be told from a crash, in one group.
    assert!((1..8).contains(&taken), "{taken}");
}

/// Where the log goes on after each way to damage a block of its last segment, if nobody notices.
fn goes_on(seed: u64, damage: impl Fn(&mut [u8])) -> Vec<u64> {
    let (disk, model) = worked(seed, 25);
    let path = disk.paths().pop().expect("a segment");
    let content = disk.content(&path);
    let open = |block: usize| {
        let mut damaged = content.clone();
        damage(&mut damaged[block * 512..(block + 1) * 512]);
        let copy = disk.copy();
        copy.tamper(&path, Some(damaged.clone()));
        let opened = Model { durable: 1, needed: 1, ..model }.open(&copy).ok();
        opened.filter(|_| damaged != content).map(|log| log.next())
    };
    (0..content.len() / 512).filter_map(open).collect()
}

#[test]
fn what_was_durable_is_never_taken_for_what_was_not_written() {
    let flip = |block: &mut [u8]| {
        if block.iter().any(|byte| *byte != 0) {
            block[100] ^= 1;
        }
    };
    assert_eq!(goes_on(5, flip), [] as [u64; 0]);
    let torn = mutant::with(Some("log.corrupt-taken-for-torn"), || goes_on(5, flip));
    assert!(!torn.is_empty());
    // Of the last group, that cannot be told. In some of these logs, others stand before it.
    let lose = |block: &mut [u8]| block.fill(0);
    let mut gaps = 0;
    for seed in 5..15 {
        let last = goes_on(seed, lose);
        assert!(last.windows(2).all(|pair| pair[0] == pair[1]), "{last:?}");
        let taken = mutant::with(Some("log.gap-taken-for-end"), || goes_on(seed, lose));
        gaps += taken.len() - last.len();
    }
    assert!(gaps > 0);
}

#[test]
fn blocks_that_changed_places_are_reported() {
    let (disk, model) = worked(4, 25);
    let paths = disk.paths();
    let mut rng = Rng::new(4);
    for _ in 0..400 {
        let (from, to) = (rng.pick(&paths), rng.pick(&paths));
        let (source, mut target) = (disk.content(from), disk.content(to));
        let (a, b) = (rng.below(8) as usize * 512, rng.below(8) as usize * 512);
        let before = target.clone();
        target[b..b + 512].copy_from_slice(&source[a..a + 512]);
        // A block of zeros is a lost one: see above.
        if target == before || source[a..a + 512].iter().all(|byte| *byte == 0) {
            continue;
        }
        assert!(is_reported(&disk, &model, to, Some(target)), "{from} {a} over {to} {b}");
    }
}

#[test]
fn a_group_of_another_history_is_reported() {
    let (disk, _) = worked(8, 5);
    let path = disk.paths().pop().expect("a segment");
    let start = disk.content(&path);
    let with = |bodies: &[&[u8]]| {
        let copy = disk.copy();
        let opened = Log::open(folder(&copy), identity(), options(8), Some(1), |_| ());
        let (mut log, _) = opened.expect("intact");
        for body in bodies {
            log.append(1, body).expect("room");
            log.commit().expect("nothing fails");
        }
        copy.content(&path)
    };
    let (mine, mut mixed) = (with(&[b"mine"]), with(&[b"other", b"behind it"]));
    let differs = |block: &usize| start[block * 512..][..512] != mine[block * 512..][..512];
    let block = (0..8).find(differs).expect("a group was written");
    mixed[block * 512..][..512].copy_from_slice(&mine[block * 512..][..512]);
    let copy = disk.copy();
    copy.tamper(&path, Some(mixed));
    let refused = Log::open(folder(&copy), identity(), options(8), Some(1), |_| ()).err();
    let Some(StorageError::Corrupt { offset, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(offset, (block as u64 + 1) * 512);
}

#[test]
fn arbitrary_content_never_panics() {
    let (disk, model) = worked(5, 20);
    let paths = disk.paths();
    let mut rng = Rng::new(5);
    for _ in 0..3_000 {
        let path = rng.pick(&paths);
        let mut content = disk.content(path);
        for _ in 0..rng.range(1, 4) {
            let at = rng.below(content.len() as u64) as usize;
            let end = (at + rng.below(600) as usize).min(content.len());
            match rng.below(4) {
                0 => content[at..end].fill(0),
                1 => content[at..end].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8),
                2 => content.truncate(at.max(1)),
                _ => content.copy_within(at..end, 0),
            }
        }
        let damaged = disk.copy();
        damaged.tamper(path, Some(content));
        let mut lenient = Model { durable: 1, needed: 1, ..model };
        let _either = lenient.open(&damaged);
    }
}

#[test]
fn somebody_elses_log_and_another_format_are_named() {
    let (disk, _) = worked(6, 5);
    let open = |identity| Log::open(folder(&disk), identity, options(6), Some(1), |_| ()).err();
    let mine = identity();
    let others = [
        Identity { group: GroupId([8; 16]), ..mine },
        Identity { replica: ReplicaId(1), ..mine },
        Identity { incarnation: Incarnation(6), ..mine },
    ];
    for other in others {
        let refused = open(other);
        assert!(matches!(refused, Some(StorageError::Foreign { .. })), "{refused:?}");
    }
    for version in [0u32, 1, 2, 3, 5, u32::MAX] {
        let newer = disk.copy();
        let path = &disk.paths()[0];
        let mut content = disk.content(path);
        content[8..12].copy_from_slice(&version.to_le_bytes());
        newer.tamper(path, Some(content));
        let refused = Log::open(folder(&newer), mine, options(6), Some(1), |_| ()).err();
        assert!(
            matches!(refused, Some(StorageError::Version { found, .. }) if found == version),
            "{refused:?}"
        );
    }
    assert!(matches!(
        Log::create(folder(&disk), mine, options(6)).err(),
        Some(StorageError::Unexpected { .. })
    ));
    let empty = SimDisk::new(1, Faults::default());
    let missing = Log::open(folder(&empty), mine, options(6), Some(1), |_| ()).err();
    assert!(matches!(missing, Some(StorageError::Missing { .. })));
}

#[test]
fn reading_changes_nothing_and_shows_the_same() {
    let (disk, model) = worked(7, 20);
    let before: Vec<_> = disk.paths().iter().map(|path| disk.content(path)).collect();
    let operations = disk.operations();
    let mut records = Vec::new();
    let found = read(&*folder(&disk), None, |record| records.push(record)).expect("intact");
    assert_eq!((found.next, found.torn_bytes), (model.durable, 0));
    assert_eq!(records.last(), Some(&record(7, model.durable - 1)));
    assert_eq!(disk.operations(), operations);
    let after: Vec<_> = disk.paths().iter().map(|path| disk.content(path)).collect();
    assert_eq!(before, after);
}
