//! What a replica's files are, byte for byte: fixed histories, and the files that they leave, in
//! `tests/golden`. Today's program reads the golden files as what was kept, and writes the same
//! bytes. Whoever changes a format by accident fails here. Whoever does it on purpose has
//! `UPDATE=1` write the files anew, and reviews that as a diff.

mod dump;
mod histories;

use bytes::Bytes;
use dump::Files;
use histories::{
    entries, first, identity, in_pillars, in_segments, kept, link, of_pillars, open, open_pillars,
    open_segments, parts, record, second, state, third,
};
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_storage::backup::{self, Backup, BackupError};
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{LOG, Mark, Needed, Newest, SNAPSHOTS, describe};
use pentarchy_storage::log;
use std::collections::BTreeSet;
use std::path::Path;

/// A disk that has these files.
fn disk(files: &Files) -> SimDisk {
    let disk = SimDisk::new(1, Faults::default());
    files.iter().for_each(|(path, bytes)| disk.tamper(path, Some(bytes.clone())));
    disk
}

/// The files of a disk.
fn files(disk: &SimDisk) -> Files {
    disk.paths().into_iter().map(|path| (path.clone(), disk.content(&path))).collect()
}

/// Compares what is written now with the golden files of this name, and gives those.
fn golden(name: &str, written: &Files) -> Files {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let expected = dump::text(written);
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found != expected && std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("the golden file can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the golden file");
    let golden = dump::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let differences = dump::differences(&golden, written);
    let what = "another format, or UPDATE=1 is missing";
    assert!(differences.is_empty(), "{}: {what}:\n{}", path.display(), differences.join("\n"));
    assert!(text == expected, "{}: its comment, or its form", path.display());
    golden
}

#[test]
fn a_data_folder_has_its_golden_bytes_and_is_read_from_them() {
    let golden = golden("kept", &files(&kept()));
    let (kept, past) = open(&disk(&golden)).expect("intact");
    assert!(past.damaged.is_empty(), "{:?}", past.damaged);
    let (membership, proof) = third();
    assert_eq!((&past.membership, past.proof.as_ref()), (&membership, Some(&proof)));
    assert_eq!(past.links, [link()]);
    assert_eq!(past.snapshots, [state(64), state(128)]);
    // Four records say how epochs began, and one that a state is stable.
    assert_eq!(past.entries, (6..).zip(entries()).collect::<Vec<_>>());
    let needed = Needed::from(4);
    assert_eq!(kept.mark(), Some(Mark { slot: state(64).slot, needed }));
}

#[test]
fn a_data_folder_of_pillars_has_its_golden_bytes_and_is_read_from_them() {
    let golden = golden("pillars", &files(&in_pillars()));
    let (kept, past) = open_pillars(&disk(&golden)).expect("intact");
    assert!(past.damaged.is_empty(), "{:?}", past.damaged);
    assert_eq!((past.membership, past.proof, past.links), (of_pillars(), None, Vec::new()));
    assert_eq!(past.snapshots, [state(64)]);
    // What each pillar kept before its mark is left out.
    let needed = [4, 5, 7, 8, 9, 10].into_iter().zip(parts().into_iter().skip(2));
    assert_eq!(past.entries, needed.collect::<Vec<_>>());
    let needed = Needed::of_parts(&[5, 4]);
    assert_eq!(kept.mark(), Some(Mark { slot: state(64).slot, needed }));
}

#[test]
fn segments_that_are_sealed_and_reused_have_their_golden_bytes_and_are_read_from_them() {
    let golden = golden("segments", &files(&in_segments()));
    let disk = disk(&golden);
    let mut records = Vec::new();
    let folder = disk.root().folder(LOG).expect("no folder needs to be made");
    let found = log::read(&*folder, Some(&identity()), |record| records.push(record));
    let found = found.expect("intact");
    assert_eq!(records, [3, 4, 5].map(record));
    assert_eq!((found.first, found.next, found.groups), (3, 6, 5));
    assert_eq!((found.segments, found.torn_bytes), (3, 0));
    // It goes on from there.
    let mut log = open_segments(&disk).expect("intact");
    assert_eq!(log.append(1, b"more").expect("room"), 6);
    assert_eq!(log.commit().expect("nothing fails"), 7);
}

fn backup() -> Backup {
    Backup { identity: identity(), snapshot: state(128) }
}

#[test]
fn a_backup_has_its_golden_bytes_and_is_read_from_them() {
    let written = Files::from([("backup".to_owned(), backup().to_bytes())]);
    let golden = Bytes::from(golden("backup", &written)["backup"].clone());
    assert_eq!(Backup::from_bytes(&golden), Ok(backup()));
    let checked = backup::check(&mut &golden[..], golden.len() as u64).expect("memory");
    let described = checked.expect("it is whole");
    assert_eq!((described.identity, described.slot), (identity(), state(128).slot));
    assert_eq!(described.digest, state(128).digest);
    // The same is made of the files of a replica, without the whole state in memory.
    let disk = kept();
    let folder = |name| disk.root().folder(name).expect("no folder needs to be made");
    let newest = Newest::find(folder(SNAPSHOTS), Some(&*folder(LOG))).expect("intact");
    let mut streamed = Vec::new();
    let described_again = backup::write(&newest.expect("a state"), &mut streamed);
    assert_eq!(described_again.expect("memory has room"), described);
    assert_eq!(streamed, golden);
}

/// The same bytes with a version that is one higher than the one behind the magic, and that one.
fn newer(bytes: &[u8]) -> (Vec<u8>, u32) {
    let mut newer = bytes.to_vec();
    let version = newer[8..12].try_into().map(u32::from_le_bytes).expect("four bytes") + 1;
    newer[8..12].copy_from_slice(&version.to_le_bytes());
    (newer, version)
}

/// Opens a disk, and gives why it cannot be.
type Refusal = fn(&SimDisk) -> Option<StorageError>;

#[test]
fn a_file_of_a_newer_format_is_refused_by_its_version() {
    let histories: [(SimDisk, Refusal); 3] = [
        (kept(), |disk| open(disk).err()),
        (in_pillars(), |disk| open_pillars(disk).err()),
        (in_segments(), |disk| open_segments(disk).err()),
    ];
    let mut endings = Vec::new();
    for (disk, refusal) in histories {
        // Lists and packs have one version, and nobody reads that of a pack: the list comes first.
        for path in disk.paths().into_iter().filter(|path| !path.ends_with(".pack")) {
            let copy = disk.copy();
            let (bytes, version) = newer(&disk.content(&path));
            copy.tamper(&path, Some(bytes));
            let refused = refusal(&copy).unwrap_or_else(|| panic!("{path} is read"));
            let names_it = match &refused {
                StorageError::Version { file, found, known } => {
                    path.ends_with(&**file) && (*found, known + 1) == (version, version)
                }
                _ => false,
            };
            assert!(names_it, "{path}: {refused}");
            assert!(refused.to_string().contains(&format!("format {version}")), "{refused}");
            endings.extend(path.rsplit('.').next().map(str::to_owned));
        }
    }
    endings.sort();
    endings.dedup();
    assert_eq!(endings, ["link", "log", "snapshot"], "each kind of file");
}

#[test]
fn a_backup_of_a_newer_format_is_refused_by_its_version() {
    let (bytes, found) = newer(&backup().to_bytes());
    let expected = BackupError::Version { found, known: found - 1 };
    assert!(expected.to_string().contains(&format!("format {found}")));
    let checked = backup::check(&mut &bytes[..], bytes.len() as u64).expect("memory");
    assert_eq!(checked, Err(expected.clone()));
    assert_eq!(Backup::from_bytes(&bytes.into()), Err(expected));
}

#[test]
fn a_flipped_byte_in_a_golden_file_is_found_wherever_it_is() {
    for disk in [kept(), in_pillars(), in_segments()] {
        let written = files(&disk);
        let whole = dump::text(&written);
        assert_eq!(dump::parse(&whole).as_ref(), Ok(&written));
        for (path, bytes) in &written {
            for place in (0..bytes.len()).step_by(bytes.len() / 30 + 1) {
                let mut flipped = written.clone();
                flipped.get_mut(path).expect("it is there")[place] ^= 1;
                let golden = dump::parse(&dump::text(&flipped)).expect("it is a golden file");
                let expected = format!("{path}: differs from byte {place} on");
                assert_eq!(dump::differences(&golden, &written), [expected]);
            }
            let mut without = written.clone();
            without.remove(path);
            let lost = format!("{path}: in the golden file, and not written any more");
            assert_eq!(dump::differences(&written, &without), [lost]);
            let added = format!("{path}: written, and not in the golden file");
            assert_eq!(dump::differences(&without, &written), [added]);
        }
    }
}

#[test]
fn what_is_no_golden_file_is_refused() {
    for (text, problem) in [
        ("# a\n== b 1\n0g\n", "b: no hexadecimal digits: 0g"),
        ("# a\n== b 1\n000\n", "b: no hexadecimal digits: 000"),
        ("# a\n== b 2\n00\n", "b: 1 bytes, and not 2"),
        ("# a\n== b 2\nzeros x\n", "b: no hexadecimal digits: zeros x"),
        ("# a\n== b\n", "b: no length"),
        ("# a\n== b 0\n== b 0\n", "b: it is there twice"),
    ] {
        assert_eq!(dump::parse(text), Err(problem.to_owned()));
    }
    let files = Files::from([("b".to_owned(), [&[7; 33][..], &[0; 70]].concat())]);
    let text = "# a\n== b 103\n".to_owned() + &"07".repeat(32) + "\n07" + &"00".repeat(31);
    assert_eq!(dump::parse(&(text + "\nzeros 39\n")), Ok(files));
}

/// Each of these is another epoch, so that none of the samples is the other by accident.
#[test]
fn the_epochs_of_the_history_differ() {
    let epochs = [first(), second(), third().0].map(|membership| membership.epoch.0);
    assert_eq!(epochs, [0, 1, 2]);
}

/// The kinds of records that this program reads: it is tried with zeros, of which one of each kind
/// can be made.
fn kinds() -> BTreeSet<u8> {
    let is_read = |kind: &u8| (0..300).any(|zeros| describe(*kind, &vec![0; zeros].into()).is_ok());
    (0..=u8::MAX).filter(is_read).collect()
}

#[test]
fn each_kind_of_record_is_in_a_golden_log() {
    let mut there = BTreeSet::new();
    for disk in [kept(), in_pillars()] {
        let folder = disk.root().folder(LOG).expect("no folder needs to be made");
        let found = log::read(&*folder, None, |record| {
            there.insert(record.kind);
        });
        found.expect("intact");
    }
    assert_eq!((kinds(), there), ((1..=7).collect(), (1..=7).collect()));
}
