//! A [`LocalCluster`] whose machines come and go while it runs.

use super::{LocalCluster, Machine, Parts};
use crate::administration::{
    AdministrationError, Administrator, Alteration, CannotAlter, Switch, Terms, alter,
};
use crate::card::Card;
use crate::config::ClusterConfig;
use crate::data::DataFolder;
use crate::following::Follower;
use crate::generate::{NewMember, ReplicaSecrets};
use crate::joining::{Joining, Progress};
use crate::learning::{Learned, Learner};
use crate::node::StartError;
use pentarchy_core::change::Shown;
use pentarchy_core::ids::MemberId;
use pentarchy_core::service::Service;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_replica::Listen;
use pentarchy_trusted::DeviceIdentity;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the group may take until it has begun with a change.
const LIMIT: Duration = Duration::from_secs(60);

/// How long it may take until it has noted that a change is withdrawn.
const WITHDRAW: Duration = Duration::from_secs(5);

/// Between two looks how the group stands.
const LOOK: Duration = Duration::from_millis(250);

/// How a program wants to change a [`LocalCluster`] that runs.
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
    /// No group can be like that.
    #[error(transparent)]
    CannotAlter(#[from] CannotAlter),
    /// The group refuses the change, or does not answer.
    #[error(transparent)]
    Administration(#[from] AdministrationError),
    /// A machine that is to leave is no member, or a part cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A machine that is to join cannot be a member.
    #[error("a machine cannot join: it lacks {0}")]
    Lacks(String),
    /// Too few members are ready for it, or machines that are to join are not.
    #[error("the group did not begin with the change within {0:?}")]
    TimedOut(Duration),
    /// A machine is a member, but its service could not be brought to the group's state.
    #[error("machine {0} has joined, but its service cannot be used: restart it with another one")]
    Untaught(usize),
}

impl LocalCluster {
    /// Changes the group while it runs, as its administrators, and waits until it has begun to be
    /// as wanted. Gives the numbers of the machines that joined. Those fetch the state before they
    /// are members, and what has changed since afterwards. The replica of a machine that leaves
    /// ends by itself, as soon as the others have what it has.
    ///
    /// # Errors
    /// [`AlterError`]. The [configuration](Self::config) says whether the group has begun with the
    /// change all the same. Then a machine that joined and does not run can be
    /// [restarted](Self::restart).
    pub fn alter(&mut self, wanted: LocalAlteration<'_>) -> Result<Range<usize>, AlterError> {
        let first = self.machines.len();
        let altered = self.try_alter(wanted);
        let members = self.config.membership();
        let is_member = |machine: &Machine| members.member(&machine.key.client_id()).is_some();
        if !self.machines[first..].iter().any(is_member) {
            self.forget(first);
        }
        altered.map(|()| first..self.machines.len())
    }

    fn try_alter(&mut self, wanted: LocalAlteration<'_>) -> Result<(), AlterError> {
        let joining: Vec<Joiner> =
            wanted.joins.into_iter().map(|it| self.prepare(it)).collect::<Result<_, _>>()?;
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
        let proposing = administrators.iter().take(needed);
        let proposed = proposing.map(|it| it.propose(change.clone(), LIMIT).map(drop));
        let began = proposed.collect::<Result<(), _>>().map_err(AlterError::from);
        let began = began.and_then(|()| self.wait(joining, number));
        if self.config.number() < number {
            withdraw(&administrators, &shown);
        }
        began
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
        member.map(|it| it.id).ok_or(AlterError::Start(StartError::NotAMember(machine)))
    }

    /// Makes a machine that is to join, with its folder, if there is to be one.
    fn prepare(&mut self, service: Box<dyn Service>) -> Result<Joiner, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let new = NewMember::generate(self.first.group, &address.to_string());
        let new = new.expect("it is an address");
        let (card, number) = (new.card().clone(), self.machines.len());
        let ReplicaSecrets { key, signing, device } = new.into_secrets();
        self.machines.push(Machine::new(key, signing, address));
        let data = self.make_folder(number, &device)?;
        Ok(Joiner { number, card, device, data, listener, service })
    }

    /// Forgets the machines from this number on, none of which is a member.
    fn forget(&mut self, first: usize) {
        for number in first..self.machines.len() {
            if let Some(folder) = self.folder(number) {
                // Best effort: the next machine of this number says so if the folder is in its way.
                let _ = std::fs::remove_dir_all(folder);
            }
        }
        self.machines.truncate(first);
    }

    /// Waits until the group has begun with the configuration of this number, and starts the
    /// replicas of the machines that joined.
    fn wait(&mut self, joining: Vec<Joiner>, number: u64) -> Result<(), AlterError> {
        let deadline = Instant::now() + LIMIT;
        if joining.is_empty() {
            return self.follow(number, deadline);
        }
        let fails = AtomicBool::new(false);
        let joined: Vec<_> = std::thread::scope(|scope| {
            let (this, fails) = (&*self, &fails);
            let join = |it: Joiner| {
                scope.spawn(move || {
                    let joined = this.join(it, deadline, fails);
                    fails.fetch_or(joined.is_err(), Ordering::Relaxed);
                    joined
                })
            };
            let threads: Vec<_> = joining.into_iter().map(join).collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(joined) => joined,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        match joined.iter().flatten().flatten().next() {
            Some(one) => self.config = one.config.clone(),
            // The group may have begun without them.
            None => drop(self.follow(number, Instant::now())),
        }
        let mut all = Ok(());
        for joined in joined {
            let started = joined.and_then(|joined| joined.map_or(Ok(()), |it| self.start(it)));
            all = all.and(started);
        }
        all
    }

    /// Follows the group until it is in the configuration of this number.
    fn follow(&mut self, number: u64, deadline: Instant) -> Result<(), AlterError> {
        let mut follower = Follower::new(self.config.clone(), KeyPair::generate())?;
        loop {
            // What a replica said before may have been lost.
            follower.ask(|_| false)?;
            if follower.config().number() >= number {
                self.config = follower.config().clone();
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(AlterError::TimedOut(LIMIT));
            }
            follower.wait(LOOK)?;
        }
    }

    /// Has a machine join the group. Gives none if it gave up because another one failed.
    fn join(
        &self,
        joiner: Joiner,
        deadline: Instant,
        fails: &AtomicBool,
    ) -> Result<Option<Joined>, AlterError> {
        let Joiner { number, device, mut data, listener, service, .. } = joiner;
        let Machine { key, signing, .. } = &self.machines[number];
        let learner = Learner::in_folder(service, data.as_mut()).map_err(StartError::from)?;
        let (config, key, signing) = (self.config.clone(), key.clone(), signing.clone());
        let mut joining = Joining::new(config, key, signing, device.life(), learner)?;
        while !fails.load(Ordering::Relaxed) {
            match joining.go_on()? {
                Progress::Member(config, _) => {
                    let (config, learned) = (*config, joining.into_learned());
                    return Ok(Some(Joined { number, device, data, listener, config, learned }));
                }
                Progress::Lacks(what) => return Err(AlterError::Lacks(what)),
                _ if Instant::now() > deadline => return Err(AlterError::TimedOut(LIMIT)),
                progress => joining.wait_after(&progress)?,
            }
        }
        Ok(None)
    }

    /// Starts the replica of a machine that has become a member.
    fn start(&mut self, joined: Joined) -> Result<(), AlterError> {
        let Joined { number, device, data, listener, learned, .. } = joined;
        let Learned { service, state } = learned.ok_or(AlterError::Untaught(number))?;
        let listen = Listen::Bound(listener);
        let parts = Parts { device, storage: None, learned: state, listen, service };
        Ok(self.begin(number, data, parts)?)
    }
}

/// Takes back what was proposed. Best effort: the change becomes void by itself.
fn withdraw(administrators: &[Administrator], shown: &Shown) {
    for administrator in administrators {
        let _ = administrator.withdraw(shown, WITHDRAW);
    }
}

/// A machine that is to be a member.
struct Joiner {
    number: usize,
    card: Card,
    device: DeviceIdentity,
    data: Option<DataFolder>,
    listener: TcpListener,
    service: Box<dyn Service>,
}

/// A machine that has become one.
struct Joined {
    number: usize,
    device: DeviceIdentity,
    data: Option<DataFolder>,
    listener: TcpListener,
    config: ClusterConfig,
    learned: Option<Learned>,
}
