//! From what a replica is started with to its parts.

use crate::cache::Cache;
use crate::config::{EpochFactory, HostLimits, Listen, ReplicaConfig, Started, States, Storage};
use crate::driver::SocketDriver;
use crate::error::StartError;
use crate::network::{Credentials, Network};
use crate::peers::Peers;
use crate::pillars::Pillars;
use crate::pillars::mailbox::{Bell, Bells};
use pentarchy_core::configuration::Access;
use pentarchy_core::counter::{Instance, Memory, Usig};
use pentarchy_core::ids::MemberId;
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::Transfer;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
use pentarchy_io::channel::Identity;
use pentarchy_machine::{
    Beginning, Begun, Engine, EngineParts, EpochManager, Kept, Machine, MachineParts,
    PillarInstance, Resuming, Sealer, Spooling,
};
use pentarchy_storage::kept::{Barrier, Writer};
use pentarchy_storage::temp_blobs::TempBlobs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::info;

/// The parts.
pub struct Assembled {
    pub driver: SocketDriver,
    pub machine: Machine<'static, Writer>,
    pub pillars: Pillars,
}

/// Checks the configuration, listens, and starts the core.
pub fn assemble(config: ReplicaConfig) -> Result<Assembled, StartError> {
    let ReplicaConfig { me, membership, addresses, listen, storage, states, .. } = config;
    let (service, learned) = (config.service, config.learned);
    let member = membership.members.get(usize::from(me.0)).ok_or(StartError::NotAMember(me))?;
    if member.identity != config.keys.public() {
        return Err(StartError::WrongKey(me));
    }
    let me = member.id;
    let identity = Identity::new(*config.keys.channel_secret(), &membership.group_domain());
    let limits = config.limits;
    let credentials = Credentials::new(me, config.signing.clone(), &membership);
    let wiring =
        Wiring { me, membership: membership.clone(), addresses, identity, credentials, limits };
    let mut network = wiring.network(listen, config.access)?;
    let (bell, bells) = (Arc::new(Bell::new(network.waker()?)), Arc::new(Bells::default()));
    let (mut epochs, mut counters, life) = (config.epochs, config.counters, config.life);
    let is_split = membership.lane.pillars > 1 && epochs.can_split();
    let (kept, spool) = open(storage, states, bells.clone())?;
    let (factory, links) = (&mut *epochs, config.links);
    let beginning = Beginning {
        me,
        life,
        membership,
        links,
        learned: learned.as_ref(),
        factory,
        counters: &mut counters,
        is_split,
    };
    let mut begun = beginning.begin(service, kept)?;
    let mut transfer = transfer_from(me, learned);
    let start = |spool| Spooling::start(spool, &mut begun.executor, &mut transfer);
    let spooling = spool.map(start);
    let (signing, timeouts) = (config.signing, config.timeouts);
    let Begun { following, executor, core, pillar_cores, store, cache, certified, resumes } = begun;
    let elsewhere = if is_split { memories(&counters) } else { Vec::new() };
    let mut resuming = Resuming::new(resumes, elsewhere);
    let membership = following.membership();
    let place = following.index().ok_or(StartError::Removed(me))?;
    // Without that key it follows the group to where it can get the next one.
    signing.lock().adopt(&membership.members[usize::from(place.0)].signing);
    let threads = Threads { wiring, signing, counters, timeouts, epochs: &mut *epochs };
    threads.wiring.follow(&mut network, membership);
    let (engine, threads) = threads.of_all(membership, core, pillar_cores)?;
    let mut pillars = Pillars::none(config.me, bell.clone());
    network.let_in_pillars(threads.len() as u8);
    for (instance, Thread { engine, driver }) in (0..).map(Instance).zip(threads) {
        let log_handle = store.as_ref().map(|store| store.backing().log_handle(membership.epoch));
        let barrier = log_handle.map(|log_handle| Barrier::new(log_handle, certified.of(instance)));
        let seen = resuming.add_pillar();
        pillars.add(PillarInstance::new(engine, barrier, seen, limits), driver)?;
    }
    bells.set(bell, pillars.bells());
    let sealer = sealer(config.signer);
    let epoch_manager = EpochManager::new(following, life, epochs, sealer);
    let machine = Machine::new(MachineParts {
        engine,
        executor,
        transfer,
        spooling,
        epoch_manager,
        store,
        cache,
        resuming,
        is_split,
        prepared: pillars.prepared(),
        limits,
    });
    Ok(Assembled { driver: SocketDriver::new(network, timeouts), machine, pillars })
}

fn transfer_from(me: MemberId, learned: Option<Snapshot>) -> Transfer {
    let mut transfer = Transfer::new(me);
    if let Some(state) = learned {
        info!(slot = %state.slot, "has learned a state of the group before it was a member");
        transfer.learned(state);
    }
    transfer
}

fn sealer(signer: ClientSigner) -> Sealer {
    Box::new(move |draft| signer.seal(draft))
}

/// Starts the threads that write what is kept, if anything is, and finds out where states are
/// before they are in files.
fn open(
    storage: Option<Storage>,
    states: Option<States>,
    bells: Arc<Bells>,
) -> io::Result<(Kept<Writer>, Option<Arc<TempBlobs>>)> {
    let of_states = states.as_ref().and_then(|states| states.spool.clone());
    match (storage, states) {
        (Some(Storage { kept, past, spool }), _) => {
            let writer = Writer::start(kept, Box::new(move || bells.written()))?;
            Ok((Kept::Log(writer, past.map(Box::new)), spool.or(of_states)))
        }
        (None, Some(States { snapshots, newest, .. })) => {
            Ok((Kept::States(Box::new(Cache::start(snapshots)?), newest), of_states))
        }
        (None, None) => Ok((Kept::Nothing, None)),
    }
}

/// What every network of a replica is made of.
struct Wiring {
    me: MemberId,
    /// The group as it began.
    membership: Arc<Membership>,
    addresses: Vec<SocketAddr>,
    identity: Identity,
    credentials: Credentials,
    limits: HostLimits,
}

impl Wiring {
    fn peers(&self) -> Result<Peers, StartError> {
        Peers::new(self.me, &self.membership, &self.addresses)
    }

    /// The replica's own.
    fn network(&self, listen: Listen, access: Access) -> Result<Network, StartError> {
        let (identity, credentials) = (self.identity.clone(), self.credentials.clone());
        Network::new(listen, identity, credentials, access, self.limits, self.peers()?)
    }

    /// Has a network know the members of the epoch in which the replica is, if their configuration
    /// is not the one with which the group began.
    fn follow(&self, network: &mut Network, current: &Membership) {
        if current.configuration != self.membership.configuration {
            network.begin_configuration(current, 0);
        }
    }
}

/// What the threads of a replica are made of.
struct Threads<'a> {
    wiring: Wiring,
    signing: SharedSigningKeys,
    counters: Vec<Box<dyn Usig>>,
    timeouts: Timeouts,
    epochs: &'a mut dyn EpochFactory,
}

/// Of a core that runs apart.
struct Thread {
    engine: Engine,
    driver: SocketDriver,
}

impl Threads<'_> {
    /// The one of the replica's thread, and one for each core that runs apart.
    fn of_all(
        self,
        current: &Arc<Membership>,
        core: Started,
        pillar_cores: Vec<Started>,
    ) -> Result<(Engine, Vec<Thread>), StartError> {
        let Self { wiring, signing, counters, timeouts, epochs } = self;
        let (me, keys) = (wiring.me, signing.lock().current().clone());
        // One for all: what is found genuine in one thread is not checked again in another.
        let verifier = epochs.verifier(current);
        let engine = |core, authenticator| {
            Engine::new(EngineParts {
                core,
                verifier: verifier.clone(),
                authenticator: Box::new(authenticator),
                me,
                membership: current.clone(),
                checks_itself: cfg!(debug_assertions),
            })
        };
        let count = pillar_cores.len() as u8;
        let (mine, of_pillars) = match count {
            0 => (Authenticator::new(keys, counters).among(current.clone()), Vec::new()),
            _ => Authenticator::of_pillars(&keys, counters, count),
        };
        let mine = mine.with_keys(me, signing.clone(), false);
        let signing = |it: Authenticator| it.with_keys(me, signing.clone(), true);
        let thread = |((pillar, cell), authenticator)| {
            let (identity, credentials) = (wiring.identity.clone(), wiring.credentials.clone());
            let (limits, peers) = (wiring.limits, wiring.peers()?);
            let mut network = Network::of_pillar(pillar, identity, credentials, limits, peers)?;
            wiring.follow(&mut network, current);
            let driver = SocketDriver::new(network, timeouts);
            Ok(Thread { engine: engine(cell, authenticator), driver })
        };
        let threads = (0..).zip(pillar_cores).zip(of_pillars.into_iter().map(signing)).map(thread);
        let threads = threads.collect::<Result<Vec<Thread>, StartError>>()?;
        Ok((engine(core, mine), threads))
    }
}

/// What counters remember, each of its number.
fn memories(counters: &[Box<dyn Usig>]) -> Vec<(Instance, Memory)> {
    let remembered = (0..).map(Instance).zip(counters);
    remembered.filter_map(|(instance, it)| Some((instance, it.memory()?))).collect()
}
