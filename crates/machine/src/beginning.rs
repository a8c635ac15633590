//! What a replica begins with: the group's first state, or what it had kept when it stopped.

use crate::epochs::{Parts, Starting};
use crate::factory::{EpochFactory, Started};
use crate::store::{Disk, ObservedStore, StateCache};
use pentarchy_core::counter::{Refused, Usig};
use pentarchy_core::epochs::{Epochs, Proof};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{MemberId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{BadRecord, Memory};
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::kept::{Certificates, DurableStore, Past};
use std::fmt;
use std::sync::Arc;
use tracing::{info, warn};

/// Why a replica cannot begin.
#[derive(Debug)]
pub enum BeginError {
    /// The log holds what the protocol's core did not write.
    Record(BadRecord),
    /// The device does not repeat what the log says that it certified.
    Device(Refused),
    /// The service cannot be brought to the newest state in the data folder; what it says of that.
    Service(String),
    /// The newest state in the data folder cannot be restored.
    State(Slot),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(bad) => write!(f, "{bad}. Start the program that wrote it"),
            Self::Device(refused) => {
                write!(
                    f,
                    "the trusted device does not resume at the position in the log: {refused}"
                )
            }
            Self::Service(failure) => write!(f, "the service cannot be started: {failure}"),
            Self::State(slot) => write!(
                f,
                "the state at {slot} in the data folder is another service's, or of another \
                 version of it: start the program that wrote it, with the same --service"
            ),
        }
    }
}

impl std::error::Error for BeginError {}

/// What a replica keeps, and what is there when it begins.
pub enum Kept<D> {
    /// It keeps nothing.
    Nothing,
    /// States for its next incarnation: the cache, and the newest state of an earlier one.
    States(Box<dyn StateCache>, Option<Snapshot>),
    /// What it says. What was in its folder; none if that is new, and this incarnation of the
    /// device has certified nothing.
    Log(D, Option<Box<Past>>),
}

/// What decides it.
pub struct Beginning<'a> {
    /// Which member this is.
    pub me: MemberId,
    /// Of its trusted device.
    pub life: Life,
    /// The group as it began, or as it was when this replica joined it.
    pub membership: Arc<Membership>,
    /// How its configurations had ended by then, from the first one on. A replica that joins lacks
    /// the state with which its epoch begins.
    pub links: Vec<Proof>,
    /// The state to which its service was brought before it was a member, if it was.
    pub learned: Option<&'a Snapshot>,
    /// What makes the cores.
    pub factory: &'a mut dyn EpochFactory,
    /// Its trusted counters.
    pub counters: &'a mut Vec<Box<dyn Usig>>,
    /// Whether its core is in parts.
    pub is_split: bool,
}

/// The parts that depend on it.
pub struct Begun<D> {
    /// The epochs, from the present one on.
    pub following: Epochs,
    /// What executes.
    pub executor: Executor,
    /// The core.
    pub core: Started,
    /// Those for threads of their own.
    pub pillar_cores: Vec<Started>,
    /// What it keeps across a crash, if anything.
    pub store: Option<ObservedStore<D>>,
    /// What it keeps for its next incarnation, if that is all.
    pub cache: Option<Box<dyn StateCache>>,
    /// What the pillars' cores had certified before this process began.
    pub certified: Certificates,
    /// It goes on from what was kept.
    pub resumes: bool,
}

impl<D> Begun<D> {
    /// Takes a state of an earlier incarnation for what it is: something from which the group's
    /// state differs little. Only a replica that waits to be admitted has use for it.
    fn remind(&mut self, newest: Option<Snapshot>) {
        let Some(newest) = newest.filter(|_| !self.following.is_admitted()) else { return };
        let slot = newest.slot;
        match self.executor.install(newest) {
            Ok(_) => info!(%slot, "found the state of an earlier incarnation"),
            Err(_) => warn!(%slot, "cannot restore the state of an earlier incarnation"),
        }
    }
}

impl Beginning<'_> {
    /// Begins with the group's first state, or goes on from what was kept.
    ///
    /// # Errors
    /// [`BeginError`]
    pub fn begin<D: Disk>(
        mut self,
        service: Box<dyn Service>,
        kept: Kept<D>,
    ) -> Result<Begun<D>, BeginError> {
        match kept {
            Kept::Nothing => Ok(self.afresh(service, Memory::Volatile)),
            Kept::States(cache, newest) => {
                let mut begun = self.afresh(service, Memory::Volatile);
                begun.remind(newest);
                begun.cache = Some(cache);
                Ok(begun)
            }
            Kept::Log(disk, None) => {
                let (executed, records) = (self.membership.base, Vec::new());
                let mut begun = self.afresh(service, Memory::Durable { executed, records });
                let store = DurableStore::new(disk, None, Certificates::default());
                begun.store = Some(ObservedStore::new(store));
                Ok(begun)
            }
            Kept::Log(disk, Some(past)) => {
                past.damaged.iter().for_each(|problem| warn!(%problem, "passed over"));
                let first = self.membership.clone();
                // Of later configurations the log knows more than anybody's file.
                if !mutant!("beginning.configuration-from-file") {
                    self.membership.clone_from(&past.membership);
                }
                let begun =
                    self.counters.iter_mut().try_for_each(|it| it.begin_epoch(&self.membership));
                begun.map_err(BeginError::Device)?;
                let entries = past.entries.iter().map(|(_, entry)| entry);
                let certified = Certificates::recalled(entries, self.counters);
                let certified = certified.map_err(BeginError::Device)?;
                let newest =
                    past.snapshot().map(|newest| Base { slot: newest.slot, state: newest.digest });
                let mut begun = self.resumed(service, *past, &first)?;
                // The parts that speak have use for them.
                let mine = if self.is_split { Certificates::default() } else { certified.clone() };
                begun.store = Some(ObservedStore::new(DurableStore::new(disk, newest, mine)));
                begun.certified = certified;
                Ok(begun)
            }
        }
    }

    fn afresh<D>(&mut self, service: Box<dyn Service>, memory: Memory) -> Begun<D> {
        let (membership, links) = (self.membership.clone(), std::mem::take(&mut self.links));
        // One that joins lacks the state with which its epoch begins.
        let fetch = (!links.is_empty()).then(|| self.others());
        let following = Epochs::resumed(self.me, self.life, membership, None, links);
        let executor = self.executor(service);
        let Parts { core, pillar_cores } = self.parts(&following, fetch, memory);
        let (store, cache, resumes) = (None, None, false);
        let certified = Certificates::default();
        Begun { following, executor, core, pillar_cores, store, cache, certified, resumes }
    }

    fn others(&self) -> ReplicaSet {
        let me = self.membership.index_of(self.me);
        self.membership.ids().filter(|id| Some(*id) != me).collect()
    }

    fn resumed<D>(
        &mut self,
        service: Box<dyn Service>,
        past: Past,
        first: &Membership,
    ) -> Result<Begun<D>, BeginError> {
        let base = self.membership.base;
        let whole = past.is_whole();
        let (executed, memory) = match past.memory() {
            Memory::Durable { executed, records } => {
                self.factory
                    .check_records(&self.membership, &records)
                    .map_err(BeginError::Record)?;
                let executed = if whole { executed } else { base };
                (executed, Memory::Durable { executed, records })
            }
            Memory::Volatile => (base, Memory::Volatile),
        };
        let mut executor = self.executor(service);
        let (epoch, entries) = (self.membership.epoch, past.entries.len());
        let torn_bytes = past.recovered.torn_bytes;
        let slot = if whole { executed.slot } else { executor.executed() };
        info!(%epoch, %slot, entries, torn_bytes, "resumes from its data folder");
        let mut snapshots = past.snapshots;
        if let Some(newest) = snapshots.pop().filter(|_| whole) {
            let installed = executor.install(newest);
            executor.failure().map_or(Ok(()), |failure| Err(BeginError::Service(failure)))?;
            installed.map_err(|_| BeginError::State(slot))?;
            executor.keep_earlier(snapshots.into_iter());
        }
        let (membership, proof, mut links) = (self.membership.clone(), past.proof, past.links);
        if mutant!("chain.kept-in-memory") {
            links.drain(..links.len().saturating_sub(1));
        }
        let following = Epochs::resumed(self.me, self.life, membership, proof, links);
        // Who signed for it, the group as it began tells, which one that joined did not see.
        let has_joined = first.stated.as_ref().is_some_and(|stated| stated.number > 0);
        let sources = match has_joined {
            true => Some(self.others()),
            false => following.sources(first),
        };
        let fetch = sources.filter(|_| !whole);
        let Parts { core, pillar_cores } = self.parts(&following, fetch, memory);
        let (store, cache, resumes) = (None, None, true);
        let certified = Certificates::default();
        Ok(Begun { following, executor, core, pillar_cores, store, cache, certified, resumes })
    }

    /// With the group's first state, or with what was learned of a later one.
    fn executor(&self, service: Box<dyn Service>) -> Executor {
        let membership = self.membership.clone();
        let mut executor = match self.learned {
            Some(state) => Executor::taught(membership, service, state),
            None => Executor::new(membership, service),
        };
        executor.set_authority(self.factory.rules(&self.membership).authority);
        executor.set_tuning(self.factory.tuning());
        executor
    }

    fn parts(&mut self, following: &Epochs, fetch: Option<ReplicaSet>, memory: Memory) -> Parts {
        let is_admitted = following.is_admitted();
        let (is_split, factory) = (self.is_split, &mut *self.factory);
        let starting = Starting { is_admitted, is_split, factory };
        starting.start(&self.membership, fetch, memory)
    }
}
