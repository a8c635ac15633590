//! A [`LocalCluster`] whose machines come and go while it runs.

use super::{LocalCluster, Machine, Parts};
use crate::administration::{
    AdministrationError, Administrator, Alteration, CannotAlter, Switch, Terms, alter,
};
use crate::card::Card;
use crate::config::ClusterConfig;
use crate::following::Follower;
use crate::generate::{NewMember, ReplicaSecrets};
use crate::joining::{Joining, Progress};
use crate::learning::{Learned, Learner};
use crate::node::StartError;
use pentarchy_core::change::Shown;
use pentarchy_core::ids::MemberId;
use pentarchy_core::membership::Life;
use pentarchy_core::service::Service;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_replica::Listen;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long the group may take until it has begun with a change.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks how the group stands.
const LOOK: Duration = Duration::from_millis(250);

/// What is to be different about a [`LocalCluster`] that runs.
#[derive(Default)]
pub struct LocalAlteration<'a> {
    /// Services in their initial states, one for each machine that joins.
    pub joins: Vec<Box<dyn Service>>,
    /// The numbers of the machines that leave.
    pub leaves: &'a [usize],
    /// How many may be faulty from then on; as many as before, if it is none.
    pub f: Option<u16>,
    /// By which protocol they order from then on; by the same, if it is none.
    pub protocol: Option<&'a str>,
}

/// Why a [`LocalCluster`] is not as it was to be.
#[derive(Debug, thiserror::Error)]
pub enum AlterError {
    /// A machine that is to leave is none.
    #[error("machine {0} is no member of the group")]
    NotAMember(usize),
    /// No group can be like that.
    #[error(transparent)]
    CannotAlter(#[from] CannotAlter),
    /// The group refuses the change, or does not answer.
    #[error(transparent)]
    Administration(#[from] AdministrationError),
    /// A part cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A machine that is to join cannot be a member.
    #[error("a machine cannot join: it lacks {0}")]
    Lacks(String),
    /// Too few members are ready for it.
    #[error("the group did not begin with the change within {0:?}")]
    TimedOut(Duration),
    /// A machine is a member, but its service could not be brought to the group's state.
    #[error("machine {0} has joined, but its service cannot be used: restart it with another one")]
    Untaught(usize),
}

impl LocalCluster {
    /// Changes the group while it runs, as its administrators, and waits until it has begun to be
    /// as wanted. Gives the numbers of the machines that joined. Those fetch the state before they
    /// are members, and what has changed since afterwards. Whoever leaves ends by itself, as soon
    /// as the others have what it has.
    ///
    /// # Errors
    /// [`AlterError`]. The group stays as it was, unless that says otherwise.
    pub fn alter(&mut self, wanted: LocalAlteration<'_>) -> Result<Range<usize>, AlterError> {
        let joining = wanted.joins.into_iter().map(Joiner::new).collect::<Result<Vec<_>, _>>()?;
        let cards: Vec<Card> = joining.iter().map(|it| it.card.clone()).collect();
        let administrators = self.administrators()?;
        let shown = administrators[0].show(LIMIT)?;
        let leaves = wanted.leaves.iter().map(|machine| self.member(&shown, *machine));
        let leaves = leaves.collect::<Result<Vec<_>, _>>()?;
        let session_key = self.first.session_key;
        let switch = wanted.protocol.map(|protocol| Switch { protocol, session_key });
        let alteration = Alteration { joins: &cards, leaves: &leaves, f: wanted.f, switch };
        let change = alter(&shown, &alteration, &Terms::new(LIMIT))?;
        let number = change.next.number;
        let needed = usize::from(shown.configuration.administrators.threshold);
        for administrator in administrators.iter().take(needed) {
            administrator.propose(change.clone(), LIMIT)?;
        }
        let first = self.machines.len();
        match self.wait(joining, number) {
            Ok((config, joined)) => {
                self.config = config;
                joined.into_iter().try_for_each(|joined| self.start(joined))?;
                Ok(first..self.machines.len())
            }
            Err(error) => {
                withdraw(&administrators, &shown);
                Err(error)
            }
        }
    }

    /// Takes another machine into the group. Gives its number. See [`Self::alter`].
    ///
    /// # Errors
    /// [`AlterError`]
    pub fn add(&mut self, service: Box<dyn Service>) -> Result<usize, AlterError> {
        Ok(self.alter(LocalAlteration { joins: vec![service], ..Default::default() })?.start)
    }

    /// Has a machine leave the group. See [`Self::alter`].
    ///
    /// # Errors
    /// [`AlterError`]
    pub fn remove(&mut self, machine: usize) -> Result<(), AlterError> {
        let leaves = &[machine];
        self.alter(LocalAlteration { leaves, ..Default::default() }).map(drop)
    }

    /// Has a new machine take the place of another one, which may be dead. Gives its number. See
    /// [`Self::alter`].
    ///
    /// # Errors
    /// [`AlterError`]
    pub fn replace(
        &mut self,
        machine: usize,
        service: Box<dyn Service>,
    ) -> Result<usize, AlterError> {
        let (joins, leaves) = (vec![service], &[machine][..]);
        Ok(self.alter(LocalAlteration { joins, leaves, ..Default::default() })?.start)
    }

    fn member(&self, shown: &Shown, machine: usize) -> Result<MemberId, AlterError> {
        let identity = self.machines.get(machine).map(|it| it.key.public());
        let mut members = shown.configuration.members.iter();
        let member = members.find(|member| Some(member.identity) == identity);
        member.map(|it| it.id).ok_or(AlterError::NotAMember(machine))
    }

    /// Waits until the group has begun with the configuration of this number.
    fn wait(
        &self,
        joining: Vec<Joiner>,
        number: u64,
    ) -> Result<(ClusterConfig, Vec<Joined>), AlterError> {
        let deadline = Instant::now() + LIMIT;
        if joining.is_empty() {
            let mut follower = Follower::new(self.config.clone(), KeyPair::generate())?;
            while follower.config().number() < number {
                if Instant::now() > deadline {
                    return Err(AlterError::TimedOut(LIMIT));
                }
                follower.wait(LOOK)?;
                // What a replica said may have been lost.
                follower.ask(|_| false)?;
            }
            return Ok((follower.config().clone(), Vec::new()));
        }
        let joined: Vec<_> = std::thread::scope(|scope| {
            let join = |it: Joiner| scope.spawn(move || it.join(self.config.clone(), deadline));
            let threads: Vec<_> = joining.into_iter().map(join).collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(joined) => joined,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        let joined = joined.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok((joined[0].config.clone(), joined))
    }

    /// Starts the replica of a machine that has become a member.
    fn start(&mut self, joined: Joined) -> Result<(), AlterError> {
        let Joined { secrets, listener, learned, .. } = joined;
        let ReplicaSecrets { key, signing, device } = secrets;
        let number = self.machines.len();
        let address = listener.local_addr().map_err(StartError::Io)?;
        self.machines.push(Machine::new(key, signing, address));
        let Learned { service, state } = learned.ok_or(AlterError::Untaught(number))?;
        let listen = Listen::Bound(listener);
        let parts = Parts { device, storage: None, learned: state, listen, service };
        Ok(self.begin(number, parts)?)
    }
}

/// Takes back what was proposed. Best effort: the change becomes void by itself.
fn withdraw(administrators: &[Administrator], shown: &Shown) {
    for administrator in administrators {
        let _ = administrator.withdraw(shown, LOOK);
    }
}

/// A machine that is to be a member.
struct Joiner {
    secrets: ReplicaSecrets,
    card: Card,
    listener: TcpListener,
    service: Box<dyn Service>,
}

/// A machine that has become one.
struct Joined {
    secrets: ReplicaSecrets,
    listener: TcpListener,
    config: ClusterConfig,
    learned: Option<Learned>,
}

impl Joiner {
    fn new(service: Box<dyn Service>) -> Result<Self, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?.to_string();
        let new = NewMember::generate(&address).expect("it is an address");
        let card = new.card().clone();
        Ok(Self { secrets: new.into_secrets(), card, listener, service })
    }

    /// Joins the group, which had this configuration.
    fn join(self, config: ClusterConfig, deadline: Instant) -> Result<Joined, AlterError> {
        let Self { secrets, listener, service, .. } = self;
        let ReplicaSecrets { key, signing, device } = &secrets;
        let life = Life { incarnation: device.incarnation(), device_key: device.device_key() };
        let learner = Learner::new(service, None);
        let mut joining = Joining::new(config, key.clone(), signing.clone(), life, learner)?;
        while Instant::now() < deadline {
            match joining.go_on()? {
                Progress::Member(config, _) => {
                    let learned = joining.into_learned();
                    return Ok(Joined { secrets, listener, config: *config, learned });
                }
                Progress::Lacks(what) => return Err(AlterError::Lacks(what)),
                // It has waited for what it fetches already.
                Progress::Learning(Some(_)) => {}
                _ => joining.wait(LOOK)?,
            }
        }
        Err(AlterError::TimedOut(LIMIT))
    }
}
