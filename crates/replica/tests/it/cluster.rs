//! Replicas and clients of one test.

use crate::follow::Follow;
use crate::tally::{Believer, Tally};
use bytes::Bytes;
use pentarchy_client::{Client, ClientConfig};
use pentarchy_core::auth::Verifier;
use pentarchy_core::configuration::Access;
use pentarchy_core::counter::{Position, Refused, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Protocol as _, Rules, Setup, Timeouts, Tuning};
use pentarchy_core::service::Whole;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::signing_keys::SigningKeys;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use pentarchy_replica::{EpochFactory, HostLimits, Listen, Replica, ReplicaConfig, Running};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A counter that certifies nothing.
pub struct NoCounter;

impl Usig for NoCounter {
    fn incarnation(&self) -> Incarnation {
        Incarnation(1)
    }
    fn begin_epoch(&mut self, _: &Membership) -> Result<(), Refused> {
        Ok(())
    }
    fn create(&mut self, _position: Position, _digest: &Digest) -> Result<Ui, Refused> {
        Err(Refused::Unavailable)
    }
    fn verify(&self, _replica: ReplicaId, _ui: &Ui, _digest: &Digest) -> bool {
        false
    }
}

/// Starts [`Follow`].
struct Following {
    me: ReplicaId,
    tuning: Tuning,
}

impl EpochFactory for Following {
    fn rules(&self, _: &Membership) -> Rules {
        Follow::RULES
    }
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let (membership, mode) = (membership.clone(), RequestMode::Signature);
        Arc::new(GroupVerifier::new(membership, Arc::new(NoCounter), mode, None).unwrap())
    }
    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        let (me, membership, tuning) = (self.me, membership.clone(), self.tuning);
        let setup = Setup { me, membership, fetch, memory, tuning };
        Box::new(Erased::<Follow>::start(setup, effects))
    }
    fn check_records(&self, _: &Membership, records: &[Bytes]) -> Result<(), BadRecord> {
        Erased::<Follow>::check_records(records)
    }
}

impl UsigCheck for NoCounter {
    fn check(&self, _replica: ReplicaId, _ui: &Ui, _digest: &Digest) -> bool {
        false
    }
}

/// What a test changes before a replica starts.
pub type Change<'a> = &'a dyn Fn(&mut ReplicaConfig);

pub struct Cluster {
    pub membership: Arc<Membership>,
    pub addresses: Vec<SocketAddr>,
    /// Replicas that listen and are not started.
    prepared: VecDeque<Replica>,
    replicas: Vec<Running>,
}

impl Cluster {
    pub fn start(n: u8) -> Self {
        Self::with(n, Tuning::default(), &|_| {})
    }

    pub fn with(n: u8, tuning: Tuning, change: Change<'_>) -> Self {
        let mut cluster = Self::prepare(n, tuning, change);
        (0..n).for_each(|_| cluster.start_next());
        cluster
    }

    /// Starts the replica with the lowest id that is not started.
    pub fn start_next(&mut self) {
        let replica = self.prepared.pop_front().unwrap();
        self.replicas.push(replica.spawn().unwrap());
    }

    pub fn prepare(n: u8, tuning: Tuning, change: Change<'_>) -> Self {
        let keys: Vec<_> = (0..n).map(|id| KeyPair::from_seed([100 + id; 32])).collect();
        let member = |keys: &KeyPair| (keys.public(), Life::mac(Incarnation(1)));
        let group = Membership::of_keys(GroupId([5; 16]), 0, keys.iter().map(member));
        let membership = Arc::new(Membership { epoch: Epoch(1), ..group });
        let listeners: Vec<_> =
            keys.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        let prepared = membership.ids().zip(keys).zip(listeners).map(|((me, keys), listener)| {
            let life = membership.members[usize::from(me.0)].life();
            let mut config = ReplicaConfig {
                me,
                membership: membership.clone(),
                links: Vec::new(),
                addresses: addresses.clone(),
                listen: Listen::Bound(listener),
                epochs: Box::new(Following { me, tuning }),
                service: Box::new(Whole::new(Tally::default())),
                learned: None,
                signer: ClientSigner::signature(keys.clone(), membership.group_domain()),
                signing: SigningKeys::in_memory(keys.clone(), keys.clone(), None),
                keys,
                counters: vec![Box::new(NoCounter)],
                life,
                timeouts: Timeouts::default(),
                access: Access::Open,
                limits: HostLimits::default(),
                storage: None,
                states: None,
            };
            change(&mut config);
            Replica::new(config).unwrap()
        });
        let prepared = prepared.collect();
        Self { membership, addresses, prepared, replicas: Vec::new() }
    }

    /// A client that believes a result when all replicas agree.
    pub fn client(&self, seed: u8) -> Client {
        Client::connect(self.client_config(seed, self.membership.n())).unwrap()
    }

    /// A client that believes a result when `needed` replicas agree.
    pub fn client_config(&self, seed: u8, needed: usize) -> ClientConfig {
        let keys = KeyPair::from_seed([seed; 32]);
        let core = Believer::new(keys.client_id(), self.membership.ids().collect(), needed);
        let (membership, addresses) = (self.membership.clone(), self.addresses.clone());
        ClientConfig::new(membership, addresses, keys, Box::new(core))
    }

    /// Asks a replica for its status until it is as wanted.
    pub fn await_status(
        &self,
        client: &Client,
        replica: u16,
        mut wanted: impl FnMut(&Json) -> bool,
    ) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = client.status(ReplicaId(replica)).wait_timeout(PATIENCE);
            let status = status.map(|bytes| Json::new(&bytes));
            if status.as_ref().is_ok_and(&mut wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "replica {replica} never was as wanted: {status:?}");
            std::thread::yield_now();
        }
    }

    /// Ends all replicas, each of which must not have ended by itself.
    pub fn stop(self) {
        self.replicas.into_iter().for_each(|replica| replica.stop().unwrap());
    }

    pub fn replicas(self) -> Vec<Running> {
        self.replicas
    }
}

/// A status report.
#[derive(Debug)]
pub struct Json(serde_json::Value);

impl Json {
    pub fn new(bytes: &Bytes) -> Self {
        Self(serde_json::from_slice(bytes).unwrap())
    }
    pub fn number(&self, path: &str) -> u64 {
        self.0.pointer(path).unwrap().as_u64().unwrap()
    }
    /// A number that may be missing as long as it is 0.
    pub fn count(&self, path: &str) -> u64 {
        self.0.pointer(path).map_or(0, |number| number.as_u64().unwrap())
    }
    pub fn list(&self, path: &str) -> usize {
        self.0.pointer(path).unwrap().as_array().unwrap().len()
    }
}
