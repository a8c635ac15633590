//! `replica --join`: waits until the group takes a machine for its member.

use super::args::ReplicaArgs;
use super::data_folder::{data_folder, first_service, usage};
use super::listening::bind;
use super::machines::own_address;
use pentarchy::KeyPair;
use pentarchy::chain_file;
use pentarchy::config::ClusterConfig;
use pentarchy::data::DataFolder;
use pentarchy::following::Follower;
use pentarchy::joining::{Joining, Progress};
use pentarchy::learning::{self, Learned, Learner};
use pentarchy::node::{StartError, signing_keys};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Life;
use pentarchy_crypto::secret_file::SecretFileError;
use pentarchy_trusted::DeviceIdentity;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Between two words on how far it has come with a state.
const SAY: Duration = Duration::from_secs(2);

/// Which replica of which group a machine is.
pub struct Which {
    pub config: ClusterConfig,
    pub id: u16,
    /// Its port, if it was taken to see whether it can be.
    pub listener: Option<TcpListener>,
    /// Its data folder, if it was opened.
    pub data: Option<DataFolder>,
    /// What it learned before it was a member, if it had to wait until it was one.
    pub learned: Option<Learned>,
}

/// The group, and which replica of it this machine is. One that is to join waits until it is one;
/// none if it was told to stop before, or the group has no place for it any more.
pub fn as_which(
    args: &ReplicaArgs,
    config: ClusterConfig,
    stop: &Receiver<()>,
) -> Outcome<Option<Which>> {
    match args.id {
        Some(id) => Ok(Some(Which { config, id, listener: None, data: None, learned: None })),
        None => join(args, config, stop),
    }
}

fn join(args: &ReplicaArgs, config: ClusterConfig, stop: &Receiver<()>) -> Outcome<Option<Which>> {
    let bad = |error: &dyn std::error::Error| Failure::Usage(error.to_string());
    let keys = KeyPair::load(&args.keys.join("key")).map_err(|error| bad(&error))?;
    let signing = signing_keys(&config, &keys, &args.keys).map_err(usage)?;
    let (config, keeps_log) = known(args, config)?;
    if let Some(ReplicaId(id)) = config.membership().member(&keys.client_id()) {
        // If the member has left, others may need what it alone has executed. The replica learns
        // that it has left, gives them the state, and ends.
        if keeps_log && !signing.lock().is_retired() {
            return Ok(Some(Which { config, id, listener: None, data: None, learned: None }));
        }
        let present = Follower::new(config.clone(), keys.clone()).and_then(Follower::present);
        let present = present.map_err(usage)?;
        if present.membership().member(&keys.client_id()).is_some() {
            return Ok(Some(Which { config, id, listener: None, data: None, learned: None }));
        }
        say(&format!(
            "configuration {} has no place for this machine: once the group does not need the \
             state that it may have, remove its folders, and with them its keys",
            present.number()
        ));
        return Ok(None);
    }
    if signing.lock().is_retired() {
        return Err(usage(StartError::Retired(args.keys.clone())));
    }
    // What can go wrong later is tried before: the group counts on who says that it is ready.
    let listener = Some(bind(address(args)?)?);
    let life = life(&args.keys).map_err(|error| bad(&error))?;
    let config = config.follow_file(&chain_file::beside(&args.config))?;
    // The learner puts what it fetches into that folder, so this process keeps it open.
    let mut data = data_folder(args, &config).map_err(usage)?;
    let learner = Learner::in_folder(first_service(args)?, data.as_mut());
    let learner = learner.map_err(|error| bad(&error))?;
    let mut joining = Joining::new(config, keys, signing, life, learner).map_err(usage)?;
    let (mut before, mut said) = (None, None::<Instant>);
    loop {
        let progress = joining.go_on().map_err(usage)?;
        if let Progress::Member(config, ReplicaId(id)) = progress {
            info!(configuration = config.number(), "the group has taken this machine");
            let learned = joining.into_learned();
            return Ok(Some(Which { config: *config, id, listener, data, learned }));
        }
        let is_learning = matches!(progress, Progress::Learning(Some(_)));
        let is_silent = is_learning && said.is_some_and(|at| at.elapsed() < SAY);
        if before.as_ref() != Some(&progress) && !is_silent {
            say_how_far(&progress);
            (before, said) = (Some(progress.clone()), Some(Instant::now()));
        }
        joining.wait_after(&progress).map_err(usage)?;
        match stop.try_recv() {
            Err(TryRecvError::Empty) => {}
            Ok(()) | Err(TryRecvError::Disconnected) => return Ok(None),
        }
    }
}

/// The life of the device that a machine names when it is ready. If that is over, the group has to
/// admit another one, as of any member that has forgotten what it said.
fn life(keys: &Path) -> Result<Life, SecretFileError> {
    let (unused, used) = (keys.join("device"), keys.join("device.used"));
    let device = if used.exists() && !unused.exists() { used } else { unused };
    let (incarnation, device_key) = DeviceIdentity::describe(&device)?;
    Ok(Life { incarnation, device_key })
}

fn say_how_far(progress: &Progress) {
    match progress {
        Progress::Unanswered => info!(
            "too few replicas answer; if members have other addresses since cluster.toml was \
             written, pentarchy config export says where they are; a group that lists its clients \
             answers once a pending change names this machine: pentarchy members add"
        ),
        Progress::NotInvited => info!(
            "no pending change names this machine; bring its card to the administrators: \
             pentarchy members add"
        ),
        Progress::Learning(None) => {
            info!("invited; waits until enough replicas keep the same state for it")
        }
        Progress::Learning(Some(learning::Progress { slot, percent, mib })) => {
            info!(slot, percent, mib, "invited; fetches the group's state");
        }
        Progress::Ready(number) => info!(configuration = number, "ready; the group may go on"),
        Progress::Refused(why) => warn!(why, "the group does not take this machine for ready"),
        Progress::Lacks(what) => {
            warn!("cannot be a member of the next configuration: this machine lacks {what}");
        }
        Progress::Member(..) => {}
    }
}

/// Where it is to listen: where its card says that others reach it, unless told otherwise.
fn address(args: &ReplicaArgs) -> Outcome<SocketAddr> {
    if let Some(address) = args.listen {
        return Ok(address);
    }
    let address = own_address(&args.keys)?;
    let mut found = address.to_socket_addrs().into_iter().flatten();
    let unknown = || format!("cannot look up {address}: name an address with --listen");
    found.next().ok_or_else(|| Failure::Usage(unknown()))
}

/// The group as the data folder knows it: a machine that has joined finds itself there. And whether
/// what the replica says is kept there.
fn known(args: &ReplicaArgs, config: ClusterConfig) -> Outcome<(ClusterConfig, bool)> {
    let folder = data_folder(args, &config).map_err(usage)?;
    let Some(mut folder) = folder else { return Ok((config, false)) };
    let known = folder.known(&config).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((known, !folder.keeps_only_states()))
}
