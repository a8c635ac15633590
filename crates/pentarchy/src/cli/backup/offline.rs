//! What a replica that has stopped had executed: the newest state in its folder, and behind that
//! what its log proves to be decided, or that the replica speculated.
//!
//! The core is started with the records of a copy of the folder, as after a crash, and says what is
//! to be executed. What it had said before, it hears again, as after a crash. Nothing
//! leaves here and nothing is certified, so no device is needed: the promises in the folder
//! stay whose they were.

use pentarchy::Service;
use pentarchy::config::ClusterConfig;
use pentarchy::data::{DataError, DataFolder, identity_of};
use pentarchy::protocols;
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Unchecked};
use pentarchy_core::counter::{Certificate, Instance, Position, TrustedMac, Ui};
use pentarchy_core::erased::{CoreEffect, CoreEvent, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Incarnation, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_core::protocol::{Memory, Setup, To};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_io::clock::wall_micros;
use pentarchy_replica::Storage;
use pentarchy_storage::backup::Backup;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::kept::{CHAIN, LOG, Past, SNAPSHOTS};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What is copied: folders of files.
const COPIED: [&str; 3] = [LOG, SNAPSHOTS, CHAIN];

/// Small files of the folder that are read where they are.
const LINKED: [&str; 2] = ["device", "protocol"];

/// A log does not say of which service it is.
const NO_STATE: &str = "warning: the folder has no checkpoint, so nothing shows which service ran; \
    if it was not the Redis gateway's store, name it with --service";

/// Its speculation was open then, and no core goes on with it in the view that it wants to enter.
const LEFT: &str = "the replica had left its view, and was in no other, when it stopped: its log \
    does not show what of its speculation stands";

/// What a replica that has stopped had executed.
pub struct Replayed {
    pub backup: Backup,
    /// The last slot that its folder proves to be decided. What it executed behind that it
    /// speculated.
    pub decided: Slot,
}

/// The state after the last slot that the replica had executed, as its folder shows. `scratch` is
/// where the folder is copied to; nothing of it is left there.
pub fn replayed(
    data: &Path,
    config: &ClusterConfig,
    service: Box<dyn Service>,
    scratch: &Path,
) -> Outcome<Replayed> {
    let cannot = |error: io::Error| {
        Failure::Usage(format!("cannot copy {} to look at it: {error}", data.display()))
    };
    // Nobody starts the replica while it is copied.
    let held = OsFolder::open(data).map_err(|error| Failure::Usage(error.to_string()))?;
    let copy = tempfile::Builder::new().prefix(".pentarchy-").tempdir_in(scratch);
    let copy = copy.map_err(cannot)?;
    copy_folder(data, copy.path()).map_err(cannot)?;
    drop(held);
    let (member, past) = open(copy.path(), config)?;
    let left = || Failure::Unwell("the replica was no member any more when it stopped".to_owned());
    let me = past.membership.index_of(member).ok_or_else(left)?;
    let identity = identity_of(past.membership.group, &past.membership.members[usize::from(me.0)]);
    let (snapshot, decided) = execute(me, past, config, service)?;
    Ok(Replayed { backup: Backup { identity, snapshot }, decided })
}

fn copy_folder(data: &Path, copy: &Path) -> io::Result<()> {
    for name in COPIED.into_iter().filter(|name| data.join(name).exists()) {
        std::fs::create_dir(copy.join(name))?;
        for entry in std::fs::read_dir(data.join(name))? {
            let entry = entry?;
            std::fs::copy(entry.path(), copy.join(name).join(entry.file_name()))?;
        }
    }
    let data = data.canonicalize()?;
    for name in LINKED.into_iter().filter(|name| data.join(name).exists()) {
        std::os::unix::fs::symlink(data.join(name), copy.join(name))?;
    }
    Ok(())
}

/// What a replica kept, and which member it is: its files say so, and nothing else has to. A member
/// that joined is none of those with which the group began. If nobody can read the files, the error
/// is that of the replica that owns them.
fn open(copy: &Path, config: &ClusterConfig) -> Outcome<(MemberId, Past)> {
    let folder = || DataFolder::open(copy).map_err(|error| Failure::Usage(error.to_string()));
    let known = folder()?.known(config).map_err(|error| Failure::Usage(error.to_string()))?;
    let (mut problem, mut of_another) = (None, None);
    let places = |config: &ClusterConfig| -> Vec<(u16, MemberId)> {
        (0..).zip(config.membership().members.iter().map(|member| member.id)).collect()
    };
    let all = [config, &known].map(|it| places(it).into_iter().map(move |place| (it, place)));
    for (config, (place, member)) in all.into_iter().flatten() {
        match folder()?.take(config, place, copy) {
            Ok((_, Storage { past: Some(past), .. })) => return Ok((member, past)),
            Ok(_) => problem = problem.or(Some("it has no log".to_owned())),
            Err(DataError::Storage { problem: error @ StorageError::Foreign { .. }, .. }) => {
                of_another = Some(error.to_string());
            }
            Err(error) => problem = problem.or(Some(error.to_string())),
        }
    }
    Err(Failure::Unwell(problem.or(of_another).unwrap_or_default()))
}

/// Starts a core with what was kept, and executes what it decides from that. Gives the state and
/// the last slot that is decided.
fn execute(
    me: ReplicaId,
    past: Past,
    config: &ClusterConfig,
    service: Box<dyn Service>,
) -> Outcome<(Snapshot, Slot)> {
    let unfit = |what: &str| Failure::Unwell(format!("the log cannot be executed: {what}"));
    let membership = past.membership.clone();
    let incarnation = membership.members[usize::from(me.0)].incarnation;
    let entry = membership.stated.as_deref().and_then(protocols::of);
    let entry = entry.ok_or_else(|| unfit("this program does not have the protocol"))?;
    let memory = past.memory();
    if let Memory::Durable { records, .. } = &memory {
        (entry.check_records)(records).map_err(|error| unfit(&error.to_string()))?;
    }
    let mut executor = Executor::new(membership.clone(), service);
    if !past.is_whole() {
        return Err(unfit("the replica had not fetched the state with which its epoch begins"));
    }
    match past.snapshots.last().cloned() {
        Some(newest) => {
            let other = "its state is of another service; name the one that ran with --service";
            executor.install(newest).map_err(|_| unfit(other))?;
        }
        None => complain(NO_STATE),
    }
    let setup = Setup { me, membership, fetch: None, memory, tuning: config.tuning };
    let mut effects = Vec::new();
    let core = (entry.start)(setup, &mut effects);
    let committed = BTreeMap::new();
    let speculates = entry.rules.speculative;
    Player { me, incarnation, committed, core, executor, speculates }.play(effects)
}

/// Carries out what a core decides, and has it hear what it had said.
struct Player {
    me: ReplicaId,
    incarnation: Incarnation,
    /// The last commitment of each counter that was heard again.
    committed: BTreeMap<Instance, Position>,
    core: Box<dyn ReplicaCore>,
    executor: Executor,
    speculates: bool,
}

impl Player {
    fn play(mut self, mut effects: Vec<CoreEffect>) -> Outcome<(Snapshot, Slot)> {
        // A replica takes up no proposal whose time lies in its future.
        let now = Input::Round { now: Millis(wall_micros() / 1000) };
        self.core.step(CoreEvent::Input(now), &mut effects);
        while !effects.is_empty() {
            let mut next = Vec::new();
            for effect in effects.drain(..) {
                match effect {
                    CoreEffect::Output(output) => self.carry_out(output, &mut next),
                    CoreEffect::Relay { to, wire, .. } if self.is_told(to) => {
                        self.hear(&wire, &mut next);
                    }
                    CoreEffect::Send { to, outgoing } if self.is_told(to) => {
                        let tag = self.tag(&outgoing.auth);
                        let (_, incoming) = self.core.seal(&outgoing, tag);
                        self.core.step(CoreEvent::Message(incoming), &mut next);
                    }
                    _ => {}
                }
            }
            effects = next;
            if let Some(failure) = self.executor.failure() {
                return Err(Failure::Unwell(failure));
            }
        }
        if self.speculates && self.core.status().phase != "normal" {
            return Err(Failure::Unwell(LEFT.to_owned()));
        }
        // Clients may have been told of what might have been taken back.
        let decided = self.executor.committed();
        self.executor.commit(self.executor.executed(), |_, _| {});
        self.executor.checkpoint();
        let latest = self.executor.latest().cloned();
        let gone = || Failure::Internal("a checkpoint was taken and is gone".to_owned());
        Ok((latest.ok_or_else(gone)?, decided))
    }

    fn is_told(&self, to: To) -> bool {
        match to {
            To::All => true,
            To::Others => false,
            To::One(id) => id == self.me,
            To::Set(set) => set.contains(self.me),
        }
    }

    /// In the place of the tag that was made when this was said, or would be: nobody else sees it.
    fn tag(&mut self, auth: &Auth) -> AuthTag {
        match *auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum([0; 8])),
            Auth::Signature => AuthTag::Signature([0; 64]),
            Auth::Mac(_) => AuthTag::Mac(TrustedMac([0; 32])),
            Auth::Vector => AuthTag::Vector(MacVector::default()),
            Auth::Usig(instance, position) => {
                let committed = self.committed.entry(instance).or_default();
                let before = *committed;
                if position.index >= Position::COMMITMENT {
                    *committed = position.max(before);
                }
                let (incarnation, certificate) = (self.incarnation, Certificate::Mac([0; 32]));
                let committed = before;
                AuthTag::Usig(Ui { incarnation, instance, position, committed, certificate })
            }
        }
    }

    fn hear(&mut self, wire: &Bytes, effects: &mut Vec<CoreEffect>) {
        // What it does not take it would not have taken after a crash either.
        // Checked before it was kept, and the log's own checks are over every byte.
        if let Ok(incoming) = self.core.open(&Unchecked, self.me, wire) {
            self.core.step(CoreEvent::Message(incoming), effects);
        }
    }

    fn carry_out(&mut self, output: Output, effects: &mut Vec<CoreEffect>) {
        if self.executor.is_ending() {
            return;
        }
        match output {
            Output::Execute { slot, batch } => self.executor.execute(slot, &batch, |_, _| {}),
            Output::Speculation(output) => self.speculate(output),
            Output::Checkpoint { slot } => {
                let state = self.executor.checkpoint();
                let input = Input::Checkpointed { slot, state };
                self.core.step(CoreEvent::Input(input), effects);
            }
            _ => {}
        }
    }

    fn speculate(&mut self, output: speculation::Output) {
        use speculation::Output;
        match output {
            Output::Speculate { slot, batch, view, history, .. } => {
                self.executor.speculate(Place { view, slot, history }, &batch, false, |_, _| {});
            }
            Output::Commit { upto } => self.executor.commit(upto, |_, _| {}),
            Output::Rollback { after } => self.executor.rollback(after),
            Output::Answer { .. } | Output::Restate { .. } | Output::Tell { .. } => {}
        }
    }
}
