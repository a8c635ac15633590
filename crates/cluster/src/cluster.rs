//! A whole cluster inside one process, for examples, tests and programs that embed one.

use crate::administration::Administrator;
use crate::config::Durability;
use crate::data::DataFolder;
use crate::generate::{GroupOptions, NewCluster, ReplicaSecrets};
use crate::node::{self, StartError, Taken, Trusted};
use crate::protocols;
use pentarchy_client::Client;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::service::Service;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
use pentarchy_crypto::verifier::RequestMode;
use pentarchy_replica::fault::{Fault, FaultSwitch};
use pentarchy_replica::{Fatal, Listen, Running, StatusReport, Storage, Watch};
use pentarchy_trusted::DeviceIdentity;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Replicas on threads of this process that talk over TCP on the loopback interface, with fresh
/// keys on free ports. What it tolerates is faults of the replicas' code and machines one by one:
/// in one process they share their fate, so this is for trying, testing and teaching. For a real
/// group, write its files with [`NewCluster::write`] and run one replica per host.
pub struct LocalCluster {
    config: crate::config::ClusterConfig,
    addresses: Vec<SocketAddr>,
    keys: Vec<KeyPair>,
    signing: Vec<SharedSigningKeys>,
    administrator_keys: Vec<KeyPair>,
    faults: Vec<FaultSwitch>,
    /// Where the replicas keep what they say, if they do.
    data: Option<PathBuf>,
    cold_state: bool,
    replicas: Vec<Option<(Running, Watch)>>,
}

/// How long a replica may take for a round before it counts as one that says nothing.
const ROUND_MAX: Duration = Duration::from_secs(1);

/// A device, and what its replica keeps.
type Kept = (DeviceIdentity, Option<Storage>);

/// What a [`LocalCluster`] is started with.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    options: GroupOptions,
    data: Option<PathBuf>,
    cold_state: bool,
}

impl Builder {
    /// The protocol, by its name. MinBFT by default.
    #[must_use]
    pub fn protocol(mut self, name: &str) -> Self {
        name.clone_into(&mut self.options.protocol);
        self
    }

    /// Faulty replicas to tolerate, 1 by default; decides how many replicas there are.
    #[must_use]
    pub const fn f(mut self, f: usize) -> Self {
        self.options.f = f;
        self
    }

    /// Into how many pillars the order is split, and whether each begins with another primary; 1 by
    /// default. Not all protocols can be split.
    #[must_use]
    pub const fn pillars(mut self, pillars: u8, rotate_leader: bool) -> Self {
        self.options.lane = PillarConfig { pillars, rotates: rotate_leader, pillar: None };
        self
    }

    /// How clients convince replicas; signatures by default.
    #[must_use]
    pub const fn request_auth(mut self, mode: RequestMode) -> Self {
        self.options.request_auth = mode;
        self
    }

    /// How long everyone waits.
    #[must_use]
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.options.timeouts = timeouts;
        self
    }

    /// Has each replica keep what it says in a folder below this one, so that it can be
    /// [started again](LocalCluster::restart) as whom it was, also after all have stopped. The
    /// folder must exist and be empty.
    #[must_use]
    pub fn data(mut self, folder: &Path) -> Self {
        self.options.durability = Durability::Sync;
        self.data = Some(folder.to_owned());
        self
    }

    /// Has the content of states be in those folders only, and not in memory besides.
    #[must_use]
    pub const fn cold_state(mut self) -> Self {
        self.cold_state = true;
        self
    }

    /// Starts all replicas, each with a service of its own in its initial state.
    ///
    /// # Errors
    /// [`StartError`] if there is no such protocol or group, or the system refuses.
    pub fn start(
        self,
        mut service: impl FnMut() -> Box<dyn Service>,
    ) -> Result<LocalCluster, StartError> {
        let GroupOptions { protocol, f, lane, .. } = &self.options;
        protocols::check_lane(protocol, *lane).map_err(StartError::Pillars)?;
        let n = protocols::replicas_needed(protocol, *f)
            .ok_or_else(|| StartError::Protocol(format!("{protocol} with f = {f}")))?;
        // Bound before any replica starts, so that nobody else can take a port in between.
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = (0..n).map(bind).collect::<std::io::Result<Vec<_>>>()?;
        let address = |listener: &TcpListener| Ok(listener.local_addr()?.to_string());
        let addresses = listeners.iter().map(address).collect::<std::io::Result<Vec<_>>>()?;
        let NewCluster { config, replicas, administrator_keys, .. } =
            NewCluster::generate(&addresses, &self.options);
        let addresses = node::addresses(&config)?;
        let keys = replicas.iter().map(|secrets| secrets.key.clone()).collect();
        let signing = replicas.iter().map(|secrets| secrets.signing.clone()).collect();
        let (data, cold_state) = (self.data, self.cold_state);
        let running = Vec::with_capacity(n);
        let faults = (0..n).map(|_| FaultSwitch::default()).collect();
        let mut cluster = LocalCluster {
            config,
            addresses,
            keys,
            signing,
            administrator_keys,
            faults,
            data,
            cold_state,
            replicas: running,
        };
        for ((id, secrets), listener) in (0..).zip(replicas).zip(listeners) {
            let (device, storage) = cluster.begin(id, secrets.device)?;
            let parts = (device, storage, Listen::Bound(listener));
            let running = cluster.run(id, parts, service())?;
            cluster.replicas.push(Some(running));
        }
        Ok(cluster)
    }
}

impl LocalCluster {
    /// What to start: MinBFT with `f = 1` unless told otherwise.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What everybody may know of the cluster.
    #[must_use]
    pub const fn config(&self) -> &crate::config::ClusterConfig {
        &self.config
    }

    /// A new client with a new key.
    ///
    /// # Errors
    /// [`StartError`] if the system refuses.
    pub fn client(&self) -> Result<Client, StartError> {
        node::connect(&self.config, KeyPair::generate())
    }

    /// The administrators of the cluster, connected.
    ///
    /// # Errors
    /// [`StartError`] if the system refuses.
    pub fn administrators(&self) -> Result<Vec<Administrator>, StartError> {
        let keys = self.administrator_keys.iter().cloned();
        keys.map(|keys| Administrator::connect(&self.config, keys)).collect()
    }

    /// The first life of a device, in a data folder if there is to be one.
    fn begin(&self, id: u16, device: DeviceIdentity) -> Result<Kept, StartError> {
        let Some(folder) = self.folder(id) else { return Ok((device, None)) };
        std::fs::create_dir(&folder)?;
        device.save(&folder.join("device"))?;
        self.resume(id, &folder)
    }

    /// Goes on from what a replica kept.
    fn resume(&self, id: u16, folder: &Path) -> Result<Kept, StartError> {
        let data = DataFolder::open(&folder.join("data"))?.with_cold_state(self.cold_state);
        let (device, storage) = data.take(&self.config, id, folder)?;
        Ok((device, Some(storage)))
    }

    fn folder(&self, id: u16) -> Option<PathBuf> {
        Some(self.data.as_ref()?.join(format!("replica-{id}")))
    }

    fn run(
        &self,
        id: u16,
        (device, storage, listen): (DeviceIdentity, Option<Storage>, Listen),
        service: Box<dyn Service>,
    ) -> Result<(Running, Watch), StartError> {
        let of = usize::from(id);
        let (key, signing) = (self.keys[of].clone(), self.signing[of].clone());
        let trusted = Trusted::Here(signing.clone());
        let secrets = ReplicaSecrets { key, signing, device };
        let taken = Taken { secrets, trusted, storage, states: None, learned: None };
        let addresses = self.addresses.clone();
        let replica = node::replica(&self.config, id, taken, addresses, listen, service)?;
        let watch = replica.watch();
        Ok((replica.with_faults(self.faults[usize::from(id)].clone()).spawn()?, watch))
    }

    /// Makes a replica misbehave, or stop misbehaving.
    ///
    /// # Panics
    /// If there is no replica of this number.
    pub fn set_fault(&self, id: usize, fault: Fault) {
        self.faults[id].set(fault);
    }

    /// Starts a replica that was stopped, with a service in its initial state. With a
    /// [data folder](Builder::data) it goes on as whom it was. Without one it has lost its memory,
    /// so it comes with a trusted device that begins a new incarnation; the group admits it and
    /// brings it level. Does nothing if it runs.
    ///
    /// # Errors
    /// [`StartError`] if the system refuses.
    ///
    /// # Panics
    /// If there is no replica of this number.
    pub fn restart(&mut self, id: usize, service: Box<dyn Service>) -> Result<(), StartError> {
        if self.replicas[id].is_none() {
            // There are at most 64 replicas.
            let (number, listen) = (id as u16, Listen::Address(self.addresses[id]));
            let (device, storage) = match self.folder(number) {
                Some(folder) => self.resume(number, &folder)?,
                None => {
                    let member = &self.config.membership().members[id];
                    (DeviceIdentity::next_life(member), None)
                }
            };
            self.replicas[id] = Some(self.run(number, (device, storage, listen), service)?);
        }
        Ok(())
    }

    /// Stops a replica, as a crash would. Does nothing if it was stopped before.
    ///
    /// # Errors
    /// [`Fatal`] if it had ended by itself.
    ///
    /// # Panics
    /// If there is no replica of this number.
    pub fn kill(&mut self, id: usize) -> Result<(), Fatal> {
        self.replicas[id].take().map_or(Ok(()), |(running, _)| running.stop())
    }

    /// What a replica says of itself; none if it was stopped, or has said nothing for a second.
    ///
    /// # Panics
    /// If there is no replica of this number.
    #[must_use]
    pub fn status(&self, id: usize) -> Option<Arc<StatusReport>> {
        self.replicas[id].as_ref().and_then(|(_, watch)| watch.ask(ROUND_MAX))
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        for (running, _) in self.replicas.iter_mut().filter_map(Option::take) {
            // Why it had ended was logged when it did.
            let _ = running.stop();
        }
    }
}

impl std::fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let alive = self.replicas.iter().flatten().count();
        write!(f, "LocalCluster({alive} of {} replicas)", self.replicas.len())
    }
}
