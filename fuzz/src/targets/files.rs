//! Files that an operator hands in: the first byte says which. What is read is what is written
//! again, and nothing else is accepted in its place.

use crate::input::Input;
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::generate::{GroupOptions, NewCluster};
use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_trusted::DeviceIdentity;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

thread_local! {
    /// A folder in memory where there is one.
    static FOLDER: TempDir = {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        made.expect("a folder for a file")
    };
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let kind = input.u8();
    let bytes = input.rest();
    match kind % 4 {
        0 => with_file(bytes, |path, copy| {
            let Ok(keys) = KeyPair::load(path) else { return };
            keys.save(copy).expect("a new file");
            assert_eq!(KeyPair::load(copy).map(|keys| keys.public()).ok(), Some(keys.public()));
            same_line(bytes, copy);
        }),
        1 => with_file(bytes, |path, copy| {
            let Ok(secret) = GroupSecret::load(path) else { return };
            secret.save(copy).expect("a new file");
            same_line(bytes, copy);
        }),
        2 => with_file(bytes, |path, _| {
            if DeviceIdentity::describe(path).is_ok() {
                assert!(bytes.starts_with(b"pentarchy-device-1 "));
            }
        }),
        _ => config(bytes),
    }
}

fn with_file(bytes: &[u8], look: impl FnOnce(&Path, &Path)) {
    FOLDER.with(|folder| {
        let at = |name: &str| -> PathBuf { folder.path().join(name) };
        let (path, copy) = (at("file"), at("copy"));
        fs::write(&path, bytes).expect("a folder of ours");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a file of ours");
        look(&path, &copy);
        // It is there only if the first one could be read.
        let _ = fs::remove_file(&copy);
    });
}

/// Digits of either case and a missing end of line are all that may differ.
fn same_line(bytes: &[u8], copy: &Path) {
    let written = fs::read(copy).expect("it was just written");
    let written = written.strip_suffix(b"\n").unwrap_or(&written);
    assert!(bytes.strip_suffix(b"\n").unwrap_or(bytes).eq_ignore_ascii_case(written));
}

fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("cluster.toml");
    match ClusterConfig::parse(path, text) {
        Ok(config) => {
            let again = ClusterConfig::parse(path, &config.render());
            assert_eq!(again.map_err(|error| error.to_string()), Ok(config));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let hex = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let device = format!("pentarchy-device-1 123 {hex}\n");
    let mut seeds = vec![
        format!("\0pentarchy-key-1 {hex}\n").into_bytes(),
        format!("\x01pentarchy-group-secret-1 {hex}\n").into_bytes(),
        format!("\x02{device}").into_bytes(),
        b"\x02pentarchy-device-1 18446744073709551615 mac".to_vec(),
    ];
    seeds.extend([true, false].map(|closed| config_seed(closed).into_bytes()));
    seeds
}

/// A fixed configuration: keys of a new one would differ each time.
fn config_seed(closed: bool) -> String {
    let addresses: Vec<String> = (1..=3).map(|port| format!("127.0.0.1:{port}")).collect();
    let options = GroupOptions { closed, ..GroupOptions::default() };
    let mut config = NewCluster::generate(&addresses, &options).config;
    config.group.0 = [7; 16];
    for (id, replica) in (1..).zip(&mut config.replicas) {
        replica.key = KeyPair::from_seed([id; 32]).public();
        replica.incarnation.0 = u64::from(id);
    }
    if closed {
        config.access =
            pentarchy_core::configuration::Access::only([KeyPair::from_seed([9; 32]).client_id()]);
    }
    format!("\x03{}", config.render())
}
