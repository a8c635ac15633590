//! `snapshot save`: a state in one file, and the word up to where it goes.

use super::super::barrier::{Barrier, Head};
use super::super::service;
use super::args::SaveArgs;
use super::offline::{self, Replayed};
use super::state::{State, WRITE_BYTES, newest, retried};
use super::{has_only_states, print};
use pentarchy::config::ClusterConfig;
use pentarchy::files::{write_whole, write_whole_with};
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::status;
use pentarchy_core::configuration::Access;
use pentarchy_core::ids::{Millis, Slot};
use pentarchy_core::membership::Base;
use pentarchy_storage::backup::{self, Backup};
use pentarchy_storage::disk::Folder;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::kept::Newest;
use serde::Serialize;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a group may take until it has ordered the request before which everything lies.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// How long it may take until a checkpoint behind that is in the folder and proven.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(60);

/// What a backup has.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Extent {
    /// All that was acknowledged before the command began.
    Acknowledged,
    /// All that the folder proves to be decided.
    Folder,
    /// That, and what the replica executed before it was decided.
    Speculated,
    /// The last checkpoint in the folder.
    Checkpoint,
}

impl Extent {
    const fn text(self) -> &'static str {
        match self {
            Self::Acknowledged => {
                "It has everything that was acknowledged before this command began, and f + 1 \
                 replicas vouch for it."
            }
            Self::Folder => {
                "It has everything that this replica's folder proves to be decided. That is mostly \
                 less than was acknowledged, with some protocols nothing behind its last \
                 checkpoint: if the group can run, start it, and save then. Otherwise save at each \
                 replica, and take the highest slot."
            }
            Self::Speculated => {
                "It has everything that this replica's folder proves to be decided, and after that \
                 what the replica only speculated: clients may have been told of it, and other \
                 replicas may have ordered it differently. A higher slot proves nothing. Save at \
                 each of them, compare with `pentarchy snapshot diff`, and take the state that \
                 most of them have."
            }
            Self::Checkpoint => {
                "It is the last checkpoint in this replica's folder. What was acknowledged after \
                 that slot is MISSING, and no other replica was asked."
            }
        }
    }
}

/// What was saved.
#[derive(Serialize)]
struct Saved {
    #[serde(flatten)]
    state: State,
    /// The group's time after the last slot, in UTC.
    time: Option<String>,
    has: Extent,
    /// The last slot that is decided, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<u64>,
}

/// Runs the command.
pub fn run(args: &SaveArgs) -> Outcome {
    let SaveArgs { data, out, json, .. } = args;
    if out.exists() {
        return Err(Failure::Usage(format!("{} exists; name another file", out.display())));
    }
    if !data.is_dir() {
        return Err(Failure::Usage(format!("there is no folder {}", data.display())));
    }
    let mut has = match configuration(args)? {
        _ if args.last_checkpoint => Extent::Checkpoint,
        Some(_) if OsFolder::is_in_use(data) => Extent::Acknowledged,
        Some(_) => Extent::Folder,
        None => {
            return Err(Failure::Usage(format!(
                "what was acknowledged last is not in {}'s last checkpoint: name the group's \
                 configuration with --config, or leave it out with --last-checkpoint",
                data.display()
            )));
        }
    };
    let mut decided = None;
    let (state, time) = match (has, configuration(args)?) {
        (Extent::Acknowledged, Some(config)) => save_acknowledged(args, &config)?,
        (Extent::Folder, Some(config)) => match save_folder(args, &config) {
            Ok((state, time, slot)) => {
                decided = Some(slot.0).filter(|slot| *slot < state.slot());
                has = decided.map_or(has, |_| Extent::Speculated);
                (state, time)
            }
            Err(error) => {
                complain(&format!("{error}; saving the last checkpoint alone"));
                has = Extent::Checkpoint;
                save_newest(args, |_, _| true)?
            }
        },
        _ => save_newest(args, |_, _| true)?,
    };
    let saved = Saved { state, time: time.map(utc), has, decided };
    print(*json, &saved, || {
        let time = saved.time.as_deref().unwrap_or("unknown");
        let decided = decided.map(|slot| format!(" It is decided up to slot {slot}."));
        format!(
            "{}: {}\nIt goes up to slot {}, at the group's time {time}.{} {}",
            out.display(),
            saved.state.text(),
            saved.state.slot(),
            decided.unwrap_or_default(),
            has.text()
        )
    });
    Ok(())
}

/// The group's configuration: the one that is named, or the one beside the replica's keys.
fn configuration(args: &SaveArgs) -> Outcome<Option<ClusterConfig>> {
    let near = || -> Option<PathBuf> {
        let data = args.data.canonicalize().ok()?;
        let path = data.parent()?.parent()?.join("cluster.toml");
        path.exists().then_some(path)
    };
    let path = args.config.clone().or_else(near);
    Ok(path.map(|path| ClusterConfig::load(&path)).transpose()?)
}

/// Has the group order a request, and saves a checkpoint behind it that the group vouches for.
fn save_acknowledged(args: &SaveArgs, config: &ClusterConfig) -> Outcome<(State, Option<Millis>)> {
    if matches!(config.access, Access::Only(_)) && args.key.is_none() {
        return Err(Failure::Usage(
            "this group admits listed clients only: name the key of one with --key".to_owned(),
        ));
    }
    let key = args.key.as_deref();
    let config = status::present(config.clone(), key)?;
    let barrier = Barrier::draw(&config, key, ANSWER_LIMIT).map_err(|error| {
        Failure::Unwell(format!(
            "{error}. Look at `pentarchy status`; to save what the folder has, stop the replica, \
             or use --last-checkpoint"
        ))
    })?;
    let deadline = Instant::now() + CHECKPOINT_LIMIT;
    barrier.watching(|seen| {
        let mut looked_at = 0;
        while Instant::now() < deadline {
            seen.stand()?;
            barrier.order(ANSWER_LIMIT)?;
            if seen.proven() <= looked_at {
                continue;
            }
            looked_at = seen.proven();
            let is_it = |state: Base, head: &Head| {
                barrier.is_in(head) && seen.prove(state.slot, state.state)
            };
            match save_newest(args, is_it) {
                Err(Failure::Unwell(_)) => {}
                done => return done,
            }
        }
        let seconds = CHECKPOINT_LIMIT.as_secs();
        Err(Failure::Unwell(format!(
            "within {seconds} s this folder got no checkpoint that has everything and for which \
             f + 1 replicas vouch; has this replica caught up? See: pentarchy status"
        )))
    })
}

/// Saves the newest state in the folder, if it is one that is wanted.
fn save_newest(
    args: &SaveArgs,
    is_wanted: impl Fn(Base, &Head) -> bool,
) -> Outcome<(State, Option<Millis>)> {
    if has_only_states(&args.data) {
        let Backup { identity, snapshot } = newest(&args.data)?;
        let head = Head::of_tree(&snapshot.tree);
        if !is_wanted(Base { slot: snapshot.slot, state: snapshot.digest }, &head) {
            return Err(Failure::Unwell("the state in the folder is another one".to_owned()));
        }
        let state = State::of(&identity, &snapshot);
        write_whole(&args.out, 0o600, &Backup { identity, snapshot }.to_bytes())?;
        return Ok((state, head.time()));
    }
    retried(&args.data, |files: Box<dyn Folder>, log| {
        let newest = match Newest::find(files, log) {
            Ok(Some(newest)) => newest,
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let time = match Head::of(&newest) {
            Ok(head) if is_wanted(newest.state, &head) => head.time(),
            Ok(_) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let written = write(&args.out, |file| backup::write(&newest, file))?;
        Ok(written.map(|described| Some((State::of_described(&described), time))))
    })
}

/// Writes a file that only its owner can read, as a whole or not at all. The inner error is about
/// what was to be read.
fn write<T>(
    out: &Path,
    act: impl FnOnce(&mut dyn io::Write) -> Result<T, StorageError>,
) -> Outcome<Result<T, StorageError>> {
    let mut written = None;
    let whole = write_whole_with(out, 0o600, |file| {
        let mut file = BufWriter::with_capacity(WRITE_BYTES, file);
        written = Some(act(&mut file));
        let done = matches!(written, Some(Ok(_)));
        if done { file.flush() } else { Err(io::Error::other("see what is wrong with it")) }
    });
    match written {
        Some(Err(StorageError::Disk(error))) if error.operation == "write" => {
            Err(Failure::Usage(format!("{}: {error}", out.display())))
        }
        // It cannot be read any more.
        Some(Err(error)) => Ok(Err(error)),
        Some(Ok(done)) => Ok(whole.map(|()| Ok(done))?),
        None => Err(Failure::Internal(format!("{} was not written", out.display()))),
    }
}

/// Saves all that a replica that has stopped has. Gives the last slot of it that is decided, too.
fn save_folder(args: &SaveArgs, config: &ClusterConfig) -> Outcome<(State, Option<Millis>, Slot)> {
    if has_only_states(&args.data) {
        let data = args.data.display();
        return Err(Failure::Unwell(format!(
            "{data} has no log, as with durability `async`: what was acknowledged after its last \
             checkpoint is not there"
        )));
    }
    let beside = args.out.parent().filter(|path| !path.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let service = service::new(args.service, beside)?;
    let Replayed { backup, decided } = offline::replayed(&args.data, config, service, beside)?;
    let Backup { identity, snapshot } = &backup;
    let (state, time) = (State::of(identity, snapshot), Head::of_tree(&snapshot.tree).time());
    write_whole(&args.out, 0o600, &backup.to_bytes())?;
    Ok((state, time, decided))
}

/// A moment in words.
pub fn utc(Millis(millis): Millis) -> String {
    let seconds = millis / 1_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years: the algorithm of Howard Hinnant.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        let known = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_798_761_599_999, "2026-12-31 23:59:59 UTC"),
        ];
        for (millis, words) in known {
            assert_eq!(utc(Millis(millis)), words);
        }
    }
}
