//! Key files: who may read them, what is refused, and that the refusal says what to do.

use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_crypto::secret_file::{Problem, SecretFileError};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A new directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crypto-files-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn write(path: &Path, text: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn load_error(path: &Path) -> SecretFileError {
    KeyPair::load(path).unwrap_err()
}

#[test]
fn a_saved_key_is_private_and_loads_again() {
    let path = directory("round-trip").join("key");
    let keys = KeyPair::from_seed([3; 32]);
    keys.save(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("pentarchy-key-1 {}\n", "03".repeat(32))
    );
    assert_eq!(KeyPair::load(&path).unwrap().public(), keys.public());

    let path = path.with_file_name("group");
    GroupSecret::from_bytes([4; 32]).save(&path).unwrap();
    assert_eq!(GroupSecret::load(&path).unwrap().as_bytes(), &[4; 32]);
}

#[test]
fn a_key_is_never_overwritten() {
    let path = directory("overwrite").join("key");
    KeyPair::from_seed([1; 32]).save(&path).unwrap();
    let error = KeyPair::from_seed([2; 32]).save(&path).unwrap_err();
    assert!(matches!(error.problem, Problem::Exists), "{error}");
    assert_eq!(KeyPair::load(&path).unwrap().public(), KeyPair::from_seed([1; 32]).public());
    let nowhere = path.with_file_name("missing").join("key");
    let error = KeyPair::from_seed([2; 32]).save(&nowhere).unwrap_err();
    assert!(matches!(error.problem, Problem::Io(_)), "{error}");
    let link = path.with_file_name("link");
    symlink("nowhere", &link).unwrap();
    assert!(KeyPair::from_seed([2; 32]).save(&link).is_err(), "wrote through a dangling link");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let path = directory("exposed").join("key");
    KeyPair::from_seed([1; 32]).save(&path).unwrap();
    for mode in [0o640, 0o620, 0o604, 0o601, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = load_error(&path);
        assert!(matches!(error.problem, Problem::Exposed(found) if found == mode), "{error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(KeyPair::load(&path).is_ok());
}

#[test]
fn what_is_not_a_key_file_is_refused() {
    let path = directory("malformed").join("key");
    let error = load_error(&path);
    assert!(matches!(error.problem, Problem::Missing), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");

    let hex = "5a".repeat(32);
    let malformed = [
        String::new(),
        "\n".to_owned(),
        "pentarchy-key-1".to_owned(),
        format!("pentarchy-key-1 {hex} \n"),
        format!("pentarchy-key-1  {hex}\n"),
        format!("pentarchy-key-1 {hex}\n\n"),
        format!("pentarchy-key-1 {hex}\r\n"),
        format!("pentarchy-key-1 {}\n", &hex[..62]),
        format!("pentarchy-key-1 {}zz\n", &hex[..62]),
        format!("pentarchy-key-2 {hex}\n"),
        format!("pentarchy-group-secret-1 {hex}\n"),
        format!("pentarchy-key-1 {}\n", "0".repeat(1 << 16)),
    ];
    for text in malformed {
        write(&path, text.as_bytes());
        let error = load_error(&path);
        assert!(
            matches!(error.problem, Problem::Malformed("pentarchy-key-1")),
            "{text:?}: {error}"
        );
        assert!(!error.to_string().contains("5a5a"), "the error shows the secret");
    }
    write(&path, b"pentarchy-key-1 \xff\xfe");
    assert!(matches!(load_error(&path).problem, Problem::Malformed(_)));

    write(&path, format!("pentarchy-key-1 {}", hex.to_uppercase()).as_bytes());
    assert_eq!(KeyPair::load(&path).unwrap().public(), KeyPair::from_seed([0x5a; 32]).public());
}
