//! What a replica begins with: the group's first state, or what it had kept when it stopped.

use crate::cache::Cache;
use crate::config::{EpochFactory, Started, States, Storage};
use crate::epochs::{Parts, Starting};
use crate::error::StartError;
use crate::keeper::Keeper;
use crate::pillars::mailbox::Bells;
use pentarchy_core::counter::Usig;
use pentarchy_core::epochs::{Epochs, Proof};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::protocol::{Memory, Rules};
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::kept::{Certificates, Past};
use std::sync::Arc;
use tracing::{info, warn};

/// What decides it.
pub struct Beginning<'a> {
    pub me: ReplicaId,
    pub life: Life,
    pub rules: Rules,
    /// The group as it began.
    pub membership: Arc<Membership>,
    pub factory: &'a mut dyn EpochFactory,
    pub counters: &'a mut Vec<Box<dyn Usig>>,
    /// Whether its core is in parts.
    pub is_split: bool,
}

/// The parts that depend on it.
pub struct Begun {
    pub following: Epochs,
    pub executor: Executor,
    pub core: Started,
    /// Those for threads of their own.
    pub cells: Vec<Started>,
    pub keeper: Option<Keeper>,
    pub cache: Option<Cache>,
    /// What cells had certified before this process began.
    pub certified: Certificates,
    /// It goes on from what was kept.
    pub resumes: bool,
}

impl Begun {
    /// Takes a state of an earlier life for what it is: something from which the group's state
    /// differs little. Only who waits to be admitted has use for it.
    fn remind(&mut self, newest: Option<Snapshot>) {
        let Some(newest) = newest.filter(|_| !self.following.is_admitted()) else { return };
        let slot = newest.slot;
        match self.executor.install(newest) {
            Ok(_) => info!(%slot, "has a state of an earlier life"),
            Err(_) => warn!(%slot, "cannot restore the state of an earlier life"),
        }
    }
}

impl Beginning<'_> {
    /// Begins with the group's first state, or goes on from what was kept.
    pub fn begin(
        mut self,
        service: Box<dyn Service>,
        storage: Option<Storage>,
        states: Option<States>,
        bells: Arc<Bells>,
    ) -> Result<Begun, StartError> {
        let wake = Box::new(move || bells.written());
        match storage {
            None => {
                let mut begun = self.afresh(service, Memory::Volatile);
                if let Some(States { snapshots, newest, .. }) = states {
                    begun.remind(newest);
                    begun.cache = Some(Cache::start(snapshots)?);
                }
                Ok(begun)
            }
            Some(Storage { kept, past: None, .. }) => {
                let (executed, records) = (self.membership.base, Vec::new());
                let mut begun = self.afresh(service, Memory::Durable { executed, records });
                begun.keeper = Some(Keeper::start(kept, None, Certificates::default(), wake)?);
                Ok(begun)
            }
            Some(Storage { kept, past: Some(past), .. }) => {
                past.damaged.iter().for_each(|problem| warn!(%problem, "passed over"));
                self.membership = past.membership.clone();
                let begun =
                    self.counters.iter_mut().try_for_each(|it| it.begin_epoch(&self.membership));
                begun.map_err(StartError::Device)?;
                let entries = past.entries.iter().map(|(_, entry)| entry);
                let certified = Certificates::recalled(entries, self.counters);
                let certified = certified.map_err(StartError::Device)?;
                let newest =
                    past.snapshot().map(|newest| Base { slot: newest.slot, state: newest.digest });
                let mut begun = self.resumed(service, past)?;
                // Whoever speaks has use for them.
                let mine = if self.is_split { Certificates::default() } else { certified.clone() };
                begun.keeper = Some(Keeper::start(kept, newest, mine, wake)?);
                begun.certified = certified;
                Ok(begun)
            }
        }
    }

    fn afresh(&mut self, service: Box<dyn Service>, memory: Memory) -> Begun {
        let following = Epochs::new(self.me, self.life, self.membership.clone());
        let executor = Executor::new(self.membership.clone(), service);
        let Parts { core, cells } = self.parts(&following, None, memory);
        let (keeper, cache, resumes) = (None, None, false);
        let certified = Certificates::default();
        Begun { following, executor, core, cells, keeper, cache, certified, resumes }
    }

    fn resumed(&mut self, service: Box<dyn Service>, past: Past) -> Result<Begun, StartError> {
        let base = self.membership.base;
        let whole = past.is_whole();
        let (executed, memory) = match past.memory() {
            Memory::Durable { executed, records } => {
                self.factory.check_records(&records).map_err(StartError::Record)?;
                let executed = if whole { executed } else { base };
                (executed, Memory::Durable { executed, records })
            }
            Memory::Volatile => (base, Memory::Volatile),
        };
        let mut executor = Executor::new(self.membership.clone(), service);
        let (epoch, entries) = (self.membership.epoch, past.entries.len());
        let torn_bytes = past.recovered.torn_bytes;
        let slot = if whole { executed.slot } else { executor.executed() };
        info!(%epoch, %slot, entries, torn_bytes, "goes on from its data folder");
        let mut snapshots = past.snapshots;
        if let Some(newest) = snapshots.pop().filter(|_| whole) {
            let installed = executor.install(newest);
            executor.failure().map_or(Ok(()), |failure| Err(StartError::Service(failure)))?;
            installed.map_err(|_| StartError::State(slot))?;
            executor.keep_earlier(snapshots.into_iter());
        }
        let following = Epochs::resumed(self.me, self.life, self.membership.clone(), past.proof);
        let fetch = if whole { None } else { following.proof().map(Proof::signers) };
        let Parts { core, cells } = self.parts(&following, fetch, memory);
        let (keeper, cache, resumes) = (None, None, true);
        let certified = Certificates::default();
        Ok(Begun { following, executor, core, cells, keeper, cache, certified, resumes })
    }

    fn parts(&mut self, following: &Epochs, fetch: Option<ReplicaSet>, memory: Memory) -> Parts {
        let (is_admitted, rules) = (following.is_admitted(), self.rules);
        let (is_split, factory) = (self.is_split, &mut *self.factory);
        let starting = Starting { is_admitted, is_split, rules, factory };
        starting.start(&self.membership, fetch, memory)
    }
}
