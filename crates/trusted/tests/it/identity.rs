//! An identity is used once.

use pentarchy_core::ids::{Incarnation, MemberId};
use pentarchy_core::membership::Member;
use pentarchy_trusted::DeviceIdentity;
use pentarchy_trusted::identity::TakeError;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trusted-identity-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn member(incarnation: Incarnation, device_key: [u8; 32]) -> Member {
    let (identity, signing) = ([0; 32], [0; 32]);
    Member { id: MemberId(0), identity, signing, incarnation, device_key }
}

fn admitted(path: &Path) -> Member {
    let (incarnation, device_key) = DeviceIdentity::describe(path).unwrap();
    member(incarnation, device_key)
}

#[test]
fn an_identity_survives_its_file_and_then_the_file_is_used() {
    let path = directory("once").join("device");
    for identity in [DeviceIdentity::generate_mac(), DeviceIdentity::generate_signature()] {
        identity.save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let member = member(identity.incarnation(), identity.device_key());
        assert_eq!(admitted(&path), member);

        let taken = DeviceIdentity::take(&path, &member).unwrap();
        assert_eq!(taken.incarnation(), identity.incarnation());
        assert_eq!(taken.device_key(), identity.device_key());
        let used = path.with_extension("used");
        assert!(!path.exists() && used.exists());

        let error = DeviceIdentity::take(&path, &member).unwrap_err();
        assert!(matches!(&error, TakeError::Used(file) if *file == used), "{error}");
        // Nor does a copy that somebody kept bring it back.
        fs::copy(&used, &path).unwrap();
        let error = DeviceIdentity::take(&path, &member).unwrap_err();
        assert!(matches!(error, TakeError::Used(_)), "{error}");
        assert!(error.to_string().contains("begins a new incarnation"), "{error}");
        fs::remove_file(&path).unwrap();
        fs::remove_file(&used).unwrap();
    }
}

#[test]
fn a_crash_in_the_middle_leaves_it_used() {
    let path = directory("crash").join("device");
    DeviceIdentity::generate_mac().save(&path).unwrap();
    let member = admitted(&path);
    fs::write(path.with_extension("used"), b"").unwrap();
    let error = DeviceIdentity::take(&path, &member).unwrap_err();
    assert!(matches!(error, TakeError::Used(_)), "{error}");
}

#[test]
fn of_many_who_take_one_gets_it() {
    let path = directory("race").join("device");
    for _ in 0..50 {
        DeviceIdentity::generate_signature().save(&path).unwrap();
        let member = admitted(&path);
        let winners = std::thread::scope(|scope| {
            let take = || DeviceIdentity::take(&path, &member).is_ok();
            let takers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            takers.into_iter().filter_map(|taker| taker.join().unwrap().then_some(())).count()
        });
        assert_eq!(winners, 1);
        fs::remove_file(path.with_extension("used")).unwrap();
    }
}

#[test]
fn an_identity_that_is_not_admitted_is_left_alone() {
    let path = directory("foreign").join("device");
    DeviceIdentity::generate_signature().save(&path).unwrap();
    let good = admitted(&path);
    let others = [
        Member { incarnation: good.incarnation.next(), ..good.clone() },
        Member { device_key: [0; 32], ..good.clone() },
    ];
    for other in others {
        let error = DeviceIdentity::take(&path, &other).unwrap_err();
        assert!(matches!(error, TakeError::NotAdmitted(_)), "{error}");
    }
    assert!(DeviceIdentity::take(&path, &good).is_ok());
}

#[test]
fn what_is_no_private_identity_file_is_refused() {
    let path = directory("malformed").join("device");
    let member = member(Incarnation(5), [0; 32]);
    let refused = || match DeviceIdentity::take(&path, &member) {
        Err(TakeError::File(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused().contains("does not exist"));
    let private = || fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let texts = [
        "",
        "pentarchy-device-1 5\n",
        "pentarchy-device-1 5 seed\n",
        "pentarchy-device-1 -5 mac\n",
        "pentarchy-device-1 99999999999999999999 mac\n",
        "pentarchy-device-1 5 mac more\n",
        "pentarchy-key-1 5 mac\n",
    ];
    for text in texts {
        fs::write(&path, text).unwrap();
        private();
        assert!(refused().contains("is not a `pentarchy-device-1` file"), "{text:?}");
    }
    fs::write(&path, "pentarchy-device-1 5 mac\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused().contains("chmod 600"));
    private();
    assert!(DeviceIdentity::take(&path, &member).is_ok());
}

#[test]
fn identities_differ_and_do_not_print_their_seed() {
    let (a, b) = (DeviceIdentity::generate_signature(), DeviceIdentity::generate_signature());
    assert_ne!(a.incarnation(), b.incarnation());
    assert_ne!(a.device_key(), b.device_key());
    assert_eq!(DeviceIdentity::generate_mac().device_key(), [0; 32]);
    let printed = format!("{:?}", DeviceIdentity::chosen(Incarnation(5), Some([0xab; 32])));
    assert_eq!(printed, "DeviceIdentity(i5)");
}

#[test]
fn an_identity_that_cannot_be_marked_is_not_given_out() {
    let path = directory("unmarked").join("device");
    DeviceIdentity::generate_mac().save(&path).unwrap();
    let member = admitted(&path);
    // A dangling link in place of the mark: it does not exist, but cannot be created either.
    std::os::unix::fs::symlink("missing/directory", path.with_extension("used")).unwrap();
    assert!(DeviceIdentity::take(&path, &member).is_err());
    assert!(path.exists());
}
