//! From what a replica is started with to its parts.

use crate::beginning::{Beginning, Begun};
use crate::config::{EpochFactory, HostLimits, ReplicaConfig, Started};
use crate::epochs::Succession;
use crate::error::StartError;
use crate::network::Network;
use crate::peers::Peers;
use crate::pillars::Pillars;
use crate::pillars::mailbox::{Bell, Bells};
use crate::pillars::pillar::PillarParts;
use crate::resuming::{Resuming, Seen};
use crate::speaker::{Speaker, SpeakerParts};
use crate::spooling::Spooling;
use crate::unit::{Unit, UnitParts};
use pentarchy_core::counter::{Instance, Memory, Usig};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::transfer::Transfer;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_io::channel::Identity;
use pentarchy_storage::kept::Barrier;
use std::net::SocketAddr;
use std::sync::Arc;

/// The parts.
pub struct Assembled {
    pub network: Network,
    pub unit: Unit,
    pub pillars: Pillars,
}

/// Checks the configuration, listens, and starts the core.
pub fn assemble(config: ReplicaConfig) -> Result<Assembled, StartError> {
    let ReplicaConfig { me, membership, addresses, listen, service, storage, states, .. } = config;
    let member = membership.members.get(usize::from(me.0)).ok_or(StartError::NotAMember(me))?;
    if member.key != config.keys.public() {
        return Err(StartError::WrongKey(me));
    }
    let identity = Identity::new(*config.keys.channel_secret(), &membership.group_domain());
    let limits = config.limits;
    let wiring = Wiring { me, membership: membership.clone(), addresses, identity, limits };
    let identity = wiring.identity.clone();
    let mut network = Network::new(listen, identity, config.access, limits, wiring.peers()?)?;
    let (bell, bells) = (Arc::new(Bell::new(network.waker()?)), Arc::new(Bells::default()));
    let (mut epochs, mut counters, life) = (config.epochs, config.counters, config.life);
    let is_split = membership.lane.pillars > 1 && epochs.can_split();
    let (factory, rules) = (&mut *epochs, config.rules);
    let counted = &mut counters;
    let beginning = Beginning { me, life, rules, membership, factory, counters: counted, is_split };
    let spool = storage.as_ref().and_then(|storage| storage.spool.clone());
    let spool = spool.or_else(|| states.as_ref()?.spool.clone());
    let mut begun = beginning.begin(service, storage, states, bells.clone())?;
    let mut transfer = Transfer::new(me);
    let start = |spool| Spooling::start(spool, &mut begun.executor, &mut transfer);
    let spooling = spool.map(start);
    let (keys, timeouts) = (config.keys, config.timeouts);
    let Begun { following, executor, core, cells, keeper, cache, certified, resumes } = begun;
    let elsewhere = if is_split { memories(&counters) } else { Vec::new() };
    let mut resuming = Resuming::new(resumes, elsewhere);
    let voices = Voices { wiring, keys, counters, timeouts, epochs: &mut *epochs };
    let membership = following.membership();
    let (speaker, voices) = voices.of_all(membership, core, cells)?;
    let mut pillars = Pillars::none(me, bell.clone());
    network.let_in_pillars(voices.len() as u8);
    for (instance, Voice { speaker, network }) in (0..).map(Instance).zip(voices) {
        let seen = Seen::default();
        resuming.of_pillars.push(seen.clone());
        let pen = keeper.as_ref().map(|keeper| keeper.backing().pen(membership.epoch));
        let barrier = pen.map(|pen| Barrier::new(pen, certified.of(instance)));
        pillars.add(PillarParts { speaker, network, barrier, seen })?;
    }
    bells.set(bell, pillars.bells());
    let succession = Succession::new(following, life, epochs, config.signer);
    let unit = Unit::new(UnitParts {
        speaker,
        executor,
        transfer,
        spooling,
        succession,
        keeper,
        cache,
        resuming,
        is_split,
        prepared: pillars.prepared(),
    });
    Ok(Assembled { network, unit, pillars })
}

/// What every network of a replica is made of.
struct Wiring {
    me: ReplicaId,
    /// The group as it began: later ones have the same members.
    membership: Arc<Membership>,
    addresses: Vec<SocketAddr>,
    identity: Identity,
    limits: HostLimits,
}

impl Wiring {
    fn peers(&self) -> Result<Peers, StartError> {
        Peers::new(self.me, &self.membership, &self.addresses)
    }
}

/// What every speaker of a replica is made of.
struct Voices<'a> {
    wiring: Wiring,
    keys: KeyPair,
    counters: Vec<Box<dyn Usig>>,
    timeouts: Timeouts,
    epochs: &'a mut dyn EpochFactory,
}

/// Of a core that runs apart.
struct Voice {
    speaker: Speaker,
    network: Network,
}

impl Voices<'_> {
    /// The one of the replica's thread, and one for each core that runs apart.
    fn of_all(
        self,
        current: &Arc<Membership>,
        core: Started,
        cells: Vec<Started>,
    ) -> Result<(Speaker, Vec<Voice>), StartError> {
        let Self { wiring, keys, counters, timeouts, epochs } = self;
        let (me, others) = (wiring.me, wiring.peers()?.others().collect());
        // One for all: what is found genuine in one thread is not checked again in another.
        let (verifier, epoch) = (epochs.verifier(current), current.epoch);
        let speaker = |core, authenticator| {
            Speaker::new(SpeakerParts {
                core,
                verifier: verifier.clone(),
                authenticator,
                timeouts,
                me,
                others,
                epoch,
            })
        };
        let count = cells.len() as u8;
        let (mine, of_pillars) = match count {
            0 => (Authenticator::new(keys, counters), Vec::new()),
            _ => Authenticator::of_pillars(&keys, counters, count),
        };
        let voice = |((pillar, cell), authenticator)| {
            let (identity, peers) = (wiring.identity.clone(), wiring.peers()?);
            let network = Network::of_pillar(pillar, identity, wiring.limits, peers)?;
            Ok(Voice { speaker: speaker(cell, authenticator), network })
        };
        let voices = (0..).zip(cells).zip(of_pillars).map(voice);
        let voices = voices.collect::<Result<Vec<Voice>, StartError>>()?;
        Ok((speaker(core, mine), voices))
    }
}

/// What counters remember, each of its number.
fn memories(counters: &[Box<dyn Usig>]) -> Vec<(Instance, Memory)> {
    let remembered = (0..).map(Instance).zip(counters);
    remembered.filter_map(|(instance, it)| Some((instance, it.memory()?))).collect()
}
