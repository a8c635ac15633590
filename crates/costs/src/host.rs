//! One replica without sockets, clock and threads: the machine that `pentarchy-replica` drives,
//! driven over queues.

use crate::links::{Links, LinksDriver, Queue};
use crate::{Node, Probe};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Epochs;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{self, ClientId, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{Delay, Memory, Setup, Tuning};
use pentarchy_core::transfer::Transfer;
use pentarchy_core::wire::Wire;
use pentarchy_machine::fault::Fault;
use pentarchy_machine::pillar::{FromPillar, ToPillar};
use pentarchy_machine::report::{PillarsReport, ProcessReport};
use pentarchy_machine::{
    Engine, EngineParts, EpochManager, Halt, HostLimits, Machine, MachineParts, OneEpoch, Resuming,
    Started, StatusReport, Surroundings,
};
use pentarchy_protocols::Descriptor;
use pentarchy_protocols::pillars::Part;
use pentarchy_services::null::Null;
use pentarchy_storage::kept::Stepped;
use std::sync::Arc;
use std::time::Duration;

/// What a replica checks and convinces with.
pub struct Keys {
    /// Checks what others made.
    pub verifier: Arc<dyn Verifier>,
    /// Makes what others check.
    pub authenticator: Box<dyn Authenticator>,
}

/// One replica; of one whose order is split, all that its pillars do not do themselves. It keeps
/// nothing.
pub struct Host {
    machine: Machine<'static, Stepped>,
    links: Links,
    node: Node,
    now: Millis,
}

impl Host {
    /// A replica of a fresh group that replicates [`Null`].
    #[must_use]
    pub fn new(
        me: ReplicaId,
        membership: &Arc<Membership>,
        protocol: &Descriptor,
        keys: Keys,
        tuning: Tuning,
    ) -> Self {
        let mut effects = Vec::new();
        let core = (protocol.start)(fresh(me, membership, tuning), &mut effects);
        let part = Part { core, effects };
        Self::around(part, me, membership, keys, false)
    }

    /// Around a core that was brought up. `is_split`: it merges the orders of pillars beside it.
    #[must_use]
    pub fn around(
        part: Part,
        me: ReplicaId,
        membership: &Arc<Membership>,
        keys: Keys,
        is_split: bool,
    ) -> Self {
        let life = membership.members[usize::from(me.0)].life();
        let epochs = Epochs::new(member(me), life, membership.clone());
        let sealer = Box::new(|_| unreachable!("every replica in here is admitted"));
        let machine = Machine::new(MachineParts {
            engine: engine(part, me, membership, keys),
            executor: Executor::new(membership.clone(), Box::new(Null::new())),
            transfer: Transfer::new(member(me)),
            spooling: None,
            epoch_manager: EpochManager::new(epochs, life, Box::new(OneEpoch), sealer),
            store: None,
            cache: None,
            resuming: Resuming::new(false, Vec::new()),
            is_split,
            prepared: Vec::new(),
            limits: HostLimits::default(),
        });
        let (links, node) = (Links::default(), Node::Replica(me));
        Self { machine, links, node, now: Millis(0) }
    }

    /// A client is connected.
    pub fn connect(&mut self, client: ClientId) {
        self.machine.on_link_up(ids::Node::Client(client));
    }

    /// Does something with the machine, which a probe sees.
    ///
    /// # Panics
    /// If the replica must not go on.
    fn drive<T>(
        &mut self,
        probe: &mut dyn Probe,
        act: impl FnOnce(&mut Machine<'static, Stepped>, &mut LinksDriver<'_>) -> Result<T, Halt>,
    ) -> T {
        let Self { machine, links, node, now } = self;
        let done = act(machine, &mut links.driver(*node, *now, probe));
        done.unwrap_or_else(|halt| panic!("nothing goes wrong in here: {halt}"))
    }

    /// A round begins.
    pub fn begin_round(&mut self, now: Millis, probe: &mut dyn Probe) {
        self.now = now;
        self.drive(probe, |machine, driver| machine.begin_round(now.0, Fault::None, driver));
    }

    /// Takes a client's message.
    pub fn on_client(&mut self, client: ClientId, bytes: &Bytes, probe: &mut dyn Probe) {
        self.drive(probe, |machine, driver| {
            machine.on_client(client, bytes, driver);
            Ok(())
        });
    }

    /// Whether a client's message is no request that others have had ordered and executed before it
    /// came here.
    #[must_use]
    pub fn is_new(&self, bytes: &Bytes) -> bool {
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => !self.machine.is_settled(&envelope),
            _ => true,
        }
    }

    /// Takes a replica's message.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes, probe: &mut dyn Probe) {
        self.drive(probe, |machine, driver| {
            machine.on_peer(member(peer), std::iter::once(bytes.clone()), false);
            machine.deliver_peers(driver)
        });
    }

    /// Checks the new envelopes together and hands them to the core; or has pillars check them.
    pub fn admit(&mut self, probe: &mut dyn Probe) {
        let now = self.now;
        self.drive(probe, |machine, driver| machine.deliver_clients(now, driver));
    }

    /// Hears what one of its pillars says.
    pub fn on_pillar(&mut self, pillar: u8, said: FromPillar, probe: &mut dyn Probe) {
        self.drive(probe, |machine, driver| machine.on_pillar(pillar, said, driver));
    }

    /// What pillars are to be told.
    pub fn to_pillars(&mut self) -> impl Iterator<Item = (u8, ToPillar)> {
        self.machine.to_pillars()
    }

    /// Says that the round is over.
    pub fn on_round(&mut self, probe: &mut dyn Probe) {
        let now = self.now;
        self.drive(probe, |machine, driver| machine.end_round(true, now, driver));
    }

    /// Lets the timer run out that retransmission waits for; false if none is armed.
    pub fn on_resend(&mut self, probe: &mut dyn Probe) -> bool {
        let Some(timer) = self.links.take_resend() else { return false };
        self.drive(probe, |machine, driver| machine.on_timeout(timer, driver));
        true
    }

    /// Results of up to so many bytes every replica tells; of longer ones all but one tell the
    /// digest.
    pub const fn tell_whole(&mut self, bytes: usize) {
        self.machine.tell_whole(bytes);
    }

    /// The delays of all armed timers.
    pub fn delays(&self) -> impl Iterator<Item = Delay> {
        self.links.delays()
    }

    /// Snapshots that were taken since the last call, by their digests.
    pub fn take_snapshots(&mut self) -> Vec<(Slot, Digest)> {
        self.links.take_snapshots()
    }

    /// Requests that were executed.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.machine.executor().requests()
    }

    /// Messages of this replica to other replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.links.to_peers()
    }

    /// Messages of this replica to clients.
    pub fn to_clients(&mut self) -> impl Iterator<Item = (ClientId, &mut Queue)> {
        self.links.to_clients()
    }

    /// The status report of the replica.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        self.machine.status(&Surroundings {
            elapsed: Duration::from_millis(self.now.0),
            links: self.links.report(),
            process: ProcessReport::default(),
            pillars: PillarsReport::default(),
        })
    }

    /// # Panics
    /// If it refused anything, as all in here are correct.
    pub fn assert_refused_nothing(&self) {
        let status = self.status();
        let refused: Vec<_> = status.rejects.into_iter().filter(|(_, count)| *count > 0).collect();
        assert!(refused.is_empty() && status.counters.findings == 0, "{refused:?}");
    }
}

/// A core among its peers.
#[must_use]
pub fn engine(part: Part, me: ReplicaId, membership: &Arc<Membership>, keys: Keys) -> Engine {
    Engine::new(EngineParts {
        core: Started { core: part.core, effects: part.effects },
        verifier: keys.verifier,
        authenticator: keys.authenticator,
        me: member(me),
        membership: membership.clone(),
        checks_itself: false,
    })
}

/// Who a replica is: all members have the numbers of their places in here.
#[must_use]
pub const fn member(ReplicaId(place): ReplicaId) -> MemberId {
    MemberId(place as u32)
}

/// What a fresh core is started with.
pub fn fresh(me: ReplicaId, membership: &Arc<Membership>, tuning: Tuning) -> Setup {
    let membership = membership.clone();
    Setup { me, membership, fetch: None, memory: Memory::Volatile, tuning }
}
