//! `snapshot`: save, check, compare and restore states.

use super::args::{SnapshotArgs, SnapshotCommand};
use super::state::{State, WRITE_BYTES, newest};
use super::{look_into_states, print, save};
use pentarchy::KeyPair;
use pentarchy::config::{ClusterConfig, Durability};
use pentarchy::data::{DATA_FOLDER, DataFolder};
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_core::Bytes;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::tree::Tree;
use pentarchy_storage::backup::{self, Backup, BackupError, Described};
use pentarchy_storage::identity::Identity;
use pentarchy_storage::snapshots::{Snapshots, Walked};
use serde::Serialize;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

/// Differing sections that are named.
const NAMED_MAX: usize = 20;

/// Runs the command.
pub fn run(args: &SnapshotArgs) -> Outcome {
    match &args.command {
        SnapshotCommand::Save(args) => save::run(args),
        SnapshotCommand::Verify { path, json } => verify(path, *json),
        SnapshotCommand::Diff { left, right, json } => diff(left, right, *json),
        SnapshotCommand::Restore { backup, config, id, keys, data, json } => {
            let own = keys.join(DATA_FOLDER);
            let data = data.as_deref().unwrap_or(&own);
            let restoring = Restoring { config, id: *id, keys, data };
            restore(backup, &restoring, *json)
        }
    }
}

/// What is in a backup, or newest in a data folder.
pub fn load(path: &Path) -> Outcome<Backup> {
    if path.is_dir() {
        return newest(path);
    }
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    Backup::from_bytes(&Bytes::from(bytes))
        .map_err(|error| Failure::Unwell(format!("{}: {error}", path.display())))
}

/// Reads all of a backup, and says whether it is intact.
fn check(path: &Path) -> Outcome<Result<Described, BackupError>> {
    let checked = File::open(path).and_then(|file| {
        let size = file.metadata()?.len();
        backup::check(&mut BufReader::with_capacity(WRITE_BYTES, file), size)
    });
    checked.map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
}

/// What `verify` found.
#[derive(Serialize)]
struct Verified {
    whole: bool,
    states: Vec<State>,
    problems: Vec<String>,
}

fn verify(path: &Path, json: bool) -> Outcome {
    let (mut states, mut problems) = (Vec::new(), Vec::new());
    if path.is_dir() {
        let read = Snapshots::read(look_into_states(path)?, None);
        let (snapshots, damaged) = read.map_err(|error| Failure::Unwell(error.to_string()))?;
        problems.extend(damaged.iter().map(ToString::to_string));
        let identity = *snapshots.identity();
        for stored in snapshots.list() {
            match snapshots.check_whole(stored.slot) {
                Ok(Walked { sections, bytes, digest }) => {
                    let slot = stored.slot;
                    let described = Described { identity, slot, digest, sections, bytes };
                    states.push(State::of_described(&described));
                }
                Err(problem) => problems.push(problem.to_string()),
            }
        }
    } else {
        match check(path)? {
            Ok(described) => states.push(State::of_described(&described)),
            Err(problem) => problems.push(format!("{}: {problem}", path.display())),
        }
    }
    let verified = Verified { whole: problems.is_empty(), states, problems };
    print(json, &verified, || {
        let states = verified.states.iter().map(|state| format!("whole: {}", state.text()));
        let lines: Vec<String> = states.chain(verified.problems.iter().cloned()).collect();
        if lines.is_empty() { "no states".to_owned() } else { lines.join("\n") }
    });
    if verified.whole { Ok(()) } else { Err(Failure::NotWell) }
}

/// How two states differ.
#[derive(Serialize)]
struct Difference {
    equal: bool,
    left: State,
    right: State,
    /// Sections that differ, or are in one of them only.
    differing: usize,
    /// The first of those.
    named: Vec<String>,
}

fn diff(left: &Path, right: &Path, json: bool) -> Outcome {
    let (left, right) = (load(left)?, load(right)?);
    let (old, new) = (&left.snapshot.tree, &right.snapshot.tree);
    if old.sections() != new.sections() {
        let what = "these states are of different services: their numbers of sections differ";
        return Err(Failure::Unwell(what.to_owned()));
    }
    let changes = new.changes_since(old);
    let name = |section: u32| {
        let bytes = |tree: &Tree| tree.section(section).map_or(0, |leaf| leaf.len());
        format!("{}: {} and {} bytes", Executor::section_name(section), bytes(old), bytes(new))
    };
    let named = changes.iter().take(NAMED_MAX).map(|(section, _)| name(*section)).collect();
    let difference = Difference {
        equal: changes.is_empty(),
        left: State::of(&left.identity, &left.snapshot),
        right: State::of(&right.identity, &right.snapshot),
        differing: changes.len(),
        named,
    };
    print(json, &difference, || {
        let head = format!("left:  {}\nright: {}", difference.left.text(), difference.right.text());
        let more = difference.differing - difference.named.len();
        let sections = difference.named.iter().map(|name| format!("\n  {name}"));
        let sections: String = sections.collect();
        let rest = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        format!("{head}\n{} sections differ{sections}{rest}", difference.differing)
    });
    if difference.equal { Ok(()) } else { Err(Failure::NotWell) }
}

/// Which replica is to begin with a state.
struct Restoring<'a> {
    config: &'a Path,
    /// None if its keys tell, in a group that goes on.
    id: Option<u16>,
    keys: &'a Path,
    data: &'a Path,
}

fn restore(backup: &Path, to: &Restoring<'_>, json: bool) -> Outcome {
    let config = ClusterConfig::load_present(to.config)?;
    let membership = Arc::new(config.membership());
    let id = place(to, &membership)?;
    let backup = load(backup)?;
    let rescued = config.rescued_from();
    if backup.identity.group == membership.group && rescued.is_none() {
        return Err(Failure::Usage(
            "this backup is of the very group that is configured. A replica of it that lost its \
             folder starts with an empty one and fetches the state. A group that lost too many \
             goes on elsewhere: `pentarchy members rescue`; or another one begins with the state: \
             `pentarchy init`, then restore into that"
                .to_owned(),
        ));
    }
    let adopted = Executor::adopted(&backup.snapshot, membership)
        .map_err(|_| Failure::Unwell("this backup holds no state of a replica".to_owned()))?;
    let is_signed = |base: Base| (base.slot, base.state) == (adopted.slot, adopted.digest);
    if rescued.is_some_and(|base| !is_signed(base)) {
        return Err(Failure::Usage(
            "that is another state than the one from which administrators have this group go on: \
             take the file that was given to `pentarchy members rescue`"
                .to_owned(),
        ));
    }
    let folder = DataFolder::open(to.data).map_err(|error| Failure::Usage(error.to_string()))?;
    let begun = folder.begin_with(&config, id, to.keys, &adopted);
    begun.map_err(|error| Failure::Usage(error.to_string()))?;
    if config.durability != Durability::Sync {
        complain(
            "cluster.toml says durability other than \"sync\", with which a replica does not read \
             this folder: start it with --durability sync",
        );
    }
    let (group, replica) = (config.group, ReplicaId(id));
    let identity = Identity { group, replica, ..backup.identity };
    let state = State::of(&identity, &adopted);
    print(json, &state, || {
        let which = match rescued {
            None => "It is a new replica of a new group.".to_owned(),
            Some(_) => format!("It is a replica of configuration {}.", config.number()),
        };
        format!(
            "{}: replica {id} begins with the {}\n{which} Do the same for all others, with the \
             same backup, before the first one starts.",
            to.data.display(),
            state.text()
        )
    });
    Ok(())
}

/// Which replica it is.
fn place(to: &Restoring<'_>, membership: &Membership) -> Outcome<u16> {
    match to.id {
        Some(id) if usize::from(id) < membership.n() => Ok(id),
        Some(id) => {
            let last = membership.n() - 1;
            Err(Failure::Usage(format!("there is no replica {id}; the last is {last}")))
        }
        None => {
            let keys = KeyPair::load(&to.keys.join("key"));
            let keys = keys.map_err(|error| Failure::Usage(error.to_string()))?;
            let place = membership.member(&keys.client_id()).map(|ReplicaId(id)| id);
            place.ok_or_else(|| {
                let keys = to.keys.display();
                Failure::Usage(format!("the group has no member with the key in {keys}"))
            })
        }
    }
}
