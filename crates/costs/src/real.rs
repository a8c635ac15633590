//! Groups with real keys, counters and channels. The keys are known to everybody: nothing is to be
//! protected in here.

use crate::client::Sealer;
use crate::group::Group;
use crate::host::Keys;
use crate::{Channels, Node};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Counter, Instance, TrustedMac, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, ReplicaId};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::{Life, Membership, PillarConfig};
use pentarchy_core::protocol::Tuning;
use pentarchy_core::request::Envelope;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::keys::{KeyPair, channel_public};
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use pentarchy_io::channel::{Channel, Identity};
use pentarchy_protocols::Descriptor;
use pentarchy_trusted::{DeviceIdentity, InProcess, OrderCounter};
use std::collections::BTreeMap;
use std::sync::Arc;

const SECRET: [u8; 32] = [9; 32];

fn replica_key(id: ReplicaId) -> KeyPair {
    KeyPair::from_seed([id.0 as u8 + 1; 32])
}

fn client_key(index: usize) -> KeyPair {
    let mut seed = [0xc1; 32];
    seed[..8].copy_from_slice(&index.to_le_bytes());
    KeyPair::from_seed(seed)
}

/// A group of a protocol for `f` faults.
#[must_use]
pub fn membership(protocol: &Descriptor, f: usize) -> Arc<Membership> {
    in_pillars(protocol, f, 1)
}

/// The same with its order split into so many pillars.
#[must_use]
pub fn in_pillars(protocol: &Descriptor, f: usize, pillars: u8) -> Arc<Membership> {
    let member = |id: u16| (replica_key(ReplicaId(id)).public(), Life::mac(Incarnation(1)));
    let members = (0..protocol.rules.replicas(f) as u16).map(member);
    // A server that is alone survives nothing.
    let f = if protocol.rules.tolerates_faults() { f } else { 0 };
    let lane = PillarConfig { pillars, ..PillarConfig::default() };
    Arc::new(Membership { lane, ..Membership::of_keys(GroupId([7; 16]), f, members) })
}

/// What a replica makes of clients' signatures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Envelopes {
    /// It checks them.
    Checked,
    /// It takes them for genuine: what is left is what replicas do to agree.
    Believed,
}

/// Checks what replicas say, and believes clients.
struct Trusting(GroupVerifier);

impl Verifier for Trusting {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        self.0.signature(replica, digest, signature)
    }
    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        self.0.usig(replica, digest, ui)
    }
    fn mac(&self, by: (ReplicaId, Instance), digest: &Digest, mac: &TrustedMac) -> bool {
        self.0.mac(by, digest, mac)
    }
    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        self.0.vector(author, digest, macs)
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

/// What a member checks and convinces with, with fresh counters in this process.
///
/// # Panics
/// If the membership is not [`membership`]'s.
#[must_use]
pub fn keys(protocol: &Descriptor, me: ReplicaId, membership: &Arc<Membership>) -> Keys {
    let (verifier, devices) = opened(protocol, me, membership, Envelopes::Checked);
    with(&verifier, Authenticator::new(replica_key(me), devices))
}

/// The same for a replica whose pillars have their own: those of everything else, and of each.
/// There is one verifier, which all share.
///
/// # Panics
/// If the membership is not [`in_pillars`]'.
#[must_use]
pub fn keys_of_parts(
    protocol: &Descriptor,
    me: ReplicaId,
    membership: &Arc<Membership>,
    envelopes: Envelopes,
) -> (Keys, Vec<Keys>) {
    let (verifier, devices) = opened(protocol, me, membership, envelopes);
    let key = replica_key(me);
    let pillars = membership.lane.pillars;
    if pillars == 1 {
        return (with(&verifier, Authenticator::new(key, devices)), Vec::new());
    }
    let (front, pillar_cores) = Authenticator::of_pillars(&key, devices, pillars);
    (with(&verifier, front), pillar_cores.into_iter().map(|it| with(&verifier, it)).collect())
}

fn with(verifier: &Arc<dyn Verifier>, authenticator: Authenticator) -> Keys {
    Keys { verifier: verifier.clone(), authenticator: Box::new(authenticator) }
}

type Opened = (Arc<dyn Verifier>, Vec<Box<dyn Usig>>);

fn opened(
    protocol: &Descriptor,
    me: ReplicaId,
    membership: &Arc<Membership>,
    envelopes: Envelopes,
) -> Opened {
    let (devices, check) = counters(protocol, me, membership);
    let verifier = GroupVerifier::new(membership.clone(), check, RequestMode::Signature, None);
    let verifier = verifier.expect("keys are keys");
    match envelopes {
        Envelopes::Checked => (Arc::new(verifier), devices),
        Envelopes::Believed => (Arc::new(Trusting(verifier)), devices),
    }
}

type Devices = (Vec<Box<dyn Usig>>, Arc<dyn UsigCheck>);

/// One for each pillar, if the protocol's are of that kind.
fn counters(protocol: &Descriptor, me: ReplicaId, membership: &Arc<Membership>) -> Devices {
    let me = membership.members[usize::from(me.0)].id;
    let identity = DeviceIdentity::chosen(Incarnation(1), None);
    if protocol.rules.device() == Counter::Trinx {
        let pillars = membership.lane.pillars;
        let devices = OrderCounter::open_all(membership, me, &identity, Some(&SECRET), pillars);
        let devices = devices.expect("MAC devices");
        let check = devices.first().expect("there is a pillar").check();
        let boxed = |device| -> Box<dyn Usig> { Box::new(device) };
        return (devices.into_iter().map(boxed).collect(), check);
    }
    let device = InProcess::open(membership, me, identity, Some(&SECRET)).expect("a MAC device");
    let check = device.check();
    (vec![Box::new(device)], check)
}

/// A client that signs its requests.
#[must_use]
pub fn sealer(index: usize, membership: &Membership) -> (ClientId, Sealer) {
    let signer = ClientSigner::signature(client_key(index), membership.group_domain());
    (signer.client_id(), Box::new(move |draft| signer.seal(draft)))
}

/// A fresh group for `f` faults with so many clients, all connected to all.
#[must_use]
pub fn group(protocol: &Descriptor, f: usize, clients: usize) -> Group {
    tuned(protocol, f, clients, Tuning::default())
}

/// The same, of these sizes.
#[must_use]
pub fn tuned(protocol: &Descriptor, f: usize, clients: usize, tuning: Tuning) -> Group {
    split(protocol, f, 1, clients, tuning)
}

/// The same with its order split into so many pillars, which each replica runs in one thread.
#[must_use]
pub fn split(
    protocol: &Descriptor,
    f: usize,
    pillars: u8,
    clients: usize,
    tuning: Tuning,
) -> Group {
    let membership = in_pillars(protocol, f, pillars);
    let noise = Noise::new(&membership, 0..clients);
    let sealers = (0..clients).map(|index| sealer(index, &membership)).collect();
    let keys = |me| keys(protocol, me, &membership);
    Group::tuned(protocol, &membership, keys, sealers, Box::new(noise), tuning)
}

/// Both ends of every connection, whose handshakes are over.
pub struct Noise {
    ends: BTreeMap<(Node, Node), Channel>,
}

impl Noise {
    /// Between all replicas, and from clients with these indexes to all of them.
    ///
    /// # Panics
    /// If the membership is not [`membership`]'s.
    #[must_use]
    pub fn new(membership: &Membership, clients: impl Iterator<Item = usize> + Clone) -> Self {
        let mut noise = Self { ends: BTreeMap::new() };
        for id in membership.ids() {
            for other in membership.ids().filter(|other| *other < id) {
                noise.connect(membership, Node::Replica(id), other);
            }
            clients.clone().for_each(|index| noise.connect(membership, Node::Client(index), id));
        }
        noise
    }

    fn connect(&mut self, membership: &Membership, from: Node, to: ReplicaId) {
        let keys = |node| match node {
            Node::Replica(id) => replica_key(id),
            Node::Client(index) => client_key(index),
        };
        let domain = membership.group_domain();
        let identity = |node| Identity::new(*keys(node).channel_secret(), &domain);
        let node = Node::Replica(to);
        let remote = channel_public(&keys(node).public()).expect("a good key");
        let (mut asked, mut answered, mut none) = (Vec::new(), Vec::new(), Vec::new());
        let max = 4 << 20;
        let mut first = Channel::initiator(&identity(from), &remote, max, &mut asked).unwrap();
        let mut second = Channel::responder(&identity(node), max).unwrap();
        second.read(&asked, &mut none, &mut answered).unwrap();
        first.read(&answered, &mut none, &mut Vec::new()).unwrap();
        // Who dials says who it is.
        let mut hello = Vec::new();
        first.write(&[1, 0, 0, 0, 0], &mut hello).unwrap();
        second.read(&hello, &mut none, &mut Vec::new()).unwrap();
        self.ends.insert((from, node), first);
        self.ends.insert((node, from), second);
    }
}

impl Channels for Noise {
    fn seal(&mut self, from: Node, to: Node, plain: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        let end = self.ends.get_mut(&(from, to)).expect("all are connected");
        end.write(plain, &mut wire).expect("an open channel");
        wire
    }
    fn open(&mut self, from: Node, to: Node, wire: Vec<u8>, messages: &mut Vec<Bytes>) {
        let end = self.ends.get_mut(&(to, from)).expect("all are connected");
        end.read(&wire, messages, &mut Vec::new()).expect("an authentic frame");
    }
}
