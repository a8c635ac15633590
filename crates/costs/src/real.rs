//! Groups with real keys, counters and channels. The keys are known to everybody: nothing is to be
//! protected in here.

use crate::client::Sealer;
use crate::group::Group;
use crate::host::{Keys, Tagger};
use crate::{Channels, Node};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag};
use pentarchy_core::counter::{Counter, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, ReplicaId};
use pentarchy_core::membership::{Base, Member, Membership};
use pentarchy_core::protocol::Tuning;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::keys::{KeyPair, channel_public};
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use pentarchy_io::channel::{Channel, Identity};
use pentarchy_protocols::Entry;
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
pub fn membership(protocol: &Entry, f: usize) -> Arc<Membership> {
    let member = |id: u16| Member {
        key: replica_key(ReplicaId(id)).public(),
        incarnation: Incarnation(1),
        device_key: [0; 32],
    };
    let members = (0..protocol.rules.replicas(f) as u16).map(member).collect();
    // A server that is alone survives nothing.
    let f = if protocol.rules.replicas_factor == 0 { 0 } else { f };
    let (group, epoch, base) = (GroupId([7; 16]), Epoch(0), Base::default());
    Arc::new(Membership { group, epoch, f, members, base, lane: Default::default() })
}

struct Certifying(Authenticator);

impl Tagger for Certifying {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> AuthTag {
        self.0.tag(auth, digest).expect("no position is asked for twice")
    }
}

/// What a member checks and convinces with, with a fresh counter in this process.
///
/// # Panics
/// If the membership is not [`membership`]'s.
#[must_use]
pub fn keys(protocol: &Entry, me: ReplicaId, membership: &Arc<Membership>) -> Keys {
    let (device, check) = counter(protocol, me, membership);
    let verifier = GroupVerifier::new(membership.clone(), check, RequestMode::Signature, None);
    let authenticator = Authenticator::new(replica_key(me), vec![device]);
    let verifier = Arc::new(verifier.expect("keys are keys"));
    Keys { verifier, tagger: Box::new(Certifying(authenticator)) }
}

type Device = (Box<dyn Usig>, Arc<dyn UsigCheck>);

fn counter(protocol: &Entry, me: ReplicaId, membership: &Arc<Membership>) -> Device {
    let identity = DeviceIdentity::chosen(Incarnation(1), None);
    if protocol.rules.counter == Counter::Trinx {
        let device = OrderCounter::open(membership, me, &identity, Some(&SECRET));
        let device = device.expect("a MAC device");
        let check = device.check();
        return (Box::new(device), check);
    }
    let device = InProcess::open(membership, me, identity, Some(&SECRET)).expect("a MAC device");
    let check = device.check();
    (Box::new(device), check)
}

/// A client that signs its requests.
#[must_use]
pub fn sealer(index: usize, membership: &Membership) -> (ClientId, Sealer) {
    let signer = ClientSigner::signature(client_key(index), membership.group_domain());
    (signer.client_id(), Box::new(move |draft| signer.seal(draft)))
}

/// A fresh group for `f` faults with so many clients, all connected to all.
#[must_use]
pub fn group(protocol: &Entry, f: usize, clients: usize) -> Group {
    tuned(protocol, f, clients, Tuning::default())
}

/// The same, of these sizes.
#[must_use]
pub fn tuned(protocol: &Entry, f: usize, clients: usize, tuning: Tuning) -> Group {
    lane(protocol, f, 0, clients, tuning)
}

/// The same as one pillar of several: no two of them have clients or messages in common.
#[must_use]
pub fn lane(protocol: &Entry, f: usize, lane: usize, clients: usize, tuning: Tuning) -> Group {
    let membership = membership(protocol, f);
    let noise = Noise::new(&membership, clients);
    let first = lane * clients;
    let sealers = (first..first + clients).map(|index| sealer(index, &membership)).collect();
    let keys = |me| keys(protocol, me, &membership);
    Group::tuned(protocol, &membership, keys, sealers, Box::new(noise), tuning)
}

/// Both ends of every connection, whose handshakes are over.
pub struct Noise {
    ends: BTreeMap<(Node, Node), Channel>,
}

impl Noise {
    /// Between all replicas, and from so many clients to all of them.
    ///
    /// # Panics
    /// If the membership is not [`membership`]'s.
    #[must_use]
    pub fn new(membership: &Membership, clients: usize) -> Self {
        let mut noise = Self { ends: BTreeMap::new() };
        for id in membership.ids() {
            for other in membership.ids().filter(|other| *other < id) {
                noise.connect(membership, Node::Replica(id), other);
            }
            (0..clients).for_each(|index| noise.connect(membership, Node::Client(index), id));
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
