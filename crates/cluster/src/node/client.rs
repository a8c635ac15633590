//! From a [`ClusterConfig`] and a key to a client.

use super::{StartError, resolve};
use crate::config::{ClusterConfig, ReplicaEntry};
use crate::protocols;
use pentarchy_client::{Client, ClientConfig, Follows, NextGroup};
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::ClientId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::quorum::{ClientQuorums, Quorums};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::RequestMode;
use pentarchy_protocols::ClientStart;
use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// What clients of a group go by. None if this program does not have its protocol.
#[must_use]
pub fn client_quorums(membership: &Membership) -> Option<ClientQuorums> {
    let entry = protocols::of(membership.stated.as_deref()?)?;
    Some(entry.rules.client_quorums(membership.quorums()))
}

/// Connects a client. Does not wait for any replica: those that are down are dialled again.
///
/// # Errors
/// [`StartError`] if an address cannot be resolved or a key is unusable.
pub fn connect(config: &ClusterConfig, keys: KeyPair) -> Result<Client, StartError> {
    Ok(Client::connect(client_config(config, keys)?)?)
}

/// What a client of this group is connected with, for callers that change a part of it.
///
/// # Errors
/// [`StartError`] as for [`connect`].
pub fn client_config(config: &ClusterConfig, keys: KeyPair) -> Result<ClientConfig, StartError> {
    config_of(config, keys, None, None)
}

/// The same for a client that lives long. Whenever its group has changed, it writes to this file
/// how (see [`chain_file`](crate::chain_file)), so that it finds the group again after a restart,
/// also if none of the machines that `config` names is a member any more:
/// [`ClusterConfig::follow_file`] reads the file. Two clients of one process must not have the same
/// file: each would write over what the other one has begun to write. A client that cannot write it
/// says so in its log, and goes on.
///
/// # Errors
/// [`StartError`] as for [`connect`].
pub fn keeping_client_config(
    config: &ClusterConfig,
    keys: KeyPair,
    chain: &Path,
) -> Result<ClientConfig, StartError> {
    config_of(config, keys, None, Some(chain.to_path_buf()))
}

/// The same for one who signs what it asks, whatever means other clients have: what members and
/// administrators ask of the group itself must not rest on less.
///
/// # Errors
/// [`StartError`] as for [`connect`].
pub fn signing_client_config(
    config: &ClusterConfig,
    keys: KeyPair,
) -> Result<ClientConfig, StartError> {
    config_of(config, keys, Some(RequestMode::Signature), None)
}

fn config_of(
    config: &ClusterConfig,
    keys: KeyPair,
    mode: Option<RequestMode>,
    chain: Option<PathBuf>,
) -> Result<ClientConfig, StartError> {
    let can_change = !config.administrators.keys.is_empty();
    let mut follower = ConfigFollower {
        config: config.clone(),
        keys: keys.clone(),
        mode,
        known: BTreeMap::new(),
        chain,
        warned: None,
    };
    // Not above the first number that the client's host gives out, which is the same clock, later.
    let floor = pentarchy_io::clock::wall_micros();
    let NextGroup { membership, addresses, signer, core } = follower.group(floor)?;
    let client = ClientConfig::new(membership, addresses, keys, core);
    let follows = can_change.then(|| -> Box<dyn Follows> { Box::new(follower) });
    Ok(ClientConfig { signer, follows, ..client })
}

/// Leads a client along the configurations of its group.
struct ConfigFollower {
    config: ClusterConfig,
    keys: KeyPair,
    /// How the client convinces replicas; as the configuration says, if it is none.
    mode: Option<RequestMode>,
    /// Where the members were when the client found them last.
    known: BTreeMap<String, SocketAddr>,
    /// Where the client keeps how the group has changed.
    chain: Option<PathBuf>,
    /// In which configuration it warned last that it cannot follow administrators.
    warned: Option<u64>,
}

impl ConfigFollower {
    /// What a client of the present configuration is made of. A member whose name leads nowhere any
    /// more is where it was: it may be the one that is gone.
    fn group(&mut self, floor: u64) -> Result<NextGroup, StartError> {
        let Self { config, keys, mode, known, .. } = self;
        let membership = Arc::new(config.membership());
        let mode = mode.unwrap_or(config.request_auth);
        let signer = signer(config, keys.clone(), &membership, mode)?;
        let core = client_core(config, keys.client_id(), floor)?;
        let find = |entry: &ReplicaEntry| {
            let before = known.get(&entry.address).copied();
            let found = resolve(&entry.address).or_else(|error| before.ok_or(error))?;
            known.insert(entry.address.clone(), found);
            Ok(found)
        };
        let addresses = config.replicas.iter().map(find).collect::<Result<_, StartError>>()?;
        Ok(NextGroup { addresses, membership, signer, core })
    }

    /// Warns once in each configuration of what administrators have signed and a replica shows.
    fn warn_of_rescue(&mut self, links: &[Proof]) {
        let known = self.config.number();
        // Anybody can say that administrators have; only they can sign it.
        if self.warned == Some(known)
            || self.config.rescue_in(links).is_none()
            || self.config.follow(links).is_err()
        {
            return;
        }
        self.warned = Some(known);
        warn!(
            configuration = known,
            "a replica shows that administrators had a lost group go on, which counts only in a \
             cluster.chain: if that is so, put theirs beside cluster.toml, and start this process \
             again"
        );
    }

    fn keep_chain(&self) {
        if let Some(chain) = &self.chain
            && let Err(error) = self.config.write_chain(chain)
        {
            let number = self.config.number();
            warn!(%error, number, "cannot keep how the group came to this configuration");
        }
    }
}

impl Follows for ConfigFollower {
    fn number(&self) -> u64 {
        self.config.number()
    }

    fn membership(&self) -> Arc<Membership> {
        Arc::new(self.config.membership())
    }

    fn follow(&mut self, links: &[Proof], floor: u64) -> Option<NextGroup> {
        let known = self.config.number();
        let leads_on = |link: &Proof| link.next.as_ref().is_some_and(|next| next.number > known);
        if !links.iter().any(leads_on) {
            return None;
        }
        let Ok(led) = self.config.follow_shown(links) else {
            self.warn_of_rescue(links);
            return None;
        };
        let before = std::mem::replace(&mut self.config, led);
        if before.admits(&self.keys) && !self.config.admits(&self.keys) {
            let client = hex::encode(self.keys.public());
            warn!(client, "the group admits this client no more, and answers it nothing");
        }
        let next = match self.group(floor) {
            Ok(next) => Some(next),
            Err(error) => {
                warn!(%error, "cannot follow the group yet; trying again");
                self.config = before;
                return None;
            }
        };
        self.keep_chain();
        next
    }
}

fn signer(
    config: &ClusterConfig,
    keys: KeyPair,
    membership: &Membership,
    mode: RequestMode,
) -> Result<ClientSigner, StartError> {
    let domain = membership.group_domain();
    Ok(match mode {
        RequestMode::Signature => ClientSigner::signature(keys, domain),
        RequestMode::Mac => ClientSigner::macs(keys, membership)?,
        RequestMode::Session => {
            let devices = config.session_key.as_ref().ok_or(StartError::NoSessionKey)?;
            ClientSigner::session(keys, devices, domain)?
        }
    })
}

/// The client side of the configured protocol.
fn client_core(
    config: &ClusterConfig,
    client: ClientId,
    start_floor: u64,
) -> Result<Box<dyn ClientCore>, StartError> {
    let lacks = || StartError::Protocol(config.protocol.clone());
    let entry = protocols::of(&config.configuration()).ok_or_else(lacks)?;
    let group = Quorums { n: config.replicas.len(), f: config.f };
    // Its keys are the operating system's randomness.
    let seed = Some(std::hash::RandomState::new().hash_one(client.0));
    Ok((entry.client)(ClientStart { client, group, timeouts: config.timeouts, start_floor, seed }))
}
