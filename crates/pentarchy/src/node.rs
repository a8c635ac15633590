//! From a [`ClusterConfig`] and a key to something that runs.

use crate::config::ClusterConfig;
use crate::protocols;
use pentarchy_client::{Client, ClientConfig, ConnectError};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::request_auth::{BadMemberKey, ClientSigner};
use pentarchy_crypto::verifier::RequestMode;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

/// Why a part of a cluster cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A name does not lead to an address.
    #[error("cannot resolve {address}: {problem}")]
    Resolve {
        /// The `host:port`.
        address: String,
        /// What the system says.
        problem: String,
    },
    /// The client's host refuses.
    #[error(transparent)]
    Client(#[from] ConnectError),
    /// A key in the configuration is unusable.
    #[error(transparent)]
    MemberKey(#[from] BadMemberKey),
    /// The configuration names a protocol that this program does not have.
    #[error("this program has no protocol {0:?}")]
    Protocol(String),
}

/// Connects a client. Does not wait for any replica: those that are down are dialled again.
///
/// # Errors
/// [`StartError`] if an address cannot be resolved or a key is unusable.
pub fn connect(config: &ClusterConfig, keys: KeyPair) -> Result<Client, StartError> {
    let membership = Arc::new(config.membership());
    let core = protocols::client_core(config, keys.client_id());
    let mut client =
        ClientConfig::new(membership.clone(), addresses(config)?, keys.clone(), core);
    if config.request_auth == RequestMode::Mac {
        client.signer = ClientSigner::macs(keys, &membership)?;
    }
    Ok(Client::connect(client)?)
}

/// Where each replica listens, in the order of their ids.
///
/// # Errors
/// [`StartError::Resolve`].
pub fn addresses(config: &ClusterConfig) -> Result<Vec<SocketAddr>, StartError> {
    config.replicas.iter().map(|entry| resolve(&entry.address)).collect()
}

fn resolve(address: &str) -> Result<SocketAddr, StartError> {
    let problem = match address.to_socket_addrs() {
        Ok(mut found) => match found.next() {
            Some(found) => return Ok(found),
            None => "no address".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Err(StartError::Resolve { address: address.to_owned(), problem })
}
