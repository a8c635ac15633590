//! A machine, a driver that writes down what it asks for, and a core that orders at once.

use crate::disk::SlowDisk;
use crate::keys::{Eyes, Hand, N};
use bytes::Bytes;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Epochs;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Incoming, Outgoing, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, MemberId, Millis, Node, ReplicaId};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::{Reply, ToClient, ToReplica};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Authority, Delay, FaultModel, Reject, Rules, Status};
use pentarchy_core::protocol::{TimerKey, Topic};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::transfer::Transfer;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_machine::fault::Fault;
use pentarchy_machine::report::{LinkReport, PillarsReport, ProcessReport};
use pentarchy_machine::{
    Driver, Engine, EngineParts, EpochManager, Halt, HangUp, HostLimits, Kind, Machine,
    MachineParts, ObservedStore, OneEpoch, Pause, Resuming, Started, StatusReport, Surroundings,
    ToAuthority,
};
use pentarchy_services::null::Null;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{Certificates, DurableStore};
use std::cell::Cell;
use std::hash::Hasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const RULES: Rules = Rules {
    name: "at once",
    fault_model: FaultModel::Hybrid,
    group_size: Count::per_fault_and_one(2),
    quorum: QuorumRule::Majority,
    replies: Count::per_fault_and_one(1),
    reads: ReadRule::All,
    pillars: false,
    speculative: false,
    hears_slot_results: false,
    replies_itself: false,
    authority: Authority::Members,
    counter: Some(Counter::Usig),
};

/// Writes down what a machine asks for. Its clock goes on by a millisecond with each look.
#[derive(Default)]
pub struct Recorder {
    pub to_peers: Vec<(MemberId, Kind, Bytes)>,
    pub to_clients: Vec<(ClientId, ToClient)>,
    pub hung_up: Vec<(ClientId, HangUp)>,
    pub paused: Vec<(ClientId, Pause)>,
    pub paused_peers: Vec<MemberId>,
    /// As it was told last; nobody before.
    pub members: Vec<MemberId>,
    pub to_authority: Vec<ToAuthority>,
    now_ms: Cell<u64>,
    /// How much each look at the clock takes.
    pub look_ms: u64,
}

impl Driver for Recorder {
    type Notices = ();

    fn send_peer(&mut self, peer: MemberId, kind: Kind, encode: impl FnOnce(&mut Writer)) {
        let mut to = Writer::default();
        encode(&mut to);
        self.to_peers.push((peer, kind, to.into_bytes()));
    }
    fn send_client(&mut self, client: &ClientId, message: &ToClient) -> bool {
        self.to_clients.push((*client, message.clone()));
        true
    }
    fn tell_authority(&mut self, message: ToAuthority) {
        self.to_authority.push(message);
    }
    fn hang_up(&mut self, client: &ClientId, why: HangUp) {
        self.hung_up.push((*client, why));
    }
    fn pause_client(&mut self, client: &ClientId, pause: Pause) {
        self.paused.push((*client, pause));
    }
    fn pause_peer(&mut self, peer: MemberId) {
        self.paused_peers.push(peer);
    }
    fn on_members(&mut self, membership: &Membership) {
        self.members = membership.members.iter().map(|it| it.id).collect();
    }
    fn peer_queued_bytes(&self, _: MemberId) -> usize {
        0
    }
    fn client_queued_bytes(&self, _: &ClientId) -> usize {
        0
    }
    fn arm(&mut self, _: TimerKey, _: Delay) {}
    fn disarm(&mut self, _: TimerKey) {}
    fn disarm_all(&mut self) {}
    fn elapsed(&self) -> Duration {
        self.now_ms.set(self.now_ms.get() + self.look_ms);
        Duration::from_millis(self.now_ms.get())
    }
}

/// A machine that keeps nothing, or has a disk that is behind, with its driver.
pub struct Bench {
    pub machine: Machine<'static, SlowDisk>,
    pub driver: Recorder,
    now_ms: u64,
}

impl Bench {
    /// Replica 0, with all clients' envelopes authentic that [say so](envelope).
    pub fn new(limits: HostLimits) -> Self {
        Self::of(ReplicaId(0), limits, false)
    }

    /// `resumes`: it goes on from a data folder, with a device that had said something.
    pub fn of(me: ReplicaId, limits: HostLimits, resumes: bool) -> Self {
        let core = Started { core: Box::new(AtOnce::default()), effects: Vec::new() };
        Self::with(me, core, limits, resumes)
    }

    /// The same, of another core.
    pub fn with(me: ReplicaId, core: Started, limits: HostLimits, resumes: bool) -> Self {
        Self::on(None, me, core, limits, resumes)
    }

    /// The same, of a replica that keeps what it says.
    pub fn keeping(disk: SlowDisk, me: ReplicaId, core: Started, limits: HostLimits) -> Self {
        Self::on(Some(disk), me, core, limits, false)
    }

    fn on(
        disk: Option<SlowDisk>,
        me: ReplicaId,
        core: Started,
        limits: HostLimits,
        resumes: bool,
    ) -> Self {
        let store = |disk| DurableStore::new(disk, None, Certificates::default());
        let membership = membership();
        let life = membership.members[usize::from(me.0)].life();
        let epochs = Epochs::new(member(me), life, membership.clone());
        let engine = Engine::new(EngineParts {
            core,
            verifier: Arc::new(Eyes(me)),
            authenticator: Box::new(Hand { me, remembers: resumes }),
            me: member(me),
            membership: membership.clone(),
            checks_itself: true,
        });
        let sealer = Box::new(|draft: Draft| draft.seal(RequestAuth::Signature([1; 64])));
        let machine = Machine::new(MachineParts {
            engine,
            executor: Executor::new(membership, Box::new(Null::new())),
            transfer: Transfer::new(member(me)),
            spooling: None,
            epoch_manager: EpochManager::new(epochs, life, Box::new(OneEpoch), sealer),
            store: disk.map(|disk| ObservedStore::new(store(disk))),
            cache: None,
            resuming: Resuming::new(resumes, Vec::new()),
            is_split: false,
            prepared: Vec::new(),
            limits,
        });
        Self::of_machine(machine)
    }

    pub fn of_machine(machine: Machine<'static, SlowDisk>) -> Self {
        Self { machine, driver: Recorder::default(), now_ms: 0 }
    }

    /// A round, so much later, in which clients send these.
    pub fn round(&mut self, after_ms: u64, sent: &[(ClientId, Bytes)]) -> Result<(), Halt> {
        self.now_ms += after_ms;
        let Self { machine, driver, .. } = self;
        let now = Millis(self.now_ms);
        machine.begin_round(self.now_ms, Fault::None, driver)?;
        sent.iter().for_each(|(client, bytes)| machine.on_client(*client, bytes, driver));
        machine.deliver_peers(driver)?;
        machine.deliver_clients(now, driver)?;
        machine.end_round(true, now, driver)
    }

    pub fn connect(&mut self, client: ClientId) {
        self.machine.on_link_up(Node::Client(client));
    }

    /// The results that clients were told since the last call, by their numbers.
    pub fn take_results(&mut self) -> Vec<(ClientId, u64)> {
        let told = std::mem::take(&mut self.driver.to_clients).into_iter();
        let results = |(client, message)| match message {
            ToClient::Replies { replies, .. } => {
                replies.iter().map(|reply: &Reply| (client, reply.number)).collect()
            }
            _ => Vec::new(),
        };
        told.flat_map(results).collect()
    }

    pub fn status(&self) -> StatusReport {
        self.machine.status(&Surroundings {
            elapsed: Duration::from_millis(self.now_ms),
            links: LinkReport::default(),
            process: ProcessReport::default(),
            pillars: PillarsReport::default(),
        })
    }
}

/// Members have the numbers of their places.
pub const fn member(ReplicaId(place): ReplicaId) -> MemberId {
    MemberId(place as u32)
}

/// Hands over what one said to another. How much that was.
pub fn pass(from: &mut Bench, me: u16, to: &mut Bench, other: u16) -> usize {
    let said = std::mem::take(&mut from.driver.to_peers).into_iter();
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        said.partition(|(peer, ..)| *peer == member(ReplicaId(other)));
    from.driver.to_peers = elsewhere;
    let messages: Vec<Bytes> = here.into_iter().map(|(.., bytes)| bytes).collect();
    let count = messages.len();
    to.machine.on_peer(member(ReplicaId(me)), messages.into_iter(), false);
    count
}

/// An empty disk of this replica.
pub fn disk(me: ReplicaId) -> SlowDisk {
    SlowDisk::new(identity(me), membership())
}

/// Whose disk that is.
pub fn identity(me: ReplicaId) -> Identity {
    let membership = membership();
    let incarnation = membership.members[usize::from(me.0)].incarnation;
    Identity { group: membership.group, replica: me, incarnation }
}

pub const fn client(number: u8) -> ClientId {
    ClientId([number; 32])
}

/// A client's request of this number, as it is sent. It is authentic if it says so.
pub fn request(id: ClientId, number: u64, is_authentic: bool) -> Bytes {
    let requests = vec![Request { number, operation: Null::operation(8, 8).into() }];
    let draft = Draft { client: id, floor: 1, events: None, requests };
    let auth = RequestAuth::Signature([u8::from(is_authentic); 64]);
    ToReplica::Request(Arc::new(draft.seal(auth))).to_bytes()
}

pub fn membership() -> Arc<Membership> {
    let member = |id: u16| ([100 + id as u8; 32], Life::mac(Incarnation(1)));
    Arc::new(Membership::of_keys(GroupId([5; 16]), 1, (0..N).map(member)))
}

/// Orders each request as soon as it is told, and has it executed.
#[derive(Clone, Default)]
pub struct AtOnce {
    executed: u64,
    /// Who said something in its epoch, as it is told.
    heard: Arc<Mutex<Vec<ReplicaId>>>,
}

impl AtOnce {
    /// It notes there whom it hears.
    pub fn heard_by(heard: Arc<Mutex<Vec<ReplicaId>>>) -> Self {
        Self { executed: 0, heard }
    }
}

impl ReplicaCore for AtOnce {
    fn rules(&self) -> Rules {
        RULES
    }
    fn open(&self, _: &dyn Verifier, _: ReplicaId, _: &Bytes) -> Result<Incoming, Reject> {
        Err(Reject::BadAuth)
    }
    fn open_new(
        &self,
        _: &dyn Verifier,
        peer: ReplicaId,
        _: &Bytes,
    ) -> Result<Option<Incoming>, Reject> {
        self.heard.lock().unwrap().push(peer);
        Err(Reject::Malformed)
    }
    fn open_client(&self, _: &dyn Verifier, _: &Bytes) -> Result<Incoming, Reject> {
        Err(Reject::WrongRole)
    }
    fn seal(&self, _: &Outgoing, _: AuthTag) -> (Bytes, Incoming) {
        unreachable!("it sends nothing")
    }
    fn step(&mut self, event: CoreEvent, out: &mut Vec<CoreEffect>) {
        if let CoreEvent::Input(Input::Request { envelope, .. }) = event {
            self.executed += 1;
            let batch = Batch {
                time: Millis(self.executed),
                digest: envelope.digest,
                envelopes: vec![envelope],
            };
            let output = Output::Execute { slot: Slot(self.executed), batch: Arc::new(batch) };
            out.push(CoreEffect::Output(output));
        }
    }
    fn assert_invariants(&self) {}
    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "normal",
            committed: Slot(self.executed),
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: 0,
            view_changes: 0,
            reason: "",
        }
    }
    fn fingerprint(&self, _: &mut dyn Hasher) {}
    fn boxed_clone(&self) -> Box<dyn ReplicaCore> {
        Box::new(self.clone())
    }
    fn topic(&self, _: &Incoming) -> Option<(Topic, Digest)> {
        None
    }
    fn describe(&self, _: &Incoming) -> String {
        String::new()
    }
}
