//! `config convert`: a new group that begins with what a stopped one had kept, in a format that
//! this program does not go on from.
//!
//! Another wire version makes everything that was signed before worthless, and with it what the
//! logs prove. So only states are taken over. That of which more than `f` replicas have the same
//! has a correct replica behind it. It has all that was acknowledged if it is not before the
//! checkpoint with which `down` says that the group ended.

use super::backup;
use super::machines;
use clap::Args;
use pentarchy::config::{ClusterConfig, Durability, request_mode_name};
use pentarchy::data::{DATA_FOLDER, DataFolder};
use pentarchy::generate::{GroupOptions, NewCluster, administrator_key_name, gateway_key_name};
use pentarchy::protocols::replicas_needed;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::{self, Held};
use pentarchy_console::options::lane_options;
use pentarchy_console::{complain, say};
use pentarchy_core::configuration::Access;
use pentarchy_core::executor::Executor;
use pentarchy_core::limits::ADMINISTRATORS_MAX;
use pentarchy_core::membership::Base;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::backup::Backup;
use pentarchy_storage::folder::OsFolder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `config convert`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    pentarchy config convert old --out new\n  \
    pentarchy config convert old --out new --state newest.backup\n\n\
    Before: stop the whole group by `pentarchy down` with the program that it ran. FOLDER is the\n\
    one that `up` made. Where each replica is on a host of its own, or where the group ended\n\
    without a last checkpoint: start it with the program that it ran, run `pentarchy snapshot\n\
    save` at one replica while clients are stopped, stop all replicas, and name that file with\n\
    --state. FOLDER then needs cluster.toml only.\n\n\
    The new group has the same protocol, f, addresses and clients, keys of its own, and the\n\
    state, also which requests of which clients were executed. The old folder stays as it is.")]
pub struct ConvertArgs {
    /// The folder of the stopped group
    #[arg(value_name = "FOLDER")]
    from: PathBuf,
    /// Folder to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Begin with this backup instead of the state that more than f replicas have
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Administrators to make a key for
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u8).range(0..=i64::from(ADMINISTRATORS_MAX as u8)))]
    administrators: u8,
}

/// Runs the command.
pub fn run(args: &ConvertArgs) -> Outcome {
    let ConvertArgs { from, out, .. } = args;
    if out.exists() {
        return Err(Failure::Usage(format!("{} exists; name another folder", out.display())));
    }
    let old = ClusterConfig::load_present(&from.join("cluster.toml"))?;
    let was_up = match folder::running(from) {
        Ok(None) => true,
        Ok(Some(_)) => {
            let (from, down) = (from.display(), folder::option(from));
            let what = format!("the cluster in {from} runs; stop it first: pentarchy down{down}");
            return Err(Failure::Usage(what));
        }
        Err(Failure::Usage(_)) => false,
        Err(failure) => return Err(failure),
    };
    let snapshot = match &args.state {
        Some(path) => chosen(path, &old)?,
        None => last_of_all(from, &old)?,
    };
    let new = successor(&old, gateways(from), args.administrators.into())?;
    // As a whole or not at all: a group that began with a part of it would be another one.
    let beside = out.parent().filter(|path| !path.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new().prefix(".pentarchy-").tempdir_in(beside);
    let draft = draft.map_err(|error| {
        Failure::Usage(format!("cannot make a folder beside {}: {error}", out.display()))
    })?;
    write(&new, &snapshot, draft.path(), was_up)?;
    std::fs::rename(draft.path(), out)
        .map_err(|error| Failure::Usage(format!("cannot make {}: {error}", out.display())))?;
    let _ = draft.keep();
    report(args, &new.config, snapshot.slot.0, was_up);
    Ok(())
}

/// The state that somebody has chosen.
fn chosen(path: &Path, old: &ClusterConfig) -> Outcome<Snapshot> {
    let Backup { identity, snapshot } = backup::load(path)?;
    if identity.group != old.group {
        let group = hex::encode(identity.group.0);
        let what = format!("{} is of another group, {group}", path.display());
        return Err(Failure::Usage(what));
    }
    complain(&format!("what was acknowledged after slot {} is not in it", snapshot.slot.0));
    Ok(snapshot)
}

/// The newest state with which more than `f` replicas ended, if it has all that was acknowledged.
fn last_of_all(from: &Path, old: &ClusterConfig) -> Outcome<Snapshot> {
    let ended = folder::stopped(from).and_then(|stopped| stopped.slot).ok_or_else(|| {
        Failure::Unwell(format!(
            "nothing shows that the states in {} have all that was acknowledged: this group did \
             not end by `pentarchy down` with a checkpoint. {SAVE}",
            from.display()
        ))
    })?;
    let ends = ends(from, old)?;
    let enough = |(end, replicas): &(&End, &BTreeMap<u16, PathBuf>)| {
        end.0 >= ended && replicas.len() > old.f
    };
    let Some((end, replicas)) = ends.iter().rev().find(enough) else {
        let text = ends.iter().flat_map(|(end, replicas)| {
            replicas.values().map(move |data| format!("\n  {}: {}", data.display(), named(end)))
        });
        let (needed, text) = (old.f + 1, text.collect::<String>());
        return Err(Failure::Unwell(format!(
            "the group ended with a checkpoint at slot {ended}, and no {needed} replicas have the \
             same state from there on. {SAVE}{text}"
        )));
    };
    let data = replicas.values().next().map_or(from, PathBuf::as_path);
    let Backup { snapshot, .. } = backup::load(data)?;
    if (snapshot.slot.0, snapshot.digest.0) != *end {
        return Err(Failure::Unwell(format!("{} cannot be read any more", data.display())));
    }
    Ok(snapshot)
}

/// How whoever has no folder of all replicas that ended together goes on.
const SAVE: &str = "With the program that the group ran, start it without clients, run `pentarchy \
    snapshot save` at one replica, stop the group, and name that file with --state";

/// With what a replica's folder ends: slot and digest of a state.
type End = (u64, [u8; 32]);

/// With what the replicas' folders end, which nobody uses, and whose they are.
fn ends(from: &Path, old: &ClusterConfig) -> Outcome<BTreeMap<End, BTreeMap<u16, PathBuf>>> {
    let mut ends: BTreeMap<End, BTreeMap<u16, PathBuf>> = BTreeMap::new();
    let mut are_present = false;
    let all = machines::folders(from).into_iter().map(|(_, folder)| folder.join(DATA_FOLDER));
    for data in all.filter(|data| data.is_dir()) {
        if OsFolder::is_in_use(&data) {
            let what = "a replica uses this folder; stop the whole group first";
            return Err(Failure::Usage(format!("{}: {what}", data.display())));
        }
        if backup::has_log_of_this_format(&data) {
            complain(&format!("{} has this program's log, and does not count", data.display()));
            are_present = true;
            continue;
        }
        match backup::newest_end(&data) {
            Ok((identity, _)) if identity.group != old.group => {
                complain(&format!("{} is of another group, and does not count", data.display()));
            }
            Ok((identity, Base { slot, state })) => {
                let of = ends.entry((slot.0, state.0)).or_default();
                of.insert(identity.replica.0, data);
            }
            Err(failure) => complain(&format!("{failure}; it does not count")),
        }
    }
    if ends.is_empty() && are_present {
        return Err(Failure::Usage(format!(
            "{} has the formats of this program: start the group as it is",
            from.display()
        )));
    }
    Ok(ends)
}

fn named((slot, digest): &End) -> String {
    format!("the state of slot {slot}, {}", hex::encode(digest))
}

/// Gateways for which the old group had keys.
fn gateways(from: &Path) -> usize {
    (1..).take_while(|number| from.join(gateway_key_name(*number)).exists()).count().max(1)
}

/// A group as the old one, with keys of its own.
fn successor(old: &ClusterConfig, gateways: usize, administrators: usize) -> Outcome<NewCluster> {
    let options = GroupOptions {
        protocol: old.protocol.clone(),
        f: old.f,
        lane: old.lane,
        request_auth: old.request_auth,
        // Only so do replicas begin with what is in a folder.
        durability: Durability::Sync,
        counter: old.counter,
        timeouts: old.timeouts,
        closed: old.access != Access::Open,
        gateways,
        administrators,
    };
    // A group that has changed may have more members than one begins with.
    let needed = replicas_needed(&old.protocol, old.f).unwrap_or(old.replicas.len());
    let addresses = old.replicas.iter().map(|replica| replica.address.clone());
    let left_out: Vec<String> = addresses.clone().skip(needed).collect();
    if !left_out.is_empty() {
        let what = "the new group begins without these members, which can join it later";
        complain(&format!("{what}: {}", left_out.join(", ")));
    }
    let mut new = NewCluster::generate(&addresses.take(needed).collect::<Vec<_>>(), &options);
    new.config.log_mib = old.log_mib;
    if let (Access::Only(made), Access::Only(listed)) = (&new.config.access, &old.access) {
        new.config.access = Access::only(made.iter().chain(listed).copied().collect::<Vec<_>>());
    }
    let checked = new.config.configuration().check();
    checked.map_err(|error| Failure::Usage(format!("the new group cannot be: {error}")))?;
    Ok(new)
}

/// Writes the new group's files, and the state into each replica's folder.
fn write(new: &NewCluster, state: &Snapshot, out: &Path, was_up: bool) -> Outcome {
    // `up` takes no folder that it did not mark.
    let _held = was_up.then(|| Held::take(out)).transpose()?;
    new.write(out)?;
    let adopted = Executor::adopted(state, Arc::new(new.config.membership()))
        .map_err(|_| Failure::Unwell("this is no state of a replica".to_owned()))?;
    for id in 0..new.config.replicas.len() {
        let keys = out.join(format!("replica-{id}"));
        let folder = DataFolder::open(&keys.join(DATA_FOLDER));
        let begun = folder.and_then(|it| it.begin_with(&new.config, id as u16, &keys, &adopted));
        begun.map_err(|error| Failure::Internal(error.to_string()))?;
    }
    Ok(())
}

fn report(args: &ConvertArgs, config: &ClusterConfig, slot: u64, was_up: bool) {
    let (from, out) = (args.from.display(), args.out.display());
    say(&format!("{out} has a new group that goes on from {from}, with its state of slot {slot}."));
    if was_up {
        let ClusterConfig { protocol, f, counter, .. } = config;
        say(&format!(
            "Start it: pentarchy up --data {out} --protocol {protocol} --f {f}{} --request-auth {} \
             --counter {} --durability sync",
            lane_options(config.lane),
            request_mode_name(config.request_auth),
            counter.name()
        ));
    } else {
        say("Copy cluster.toml and one folder to each host, and start there, as after `init`.");
        say("Clients and gateways need the new cluster.toml. Listed clients keep their keys.");
        for key in (1..=usize::from(args.administrators)).map(administrator_key_name) {
            say(&format!(
                "Keep {out}/{key} away from these hosts: its owner can change the group."
            ));
        }
    }
    say(&format!("Keep {from} until you have looked at what the new group answers."));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_with_more_members_than_it_needs_begins_anew_with_as_many_as_it_needs() {
        let addresses = ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"].map(str::to_owned);
        let mut old = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let mut more = old.replicas[2].clone();
        more.address = "127.0.0.1:7003".to_owned();
        old.replicas.push(more);
        let new = successor(&old, 1, 1).expect("a group").config;
        let kept: Vec<&str> = new.replicas.iter().map(|it| it.address.as_str()).collect();
        assert_eq!(kept, addresses);
        ClusterConfig::parse(Path::new("cluster.toml"), &new.render())
            .expect("what is written can be read");
    }
}
