//! A whole cluster inside one process, for examples, tests and programs that embed one.

mod altering;

pub use altering::{AlterError, LocalAlteration};

use crate::administration::Administrator;
use crate::config::{ClusterConfig, Durability};
use crate::data::{DATA_FOLDER, DEVICE, DataFolder};
use crate::generate::{GroupOptions, NewCluster, ReplicaSecrets};
use crate::node::{self, StartError, Taken, Trusted};
use crate::protocols;
use pentarchy_client::Client;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
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
///
/// Its machines have numbers: those with which it began are its replicas 0 to n - 1, and those that
/// [join](Self::add) later get the next ones. A machine keeps its number while others come and go.
pub struct LocalCluster {
    /// The group as it began, ...
    first: ClusterConfig,
    /// ... and after the last change that was made here.
    config: ClusterConfig,
    administrator_keys: Vec<KeyPair>,
    /// Where the machines keep what they say, if they do.
    data: Option<PathBuf>,
    cold_state: bool,
    machines: Vec<Machine>,
}

/// What a replica runs on.
struct Machine {
    key: KeyPair,
    signing: SharedSigningKeys,
    address: SocketAddr,
    faults: FaultSwitch,
    running: Option<(Running, Watch)>,
}

impl Machine {
    fn new(key: KeyPair, signing: SharedSigningKeys, address: SocketAddr) -> Self {
        Self { key, signing, address, faults: FaultSwitch::default(), running: None }
    }
}

/// What a replica is started with beside what its machine has.
struct Parts {
    device: DeviceIdentity,
    storage: Option<Storage>,
    learned: Option<Snapshot>,
    listen: Listen,
    service: Box<dyn Service>,
}

/// How long a replica may take for a round before it counts as one that says nothing.
const ROUND_MAX: Duration = Duration::from_secs(1);

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
        let mut cluster = LocalCluster {
            first: config.clone(),
            config,
            administrator_keys,
            data: self.data,
            cold_state: self.cold_state,
            machines: Vec::with_capacity(n),
        };
        for (secrets, listener) in replicas.into_iter().zip(listeners) {
            let ReplicaSecrets { key, signing, device } = secrets;
            cluster.machines.push(Machine::new(key, signing, listener.local_addr()?));
            let listen = Listen::Bound(listener);
            let service = service();
            let parts = Parts { device, storage: None, learned: None, listen, service };
            let number = cluster.machines.len() - 1;
            let data = cluster.make_folder(number, &parts.device)?;
            cluster.begin(number, data, parts)?;
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

    /// What everybody may know of the cluster, as it is after the last change that was made by
    /// [`Self::alter`] and the like.
    #[must_use]
    pub const fn config(&self) -> &ClusterConfig {
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

    /// Makes a machine's folder, if it is to have one, with the first life of its device.
    fn make_folder(
        &self,
        machine: usize,
        device: &DeviceIdentity,
    ) -> Result<Option<DataFolder>, StartError> {
        let Some(folder) = self.folder(machine) else { return Ok(None) };
        std::fs::create_dir(&folder)?;
        device.save(&folder.join(DEVICE))?;
        self.open(&folder).map(Some)
    }

    /// Starts a machine's first replica.
    fn begin(
        &mut self,
        machine: usize,
        data: Option<DataFolder>,
        parts: Parts,
    ) -> Result<(), StartError> {
        let config = self.config.clone();
        let parts = match data.zip(self.folder(machine)) {
            None => parts,
            Some((data, folder)) => {
                let (device, storage) = self.take(machine, &config, data, &folder)?;
                Parts { device, storage: Some(storage), ..parts }
            }
        };
        self.run(machine, &config, parts)
    }

    fn folder(&self, machine: usize) -> Option<PathBuf> {
        Some(self.data.as_ref()?.join(format!("replica-{machine}")))
    }

    fn open(&self, folder: &Path) -> Result<DataFolder, StartError> {
        Ok(DataFolder::open(&folder.join(DATA_FOLDER))?.with_cold_state(self.cold_state))
    }

    fn take(
        &self,
        machine: usize,
        config: &ClusterConfig,
        data: DataFolder,
        folder: &Path,
    ) -> Result<(DeviceIdentity, Storage), StartError> {
        let ReplicaId(id) = self.place(machine, config)?;
        Ok(data.take(config, id, folder)?)
    }

    /// As which replica a configuration has a machine.
    fn place(&self, machine: usize, config: &ClusterConfig) -> Result<ReplicaId, StartError> {
        let place = config.membership().member(&self.machines[machine].key.client_id());
        place.ok_or(StartError::NotAMember(machine))
    }

    fn run(
        &mut self,
        machine: usize,
        config: &ClusterConfig,
        parts: Parts,
    ) -> Result<(), StartError> {
        let ReplicaId(id) = self.place(machine, config)?;
        let Machine { key, signing, faults, .. } = &self.machines[machine];
        let Parts { device, storage, learned, listen, service } = parts;
        let trusted = Trusted::Here(signing.clone());
        let secrets = ReplicaSecrets { key: key.clone(), signing: signing.clone(), device };
        let taken = Taken { secrets, trusted, storage, states: None, learned };
        let addresses = node::addresses(config)?;
        let replica = node::replica(config, id, taken, addresses, listen, service)?;
        let watch = replica.watch();
        let running = replica.with_faults(faults.clone()).spawn()?;
        self.machines[machine].running = Some((running, watch));
        Ok(())
    }

    /// Makes a machine's replica misbehave, or stop misbehaving.
    ///
    /// # Panics
    /// If there is no machine of this number.
    pub fn set_fault(&self, machine: usize, fault: Fault) {
        self.machines[machine].faults.set(fault);
    }

    /// Starts the replica of a machine where it was stopped, with a service in its initial state.
    /// With a [data folder](Builder::data) the replica goes on under its former identity. Without
    /// one the replica has lost its memory, so it comes with a trusted device that begins a new
    /// incarnation; the group admits it and brings it level. Does nothing if the replica runs.
    ///
    /// # Errors
    /// [`StartError`] if the machine is no member, or the system refuses.
    ///
    /// # Panics
    /// If there is no machine of this number.
    pub fn restart(&mut self, machine: usize, service: Box<dyn Service>) -> Result<(), StartError> {
        let place = self.place(machine, &self.config)?;
        if self.is_running(machine) {
            return Ok(());
        }
        let (config, device, storage) = match self.folder(machine) {
            Some(folder) => {
                let mut data = self.open(&folder)?;
                let is_first = self.place(machine, &self.first).is_ok();
                let known = if is_first { self.first.clone() } else { data.known(&self.first)? };
                // One that has never run knows nothing.
                let knows_itself = self.place(machine, &known).is_ok();
                let config = if knows_itself { known } else { self.config.clone() };
                let (device, storage) = self.take(machine, &config, data, &folder)?;
                (config, device, Some(storage))
            }
            None => {
                let member = &self.config.membership().members[usize::from(place.0)];
                (self.config.clone(), DeviceIdentity::next_life(member), None)
            }
        };
        let listen = Listen::Address(self.machines[machine].address);
        let parts = Parts { device, storage, learned: None, listen, service };
        self.run(machine, &config, parts)
    }

    /// Stops the replica of a machine, as a crash would. Does nothing if it was stopped before.
    ///
    /// # Errors
    /// [`Fatal`] if it had ended by itself, as it does after it has left the group.
    ///
    /// # Panics
    /// If there is no machine of this number.
    pub fn kill(&mut self, machine: usize) -> Result<(), Fatal> {
        self.machines[machine].running.take().map_or(Ok(()), |(running, _)| running.stop())
    }

    /// Whether the replica of a machine was started, and neither was stopped since nor has ended by
    /// itself.
    ///
    /// # Panics
    /// If there is no machine of this number.
    #[must_use]
    pub fn is_running(&self, machine: usize) -> bool {
        let running = self.machines[machine].running.as_ref();
        running.is_some_and(|(running, _)| !running.is_finished())
    }

    /// What the replica of a machine says of itself; none if it was stopped or has ended, or has
    /// said nothing for a second.
    ///
    /// # Panics
    /// If there is no machine of this number.
    #[must_use]
    pub fn status(&self, machine: usize) -> Option<Arc<StatusReport>> {
        self.machines[machine].running.as_ref().and_then(|(_, watch)| watch.ask(ROUND_MAX))
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        for (running, _) in self.machines.iter_mut().filter_map(|it| it.running.take()) {
            // Why it had ended was logged when it did.
            let _ = running.stop();
        }
    }
}

impl std::fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.machines.len();
        let alive = (0..all).filter(|machine| self.is_running(*machine)).count();
        write!(f, "LocalCluster({alive} of {all} machines)")
    }
}
