//! The keys by which a member signs, from configuration to configuration.

use pentarchy_core::change::Change;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, MemberId, Millis};
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_crypto::sealed::Receiver;
use pentarchy_crypto::signing_keys::{Present, SharedSigningKeys, SigningKeys};
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
    SigningKeys::open(folder, identity(), None).unwrap()
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
        access: Access::Open,
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
    keys.lock().erase_former(&Present::default()).unwrap();
    let keys = open(&folder);
    assert_eq!(keys.lock().adopt(&first).unwrap().public(), first);

    // The one before is there until the next one cannot be taken back any more.
    let second = keys.lock().prepare(&change(2)).unwrap();
    keys.lock().adopt(&second).unwrap();
    keys.lock().forget(&|change| change.next.number <= 2).unwrap();
    assert!(keys.lock().get(&first).is_some() && open(&folder).lock().get(&first).is_some());
    keys.lock().erase_former(&Present::default()).unwrap();
    for keys in [keys, open(&folder)] {
        assert!(keys.lock().get(&first).is_none() && keys.lock().adopt(&first).is_none());
        assert_eq!(keys.lock().get(&second).unwrap().public(), second);
        assert!(keys.lock().get(&identity().public()).is_some(), "it opens channels");
    }
    assert_eq!(files(&folder), 2);
}

/// The group goes on without the member: whoever finds its folder signs nothing in its name.
#[test]
fn a_member_that_retires_keeps_its_identity_and_no_other_key() {
    let (folder, secret) = (folder("retires"), self::folder("retires-secret"));
    fs::create_dir_all(&secret).unwrap();
    let secret = secret.join("group-secret");
    let (first, shared) = (KeyPair::from_seed([4; 32]), GroupSecret::generate());
    shared.save(&secret).unwrap();
    SigningKeys::in_memory(identity(), first.clone(), None).lock().save_first(&folder).unwrap();
    let open = || SigningKeys::open(&folder, identity(), Some(&secret)).unwrap();
    let keys = open();
    assert_eq!(keys.lock().current().public(), first.public());
    let made = keys.lock().prepare(&change(1)).unwrap();
    keys.lock().retire().unwrap();
    for keys in [keys, open()] {
        let keys = keys.lock();
        assert!(keys.is_retired());
        assert!(keys.get(&made).is_none() && keys.get(&first.public()).is_none());
        assert_eq!(keys.current().public(), identity().public());
    }
    assert!(!secret.exists());
    assert_eq!(files(&folder), 1, "the note that it has retired");
    open().lock().retire().expect("again, after a crash");
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
    let error = SigningKeys::open(&folder, identity(), None).unwrap_err();
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
    keys.lock().erase_former(&Present::default()).unwrap();
    assert!(fs::read(&held).unwrap().iter().all(|byte| *byte == 0));
}

/// A change that brings the devices this secret, sealed for the member under this key.
fn change_with(number: u64, secret: &GroupSecret, signing: &[u8; 32]) -> Change {
    let mut change = change(number);
    let receiver = Receiver { group: change.next.group, member: MemberId(6) };
    change.next.secret = Some(secret.name());
    change.next.members = vec![MemberEntry {
        id: MemberId(6),
        identity: identity().public(),
        signing: *signing,
        sealed: receiver.seal(secret, signing),
        address: "a:1".to_owned(),
    }];
    change
}

/// The secret files that are there, and what is in them.
fn secrets(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let secrets = paths.filter(|path| path.extension().is_some_and(|it| it == "secret"));
    secrets.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_member_reads_the_secret_that_is_sealed_for_it_and_erases_the_one_before() {
    let parent = folder("secret");
    fs::create_dir_all(&parent).unwrap();
    let (folder, first_path) = (parent.join("signing"), parent.join("group-secret"));
    let [first_secret, second, third] = [4, 5, 6].map(|byte| GroupSecret::from_bytes([byte; 32]));
    first_secret.save(&first_path).unwrap();
    let key = KeyPair::from_seed([9; 32]);
    SigningKeys::in_memory(identity(), key.clone(), None).lock().save_first(&folder).unwrap();
    let open = || SigningKeys::open(&folder, identity(), Some(&first_path)).unwrap();
    let read = |keys: &SharedSigningKeys, change: &Change| {
        keys.lock().secret_of(&change.next).map(|secret| *secret.as_bytes())
    };
    let keys = open();
    assert_eq!(keys.lock().current().public(), key.public());
    assert_eq!(read(&keys, &change(0)), Some([4; 32]), "that of the first configuration");

    // It can read the next one at once, and keeps it with the key that it makes.
    let to_second = change_with(1, &second, &key.public());
    assert_eq!(read(&keys, &to_second), Some([5; 32]));
    let other = change_with(1, &second, &KeyPair::from_seed([8; 32]).public());
    assert_eq!(read(&keys, &other), None, "it is sealed under another key");
    let signing = keys.lock().prepare(&to_second).unwrap();
    let first = Present::default();
    let in_second = Present { number: 1, secret: Some(second.name()) };
    assert!(!keys.lock().has_former(&first) && !keys.lock().has_left(0));
    assert_eq!(secrets(&folder).len(), 1);
    keys.lock().adopt(&signing).unwrap();
    assert!(keys.lock().has_former(&in_second));
    keys.lock().erase_former(&in_second).unwrap();
    assert!(keys.lock().has_left(0));
    assert!(!first_path.exists() && !folder.join("first").exists());
    for keys in [keys, open()] {
        keys.lock().adopt(&signing).unwrap();
        assert!(!keys.lock().has_former(&in_second));
        assert_eq!(
            [change(0), to_second.clone()].map(|it| read(&keys, &it)),
            [None, Some([5; 32])]
        );
    }

    // One that is not ready keeps its key, and can read what is sealed for that after any restart.
    let to_third = change_with(2, &third, &signing);
    let keys = open();
    keys.lock().adopt(&signing).unwrap();
    assert_eq!(read(&keys, &to_third), Some([6; 32]));
    // If nothing new is shared, the next key goes with the same secret.
    let mut same = to_second.clone();
    same.next.number = 2;
    let next = keys.lock().prepare(&same).unwrap();
    keys.lock().adopt(&next).unwrap();
    keys.lock().erase_former(&in_second).unwrap();
    assert_eq!(read(&open(), &same), Some([5; 32]));
    let kept = secrets(&folder);
    assert!(kept.len() == 1 && kept[0].contains(&"05".repeat(32)), "{kept:?}");
    assert_eq!(read(&open(), &to_third), None, "the key under which it was sealed is erased");

    // It is not ready for the next one, which is sealed under the key that it keeps. So it erases
    // what the devices shared before, and reads the new one again whenever it starts.
    let to_fourth = change_with(3, &third, &next);
    let in_fourth = Present { number: 3, secret: Some(third.name()) };
    // One that starts again comes through earlier configurations, and keeps what is for later.
    let earlier = Present { number: 1, secret: Some(first_secret.name()) };
    assert!(!keys.lock().has_former(&earlier));
    keys.lock().erase_former(&earlier).unwrap();
    assert_eq!(read(&keys, &same), Some([5; 32]));
    assert!(keys.lock().has_former(&in_fourth));
    keys.lock().erase_former(&in_fourth).unwrap();
    assert!(secrets(&folder).is_empty());
    assert_eq!(read(&open(), &to_fourth), Some([6; 32]));
}

/// A crash came before the key was written to which it belongs.
#[test]
fn a_secret_without_a_key_is_erased() {
    let folder = folder("stray");
    let keys = open(&folder);
    let secret = GroupSecret::from_bytes([4; 32]);
    keys.lock().prepare(&change_with(1, &secret, &identity().public())).unwrap();
    assert_eq!(secrets(&folder).len(), 1);
    fs::remove_file(key_file(&folder)).unwrap();
    open(&folder);
    assert!(secrets(&folder).is_empty());
}
