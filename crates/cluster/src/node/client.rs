//! From a [`ClusterConfig`] and a key to a client.

use super::{StartError, addresses};
use crate::config::ClusterConfig;
use crate::protocols;
use pentarchy_client::{Client, ClientConfig};
use pentarchy_core::ids::ClientId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::quorum::{ClientQuorums, Quorums};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_crypto::verifier::RequestMode;
use pentarchy_protocols::ClientStart;
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// What clients of the configured group go by.
///
/// # Panics
/// If there is no protocol of that name, which reading the configuration rules out.
#[must_use]
pub fn client_quorums(config: &ClusterConfig) -> ClientQuorums {
    let group = Quorums { n: config.replicas.len(), f: config.f };
    let entry =
        protocols::find(&config.protocol).expect("a configuration names a protocol that exists");
    entry.rules.client_quorums(group)
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
    let membership = Arc::new(config.membership());
    let core = client_core(config, keys.client_id());
    let signer = signer(config, keys.clone(), &membership)?;
    let client = ClientConfig::new(membership, addresses(config)?, keys, core);
    Ok(ClientConfig { signer, ..client })
}

fn signer(
    config: &ClusterConfig,
    keys: KeyPair,
    membership: &Membership,
) -> Result<ClientSigner, StartError> {
    let domain = membership.group_domain();
    Ok(match config.request_auth {
        RequestMode::Signature => ClientSigner::signature(keys, domain),
        RequestMode::Mac => ClientSigner::macs(keys, membership)?,
        RequestMode::Session => {
            let devices = config.session_key.as_ref().ok_or(StartError::NoSessionKey)?;
            ClientSigner::session(keys, devices, domain)?
        }
    })
}

/// The client side of the configured protocol.
fn client_core(config: &ClusterConfig, client: ClientId) -> Box<dyn ClientCore> {
    let group = Quorums { n: config.replicas.len(), f: config.f };
    // Not above the first number that the client's host gives out, which is the same clock, later.
    let start_floor = pentarchy_io::clock::wall_micros();
    // Its keys are the operating system's randomness.
    let seed = Some(std::hash::RandomState::new().hash_one(client.0));
    let entry =
        protocols::find(&config.protocol).expect("a configuration names a protocol that exists");
    (entry.client)(ClientStart { client, group, timeouts: config.timeouts, start_floor, seed })
}
