//! The machines of a cluster that `up` started, each with a folder of its own: those with which the
//! group began, and those that `members` had it start since.

use pentarchy::KeyPair;
use pentarchy::card::{BadCard, Card, address_in};
use pentarchy::chain_file;
use pentarchy::config::ClusterConfig;
use pentarchy::following::Follower;
use pentarchy::generate::NewMember;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::identity;
use std::path::{Path, PathBuf};

/// A machine, and how its replica is started.
pub struct Machine {
    pub folder: PathBuf,
    pub number: u16,
    /// `host:port`
    pub address: String,
    /// It joined the group, or is to.
    pub joins: bool,
}

impl Machine {
    /// The machine with which the group began that has this number there.
    pub fn first(root: &Path, number: u16, address: &str) -> Self {
        let (folder, address) = (folder(root, number), address.to_owned());
        Self { folder, number, address, joins: false }
    }

    /// Makes the keys of another one, with the next number, and writes beside `cluster.toml` where
    /// the group is now: the new machine may find nobody at the addresses in that file any more.
    pub fn new(root: &Path, address: &str) -> Outcome<Self> {
        let config = root.join("cluster.toml");
        let present = present(root)?;
        if present.number() > 0 {
            present.write_chain(&chain_file::beside(&config))?;
        }
        let number = folders(root).last().map_or(0, |(number, _)| number + 1);
        let new = NewMember::generate(present.group, address)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        let folder = folder(root, number);
        new.write(&folder)?;
        Ok(Self { folder, number, address: address.to_owned(), joins: true })
    }

    /// The machines of a group that began as the first of these and is now as the last.
    pub fn all(root: &Path, first: &ClusterConfig, last: &ClusterConfig) -> Vec<Self> {
        let of = |(number, folder): (u16, PathBuf)| {
            let key = identity(&folder)?;
            last.replicas.iter().find(|replica| replica.key == key)?;
            match first.replicas.iter().find(|replica| replica.key == key) {
                Some(replica) => Some(Self::first(root, number, &replica.address)),
                None => {
                    let address = own_address(&folder).ok()?;
                    Some(Self { folder, number, address, joins: true })
                }
            }
        };
        folders(root).into_iter().filter_map(of).collect()
    }

    /// What `up` calls its replica.
    pub fn name(&self) -> String {
        format!("replica {}", self.number)
    }
}

/// The group in a folder as its replicas know it; as the folder says, if none answers in time.
pub fn present(root: &Path) -> Outcome<ClusterConfig> {
    let config = ClusterConfig::load_present(&root.join("cluster.toml"))?;
    let key = KeyPair::load(&root.join("client.key"));
    let key = key.map_err(|error| Failure::Usage(error.to_string()))?;
    let present = Follower::new(config, key).and_then(Follower::present);
    present.map_err(|error| Failure::Internal(error.to_string()))
}

/// The folders of all machines that there have been, by their numbers.
pub fn folders(root: &Path) -> Vec<(u16, PathBuf)> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("replica-")?.parse().ok()?;
        Some((number, entry.path()))
    });
    let mut all: Vec<_> = numbered.collect();
    all.sort();
    all
}

fn folder(root: &Path, number: u16) -> PathBuf {
    root.join(format!("replica-{number}"))
}

/// Reads a card.
pub fn read_card(path: &Path) -> Outcome<Card> {
    text_of(path)?.parse::<Card>().map_err(|error| bad(path, &error))
}

/// Where the machine with this folder of keys is, as its own card says, also if an earlier version
/// of this program wrote that.
pub fn own_address(keys: &Path) -> Outcome<String> {
    let path = keys.join("card");
    let text = text_of(&path)?;
    address_in(&text).map(str::to_owned).map_err(|error| bad(&path, &error))
}

fn text_of(card: &Path) -> Outcome<String> {
    std::fs::read_to_string(card).map_err(|error| {
        Failure::Usage(format!("cannot read the card {}: {error}", card.display()))
    })
}

fn bad(card: &Path, error: &BadCard) -> Failure {
    Failure::Usage(format!("{}: {error}", card.display()))
}
