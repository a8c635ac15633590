//! The keys by which a member signs, from configuration to configuration.

use pentarchy_core::change::Change;
use pentarchy_core::configuration::{Administrators, Configuration, Facts, RequestMeans};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, MemberId, Millis};
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::signing_keys::{SharedSigningKeys, SigningKeys};
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crypto-signing-{name}"));
    let _ = fs::remove_dir_all(&path);
    path
}

fn identity() -> KeyPair {
    KeyPair::from_seed([3; 32])
}

fn open(folder: &Path) -> SharedSigningKeys {
    SigningKeys::open(folder, identity()).unwrap()
}

/// A change to the configuration of this number.
fn change(number: u64) -> Change {
    let next = Configuration {
        group: GroupId([5; 16]),
        number,
        protocol: "none".to_owned(),
        facts: Facts {
            fault_model: FaultModel::Hybrid,
            group_size: Count::per_fault_and_one(2),
            quorum: QuorumRule::Majority,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::All,
            pillars: false,
            speculative: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: None,
        },
        f: 0,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators::default(),
        members: Vec::new(),
        next_member: MemberId(0),
    };
    let (expects, expires) = (Digest::default(), Millis(9));
    Change { expects, attempt: 0, expires, next, needed: Vec::new() }
}

/// The only file that holds a key.
fn key_file(folder: &Path) -> PathBuf {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_none()).unwrap()
}

/// How many files there are.
fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_key_is_there_from_when_it_is_made_until_it_is_erased() {
    let folder = folder("life");
    let keys = open(&folder);
    assert_eq!(keys.lock().current().public(), identity().public());
    let first = keys.lock().prepare(&change(1)).unwrap();
    assert_eq!(keys.lock().prepare(&change(1)).unwrap(), first, "one for each change");
    assert_ne!(first, identity().public());

    // It is what it was after a crash, before it is used and while it is.
    let keys = open(&folder);
    assert_eq!(keys.lock().prepare(&change(1)).unwrap(), first);
    assert_eq!(keys.lock().adopt(&first).unwrap().public(), first);
    keys.lock().erase_former().unwrap();
    let keys = open(&folder);
    assert_eq!(keys.lock().adopt(&first).unwrap().public(), first);

    // The one before is there until the next one cannot be taken back any more.
    let second = keys.lock().prepare(&change(2)).unwrap();
    keys.lock().adopt(&second).unwrap();
    keys.lock().forget(&|change| change.next.number <= 2).unwrap();
    assert!(keys.lock().get(&first).is_some() && open(&folder).lock().get(&first).is_some());
    keys.lock().erase_former().unwrap();
    for keys in [keys, open(&folder)] {
        assert!(keys.lock().get(&first).is_none() && keys.lock().adopt(&first).is_none());
        assert_eq!(keys.lock().get(&second).unwrap().public(), second);
        assert!(keys.lock().get(&identity().public()).is_some(), "it opens channels");
    }
    assert_eq!(files(&folder), 2);
}

#[test]
fn keys_for_changes_that_are_void_go_and_others_stay() {
    let folder = folder("void");
    let keys = open(&folder);
    let [used, void, pending] = [1, 2, 3].map(|it| keys.lock().prepare(&change(it)).unwrap());
    keys.lock().adopt(&used).unwrap();
    keys.lock().forget(&|change| change.next.number < 3).unwrap();
    for keys in [keys, open(&folder)] {
        let has = [used, void, pending].map(|key| keys.lock().get(&key).is_some());
        assert_eq!(has, [true, false, true]);
    }
}

/// Power fails after the change is written and before its key is, or while a key is erased.
#[test]
fn what_a_crash_left_is_no_key() {
    let folder = folder("crash");
    let key = open(&folder).lock().prepare(&change(1)).unwrap();
    let path = key_file(&folder);
    let text = fs::read(&path).unwrap();
    fs::write(&path, vec![0; text.len()]).unwrap();
    assert!(open(&folder).lock().get(&key).is_none());
    fs::remove_file(&path).unwrap();
    let keys = open(&folder);
    assert!(keys.lock().get(&key).is_none());
    let again = keys.lock().prepare(&change(1)).unwrap();
    assert!(again != key && open(&folder).lock().get(&again).is_some());
    // A file that holds no key is named when the folder is opened.
    fs::write(&path, "pentarchy-key-1 12\n").unwrap();
    let error = SigningKeys::open(&folder, identity()).unwrap_err();
    assert!(error.to_string().contains("pentarchy-key-1"), "{error}");
}

#[test]
fn an_erased_key_is_not_in_its_file() {
    let folder = folder("erased");
    let keys = open(&folder);
    let first = keys.lock().prepare(&change(1)).unwrap();
    let path = key_file(&folder);
    // Another name of the same file, as a thief might have left it.
    let held = folder.with_extension("held");
    let _ = fs::remove_file(&held);
    fs::hard_link(&path, &held).unwrap();
    keys.lock().adopt(&first).unwrap();
    let second = keys.lock().prepare(&change(2)).unwrap();
    keys.lock().adopt(&second).unwrap();
    keys.lock().erase_former().unwrap();
    assert!(fs::read(&held).unwrap().iter().all(|byte| *byte == 0));
}
