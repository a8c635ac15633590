//! One simulated replica: the machine that sockets drive too, with a device and keys, and with what
//! makes a replica lie. What it does comes out as a list of [`Act`]s; who carries them out, and
//! when, is the world's business, so the world and the trace runner share this file.

use crate::crypto::{Crypto, Keys};
use crate::devices::SimDevices;
use crate::key_ring::{KeyRing, SharedKeyRing};
use crate::observation::Observation;
use crate::packet::{Address, Packet, joins_later, member_at, member_of, place_of};
use crate::service::Journal;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier as _;
use pentarchy_core::counter::{Position, Refused};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{self, Epochs, Proof};
use pentarchy_core::erased::{CoreEvent, Incoming, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{
    ClientId, Epoch, Incarnation, Millis, Node, ReplicaId, ReplicaSet, Slot,
};
use pentarchy_core::limits::REPLY_WHOLE_BYTES_MIN;
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{Reject, Status, TimerKey};
use pentarchy_core::request::Envelope;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::Transfer;
use pentarchy_core::wire::Wire;
use pentarchy_machine::{
    Engine, EngineParts, EpochFactory, EpochManager, Halt, HostLimits, Machine, MachineParts,
    Newer, ObservedStore, OneEpoch, Resuming, Started, fault,
};
use pentarchy_storage::kept::Job;
use std::cell::RefMut;
use std::sync::{Arc, Mutex};

mod acts;
mod driver;
mod factory;
mod impostor;
mod informed;
mod kept;
mod leaving;
mod lies;
mod means;
mod parrot;
mod start;
mod usurp;

pub use acts::Act;
use driver::{SimDriver, Watch};
pub use impostor::Impostor;
pub use kept::{Kept, KeptDisk, SharedKept};
pub use leaving::stands;
pub use lies::{Fault, Lying};
use means::Means;
pub use means::OneDevice;
pub use parrot::Parrot;
pub use start::NodeStart;
pub use usurp::Usurping;

/// Where a core stands.
pub struct Statuses {
    /// As a whole.
    pub whole: Status,
    /// Each core of which it consists; none if it is one.
    pub pillars: Vec<Status>,
}

impl Statuses {
    /// Each core of which it consists, or itself.
    #[must_use]
    pub fn cores(&self) -> &[Status] {
        if self.pillars.is_empty() { core::slice::from_ref(&self.whole) } else { &self.pillars }
    }
}

/// A replica without a clock and without a network.
pub struct ReplicaNode<'f> {
    /// At which place.
    id: ReplicaId,
    machine: Machine<'f, KeptDisk>,
    watch: Watch,
    crypto: Arc<Crypto>,
    faulty: Option<Fault>,
    /// The slot of the state that it found on its disk when it started.
    started_at: Slot,
    /// The time of day that it knows.
    now: Millis,
    /// When it was asked last what it would show if it had to leave its view.
    asked: leaving::Asked,
}

/// A replica's devices; two copies of one replica may have the same ones.
pub type SharedDevice = Arc<Mutex<SimDevices>>;

/// What a replica node is made of.
pub struct Parts<'f> {
    /// At which place it is.
    pub id: ReplicaId,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// The clients, by index.
    pub clients: Arc<[ClientId]>,
    /// What executes.
    pub executor: Executor,
    /// What its service writes.
    pub journal: Journal,
    /// The core and its first effects.
    pub core: Started,
    /// The epochs, from the present one on. It may not admit the life of the device: then the core
    /// takes part in nothing, and the replica asks the group to admit it.
    pub epochs: Epochs,
    /// What makes the cores of later epochs.
    pub factory: Box<dyn EpochFactory + 'f>,
    /// Its trusted counters.
    pub device: SharedDevice,
    /// Its signing keys.
    pub ring: SharedKeyRing,
    /// Whether it is faulty, and how.
    pub faulty: Option<Fault>,
    /// Its disk, if it has one, ...
    pub kept: Option<SharedKept>,
    /// ... and what its machine keeps there.
    pub store: Option<ObservedStore<KeptDisk>>,
    /// Whether it asks others how far it had come before it speaks.
    pub asks: bool,
}

impl Parts<'_> {
    /// A correct replica that keeps nothing and never comes to another epoch. Its core may have
    /// come far.
    #[must_use]
    pub fn of_one_epoch(
        id: ReplicaId,
        membership: &Arc<Membership>,
        keys: (Arc<Crypto>, Arc<[ClientId]>, SharedDevice),
        core: Started,
        (executor, journal): (Executor, Journal),
    ) -> Self {
        let (crypto, clients, device) = keys;
        let epochs = Epochs::new(member_at(id), life_of(&device), membership.clone());
        let factory = Box::new(OneEpoch);
        let first = member_of(membership, id).expect("it is a member").signing;
        let ring = KeyRing::shared(id, first);
        let (faulty, kept, store, asks) = (None, None, None, false);
        Self {
            id,
            crypto,
            clients,
            executor,
            journal,
            core,
            epochs,
            factory,
            device,
            ring,
            faulty,
            kept,
            store,
            asks,
        }
    }
}

/// The life of a replica's devices.
#[must_use]
pub fn life_of(device: &SharedDevice) -> Life {
    let incarnation = device.lock().expect("a panic ends the world").incarnation();
    Life { incarnation, device_key: [0; 32] }
}

impl<'f> ReplicaNode<'f> {
    /// Puts a replica together, at this time, and carries out its first effects.
    #[must_use]
    pub fn new(parts: Parts<'f>, elapsed_ms: u64, out: &mut Vec<Act>) -> Self {
        let Parts { id, crypto, clients, executor, journal, core, epochs, factory, .. } = parts;
        let Parts { device, ring, faulty, kept, store, asks, .. } = parts;
        let membership = epochs.membership().clone();
        let is_faulty = faulty.is_some();
        let key = member_of(&membership, id).expect("it is a member").signing;
        // It may have stopped before it could go over to that.
        ring.lock().adopt(&key);
        let means = Means {
            id,
            crypto: crypto.clone(),
            ring,
            key,
            membership: membership.clone(),
            device: device.clone(),
            is_faulty,
        };
        let keys = Keys {
            crypto: crypto.clone(),
            me: id,
            membership: membership.clone(),
            lets_anyone_in: faulty.as_ref().is_some_and(|fault| fault.lets_anyone_in),
        };
        let engine = Engine::new(EngineParts {
            core,
            verifier: Arc::new(keys),
            authenticator: Box::new(means),
            me: member_at(id),
            membership: membership.clone(),
            checks_itself: !is_faulty,
        });
        let (sealing, life) = (crypto.clone(), life_of(&device));
        let sealer = Box::new(move |draft| sealing.seal(draft));
        let started_at = executor.executed();
        let machine = Machine::new(MachineParts {
            engine,
            executor,
            transfer: Transfer::new(member_at(id)),
            spooling: None,
            epoch_manager: EpochManager::new(epochs, life, factory, sealer),
            store,
            cache: None,
            resuming: Resuming::new(asks, Vec::new()),
            is_split: false,
            prepared: Vec::new(),
            limits: limits(),
        });
        let mut watch = Watch::new(id, clients, journal, device, kept, membership);
        (watch.is_faulty, watch.elapsed_ms) = (is_faulty, elapsed_ms);
        let (now, asked) = (Millis(elapsed_ms), leaving::Asked::default());
        let mut node = Self { id, machine, watch, crypto, faulty, started_at, now, asked };
        node.connect();
        node.drive(out, |_, _| Ok(()));
        node
    }

    /// Everybody is connected.
    fn connect(&mut self) {
        let others = self.others();
        let peers = others.iter().map(|peer| Node::Member(member_at(peer)));
        let clients = self.watch.clients.iter().copied().map(Node::Client);
        peers.chain(clients).for_each(|node| self.machine.on_link_up(node));
    }

    /// Which replica of its epoch it is.
    ///
    /// # Panics
    /// Never: one without a place ends.
    #[must_use]
    pub fn me(&self) -> ReplicaId {
        let me = self.watch.membership.index_of(member_at(self.id));
        me.expect("a replica without a place ends")
    }

    /// Where the other members of its epoch are.
    fn others(&self) -> ReplicaSet {
        let members = self.watch.membership.members.iter();
        let places = members.map(|member| ReplicaId(member.id.0 as u16));
        places.filter(|place| *place != self.id).collect()
    }

    /// Where a replica of its epoch is.
    #[must_use]
    pub fn place_of(&self, replica: ReplicaId) -> Option<ReplicaId> {
        place_of(&self.watch.membership, replica)
    }

    /// The group of its core, and how the configurations before ended.
    #[must_use]
    pub fn chain(&self) -> (Arc<Membership>, Vec<Proof>) {
        let membership = self.watch.membership.clone();
        let links = self.machine.epochs().links().iter();
        let ended = membership.stated.as_ref().map_or(0, |stated| stated.number);
        (membership, links.take(ended as usize).cloned().collect())
    }

    /// A connection began, or is over; nothing to do if it knows that.
    pub fn on_link(&mut self, whom: Address, is_up: bool) {
        let changes =
            if is_up { self.watch.down.remove(&whom) } else { self.watch.down.insert(whom) };
        let node = match whom {
            Address::Replica(peer) => Some(Node::Member(member_at(peer))),
            Address::Client(index) => {
                self.watch.clients.get(usize::from(index)).copied().map(Node::Client)
            }
        };
        match node.filter(|_| changes) {
            Some(node) if is_up => self.machine.on_link_up(node),
            Some(node) => self.machine.on_link_down(node),
            None => {}
        }
    }

    /// Those to whom it has no connection.
    pub fn disconnected(&self) -> impl Iterator<Item = Address> {
        self.watch.down.iter().copied()
    }

    /// Its counter does not answer any more.
    pub fn lose_counter(&self) {
        self.watch.device.lock().expect("a panic ends the world").fail();
    }

    /// Whether its counter does not answer any more, and whether it was asked since then.
    #[must_use]
    pub fn counter_failure(&self) -> (bool, bool) {
        self.watch.device.lock().expect("a panic ends the world").failure()
    }

    /// What its clocks show: one that nobody can set, and the time of day.
    pub const fn on_clock(&mut self, elapsed_ms: u64, now: Millis) {
        (self.watch.elapsed_ms, self.now) = (elapsed_ms, now);
    }

    /// Begins a round of the machine and has it do something, unless the replica has ended.
    fn drive(
        &mut self,
        out: &mut Vec<Act>,
        act: impl FnOnce(&mut Machine<'f, KeptDisk>, &mut SimDriver<'_>) -> Result<(), Halt>,
    ) {
        if self.is_dead() {
            return;
        }
        self.watch.begin(self.machine.epochs().is_admitted());
        let (epoch, elapsed_ms) = (self.epoch(), self.watch.elapsed_ms);
        let Self { machine, watch, .. } = self;
        let driver = &mut SimDriver { watch, out: &mut *out };
        let begun = machine.begin_round(elapsed_ms, fault::Fault::None, driver);
        match (begun.and_then(|()| act(machine, driver)), &self.watch.kept) {
            (Ok(()), _) => {}
            (Err(Halt::Storage(error)), Some(kept)) => kept.borrow_mut().on_failure(&error),
            (Err(Halt::Counter(Refused::Unavailable)), _) => {
                self.watch.has_ended = true;
                out.push(Act::Saw(Observation::LostCounter));
            }
            (Err(halt @ Halt::Rewound { .. }), Some(kept)) => {
                kept.borrow_mut().on_rewound();
                out.push(Act::Saw(Observation::Rewound(halt.to_string())));
            }
            (Err(Halt::Removed(epoch)), _) => {
                self.watch.has_ended = true;
                out.push(Act::Saw(Observation::Removed { epoch }));
            }
            (Err(halt), _) => panic!("{}: {halt}", self.id),
        }
        for member in core::mem::take(&mut self.watch.came) {
            self.machine.on_link_up(Node::Member(member));
        }
        for whom in core::mem::take(&mut self.watch.hung_up) {
            self.on_link(whom, false);
        }
        self.overhear_itself(epoch);
    }

    /// Has the machine do what leads to this event of the core.
    fn feed(&mut self, event: CoreEvent, out: &mut Vec<Act>) {
        if !self.is_mute() {
            self.drive(out, |machine, driver| machine.feed(event, driver));
        }
    }

    /// The members of the epoch in which it is.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.machine.membership()
    }

    /// Signs in the epoch of its core, whatever it is.
    fn sign(&self, digest: &Digest) -> [u8; 64] {
        let key = &self.watch.membership.members[usize::from(self.me().0)].signing;
        self.crypto.sign(self.id, key, digest)
    }

    /// Convinces each member of the epoch of its core by a MAC.
    fn macs(&self, digest: &Digest) -> MacVector {
        self.crypto.macs_of(self.id, &self.watch.membership, digest)
    }

    /// What it can check in the epoch of its core.
    fn keys(&self) -> Keys {
        let (crypto, membership) = (self.crypto.clone(), self.watch.membership.clone());
        let lets_anyone_in = self.faulty.as_ref().is_some_and(|fault| fault.lets_anyone_in);
        Keys { crypto, me: self.id, membership, lets_anyone_in }
    }

    /// Installs a state that came by another way than the transfer's messages.
    pub fn on_snapshot(&mut self, snapshot: Snapshot, out: &mut Vec<Act>) {
        self.drive(out, |machine, driver| machine.on_state(snapshot, driver));
    }

    /// Takes the replica apart again.
    #[must_use]
    pub fn into_parts(self) -> (Box<dyn ReplicaCore>, SharedDevice) {
        (self.machine.into_core(), self.watch.device)
    }

    /// Its disk.
    #[must_use]
    pub fn kept(&self) -> Option<RefMut<'_, Kept>> {
        self.watch.kept.as_ref().map(|kept| kept.borrow_mut())
    }

    /// Takes the disk out of a replica that crashed.
    pub const fn take_kept(&mut self) -> Option<SharedKept> {
        self.watch.kept.take()
    }

    /// Whether its power has failed: it does nothing any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.watch.is_dead()
    }

    /// The core, to look at.
    #[must_use]
    pub fn core(&self) -> &dyn ReplicaCore {
        self.machine.core()
    }

    /// Where its core stands.
    #[must_use]
    pub fn statuses(&self) -> Statuses {
        Statuses { whole: self.core().status(), pillars: self.core().statuses() }
    }

    /// The executor, to look at.
    #[must_use]
    pub const fn executor(&self) -> &Executor {
        self.machine.executor()
    }

    /// The slot of the state that it found on its disk when it started.
    #[must_use]
    pub const fn started_at(&self) -> Slot {
        self.started_at
    }

    /// The epoch of its core.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.watch.membership.epoch
    }

    /// The life of its device.
    #[must_use]
    pub fn life(&self) -> Incarnation {
        life_of(&self.watch.device).incarnation
    }

    /// Whether it knows that the group goes on without it.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.machine.is_leaving()
    }

    /// Whether it has yet to erase keys of earlier configurations.
    #[must_use]
    pub const fn is_to_erase_keys(&self) -> bool {
        self.machine.is_to_erase_keys()
    }

    /// Whether its epoch is over, and it is about to go on in the next one.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.epoch() != self.machine.epoch() || self.executor().is_ending()
    }

    /// What the device of another replica had certified last of what the core of this one was
    /// handed in its epoch; none if nothing.
    #[must_use]
    pub fn was_handed(&self, replica: ReplicaId) -> Option<Position> {
        let replica = self.watch.membership.index_of(member_at(replica))?;
        self.watch.handed.get(&replica).copied()
    }

    /// Whether the epoch that it is in admits this life of a replica's device.
    #[must_use]
    pub fn admits(&self, replica: ReplicaId, life: Incarnation) -> bool {
        let member = member_of(self.machine.membership(), replica);
        member.is_some_and(|member| member.incarnation == life)
    }

    /// Whether the epoch counts by its device.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.machine.epochs().is_admitted()
    }

    /// Whether the epoch counts by its device, and it has the state with which the epoch began:
    /// from then on it can be relied upon.
    #[must_use]
    pub fn is_level(&self) -> bool {
        let base = self.machine.membership().base.slot;
        self.is_admitted() && self.executor().executed() >= base
    }

    /// One line for traces about a message in its encoding.
    #[must_use]
    pub fn describe_wire(&self, wire: &Bytes) -> String {
        match self.open(self.id, wire) {
            Ok(incoming) => self.core().describe(&incoming),
            Err(why) => format!("{} bytes that are {}", wire.len(), why.name()),
        }
    }

    /// Of which kind a message is, if the core takes it for genuine when it comes from there.
    #[must_use]
    pub fn kind_of(&self, from: ReplicaId, wire: &Bytes) -> Option<&'static str> {
        self.open(from, wire).ok().map(|incoming| incoming.kind())
    }

    /// Opens a message as its core would, uncounted.
    fn open(&self, from: ReplicaId, wire: &Bytes) -> Result<Incoming, Reject> {
        let from = self.watch.membership.index_of(member_at(from)).ok_or(Reject::WrongRole)?;
        let open = || self.core().open(&self.keys(), from, wire);
        match self.crypto.real() {
            Some(all) => all.uncounted(open),
            None => open(),
        }
    }

    /// When it wants a round at the latest, by the clock that nobody can set.
    #[must_use]
    pub fn wake_at(&self) -> Millis {
        self.machine.wake_at()
    }

    /// The most messages of others that it has passed on to one peer, since this was asked last,
    /// because of one message that was no report.
    pub const fn take_relayed(&mut self) -> usize {
        core::mem::replace(&mut self.watch.relayed, 0)
    }

    /// The most envelopes of one client that it has checked in a round, since this was asked last.
    pub const fn take_checked(&mut self) -> usize {
        core::mem::replace(&mut self.watch.checked, 0)
    }

    /// What the service ran since the last call.
    pub fn drain_journal(&self) -> Vec<(Slot, ClientId, u64)> {
        self.watch.drain_journal()
    }

    /// The digest of the state as it is now. Takes a snapshot, so this is for the end of a run.
    pub fn state(&mut self) -> Digest {
        self.machine.executor_mut().checkpoint()
    }

    /// A job of the disk is done.
    pub fn on_disk(&mut self, job: Job, out: &mut Vec<Act>) {
        if let Some(mut kept) = self.kept() {
            kept.end(job);
        }
        self.drive(out, |_, _| Ok(()));
    }

    /// A packet came.
    pub fn on_packet(&mut self, from: Address, packet: &Packet, out: &mut Vec<Act>) {
        match (from, packet, packet.to_link()) {
            (Address::Replica(peer), _, Some(bytes)) => self.on_peer(peer, packet, bytes, out),
            (Address::Client(index), Packet::ToReplica(wire), _) => {
                self.on_client(index, wire, out);
            }
            _ => out.push(Act::Saw(Observation::Rejected { from, why: Reject::WrongRole })),
        }
    }

    fn on_peer(&mut self, peer: ReplicaId, packet: &Packet, bytes: Bytes, out: &mut Vec<Act>) {
        if joins_later(&self.watch.membership, peer) {
            return self.on_newer(peer, &bytes, out);
        }
        self.overhear_packet(peer, packet);
        if self.is_mute() && self.is_for_core(packet) {
            return;
        }
        // Who is heard is connected.
        let is_new = self.watch.down.contains(&Address::Replica(peer));
        self.on_link(Address::Replica(peer), true);
        self.drive(out, |machine, driver| {
            machine.on_peer(member_at(peer), core::iter::once(bytes), is_new);
            machine.deliver_peers(driver)
        });
    }

    /// A newer member spoke. This replica answers it over the channel that it opened.
    fn on_newer(&mut self, peer: ReplicaId, bytes: &Bytes, out: &mut Vec<Act>) {
        self.drive(out, |machine, driver| {
            if let Newer::Answer(answer) = machine.on_newer(bytes, driver) {
                let packet = Packet::from_link(&answer);
                driver.out.push(Act::Send { to: Address::Replica(peer), packet });
            }
            Ok(())
        });
    }

    /// A client's message waits for the end of the round.
    fn on_client(&mut self, index: u16, wire: &Bytes, out: &mut Vec<Act>) {
        let Some(client) = self.watch.clients.get(usize::from(index)).copied() else { return };
        self.overhear_client_packet(&client, wire, out);
        if self.is_mute() {
            return;
        }
        self.on_link(Address::Client(index), true);
        self.drive(out, |machine, driver| {
            machine.on_client(client, wire, driver);
            Ok(())
        });
    }

    /// Hands what clients sent to the core, although the round goes on.
    pub fn admit(&mut self, out: &mut Vec<Act>) {
        let now = self.now;
        self.drive(out, |machine, driver| machine.deliver_clients(now, driver));
    }

    /// A timer ran out.
    pub fn on_timeout(&mut self, timer: TimerKey, out: &mut Vec<Act>) {
        if !self.is_mute() {
            self.drive(out, |machine, driver| machine.on_timeout(timer, driver));
        }
    }

    /// All that had arrived was delivered.
    pub fn on_round(&mut self, out: &mut Vec<Act>) {
        let (now, is_mute) = (self.now, self.is_mute());
        self.drive(out, |machine, driver| {
            if is_mute {
                return machine.end_round_without_core(now, driver);
            }
            machine.deliver_clients(now, driver)?;
            machine.end_round(true, now, driver)
        });
        self.lie(now, out);
        self.usurp(out);
        self.impersonate(out);
        self.repeat(out);
    }

    /// Lets a liar know what another replica said, and what was said about epochs.
    fn overhear_packet(&mut self, peer: ReplicaId, packet: &Packet) {
        if self.faulty.is_none() {
            return;
        }
        match packet {
            Packet::Protocol(epoch, wire) if *epoch == self.epoch() => {
                let from = self.watch.membership.index_of(member_at(peer));
                let opens = |from| self.core().open_new(&self.keys(), from, wire).is_ok();
                if from.is_some_and(opens) {
                    self.overhear(wire);
                    self.teach(wire);
                }
            }
            Packet::Epochs(wire) => {
                let Ok(message) = epochs::Message::from_bytes(wire) else { return };
                self.overhear_epochs(&message);
                if let epochs::Message::Admit(envelope) = message {
                    self.overhear_envelope(&envelope);
                }
            }
            _ => {}
        }
    }

    fn overhear_client_packet(&mut self, client: &ClientId, wire: &Bytes, out: &mut Vec<Act>) {
        if self.faulty.is_some()
            && let Ok(ToReplica::Request(envelope)) = ToReplica::from_bytes(wire)
        {
            self.overhear_envelope(&envelope);
            self.collude(client, envelope, out);
        }
    }

    fn overhear_envelope(&mut self, envelope: &Arc<Envelope>) {
        if self.keys().envelope(envelope) {
            self.overhear_request(envelope);
            self.overhear_client(envelope);
        }
    }

    /// Whether a packet would reach the core.
    fn is_for_core(&self, packet: &Packet) -> bool {
        match packet {
            Packet::Protocol(epoch, _) => *epoch == self.epoch(),
            Packet::Epochs(wire) => {
                matches!(epochs::Message::from_bytes(wire), Ok(epochs::Message::Admit(_)))
            }
            _ => false,
        }
    }
}

/// Long results are so short here that replicas share them out.
fn limits() -> HostLimits {
    HostLimits { whole_result_bytes: REPLY_WHOLE_BYTES_MIN, ..HostLimits::default() }
}
