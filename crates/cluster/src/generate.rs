//! A new cluster: fresh keys for everyone, and the files that carry them to where they belong.

use crate::card::{BadCard, Card};
use crate::config::ReplicaEntry;
use crate::config::usual_timeouts;
use crate::config::{ClusterConfig, CounterPlace, Durability, LOG_MIB};
use crate::data::DEVICE;
use crate::error::ConfigError;
use crate::files;
use pentarchy_core::configuration::{Access, Administrators};
use pentarchy_core::ids::GroupId;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::{Timeouts, Tuning};
use pentarchy_crypto::keys::{GroupSecret, KeyPair};
use pentarchy_crypto::signing_keys::{SharedSigningKeys, SigningKeys};
use pentarchy_crypto::verifier::RequestMode;
use pentarchy_protocols::DEFAULT;
use pentarchy_trusted::{DeviceIdentity, session};
use std::path::Path;

/// The folder of the keys by which a replica signs, in its folder of keys.
pub const SIGNING_FOLDER: &str = "signing";

/// What distinguishes one new cluster from another, beside its addresses.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// The protocol's name.
    pub protocol: String,
    /// Faults to tolerate.
    pub f: usize,
    /// How the order is split into pillars.
    pub lane: PillarConfig,
    /// How clients convince replicas.
    pub request_auth: RequestMode,
    /// What outlives a replica's process.
    pub durability: Durability,
    /// Where the trusted counters are.
    pub counter: CounterPlace,
    /// How long everyone waits.
    pub timeouts: Timeouts,
    /// Whether only the clients made here are admitted.
    pub closed: bool,
    /// Gateways to make a key for, each its own.
    pub gateways: usize,
    /// Administrators to make a key for, each its own. More than half of them together may change
    /// the group.
    pub administrators: usize,
}

impl Default for GroupOptions {
    /// The default protocol, one fault, signatures, state in memory, open to every client, one
    /// gateway, one administrator.
    fn default() -> Self {
        Self {
            protocol: DEFAULT.rules.name.to_owned(),
            f: 1,
            lane: PillarConfig::default(),
            request_auth: RequestMode::Signature,
            durability: Durability::default(),
            counter: CounterPlace::default(),
            timeouts: usual_timeouts(),
            closed: false,
            gateways: 1,
            administrators: 1,
        }
    }
}

/// What only one replica may know, beside the group's secret.
#[derive(Debug)]
pub struct ReplicaSecrets {
    /// Its key.
    pub key: KeyPair,
    /// The keys by which it signs.
    pub signing: SharedSigningKeys,
    /// The one life of its trusted device.
    pub device: DeviceIdentity,
}

/// A cluster that did not exist before.
#[derive(Debug)]
pub struct NewCluster {
    /// What everybody may know.
    pub config: ClusterConfig,
    /// Each replica's secrets, by id.
    pub replicas: Vec<ReplicaSecrets>,
    /// What the replicas' trusted devices share.
    pub group_secret: GroupSecret,
    /// For the operator's own questions.
    pub client_key: KeyPair,
    /// One for each Redis gateway: two that share a key are one client to the replicas and disturb
    /// each other.
    pub gateway_keys: Vec<KeyPair>,
    /// One for each administrator.
    pub administrator_keys: Vec<KeyPair>,
}

impl NewCluster {
    /// Makes all keys. `addresses` are the replicas' in the order of their ids; their number must
    /// be what the protocol needs for `f`.
    #[must_use]
    pub fn generate(addresses: &[String], options: &GroupOptions) -> Self {
        let group_secret = GroupSecret::generate();
        let replicas: Vec<ReplicaSecrets> = addresses
            .iter()
            .map(|_| ReplicaSecrets::generate(Some(group_secret.clone())))
            .collect();
        let client_key = KeyPair::generate();
        let gateway_keys: Vec<_> = (0..options.gateways).map(|_| KeyPair::generate()).collect();
        let administrator_keys: Vec<_> =
            (0..options.administrators).map(|_| KeyPair::generate()).collect();
        let administrators =
            Administrators::by_majority(administrator_keys.iter().map(KeyPair::public).collect());
        let entries = addresses.iter().zip(&replicas).map(|(address, secrets)| ReplicaEntry {
            address: address.clone(),
            key: secrets.key.public(),
            signing: secrets.signing.lock().current().public(),
            incarnation: secrets.device.incarnation(),
            device_key: secrets.device.device_key(),
        });
        // A group's name is no secret, but it must be no other group's either.
        let random = pentarchy_crypto::keys::random_secret();
        let mut group = [0; 16];
        group.copy_from_slice(&random[..16]);
        let access = if options.closed {
            let keys = std::iter::once(&client_key).chain(&gateway_keys);
            Access::only(keys.map(KeyPair::client_id))
        } else {
            Access::Open
        };
        let session_key = (options.request_auth == RequestMode::Session)
            .then(|| session::public_key(group_secret.as_bytes()));
        let config = ClusterConfig {
            group: GroupId(group),
            protocol: options.protocol.clone(),
            f: options.f,
            lane: options.lane,
            request_auth: options.request_auth,
            session_key,
            durability: options.durability,
            counter: options.counter,
            log_mib: LOG_MIB,
            timeouts: options.timeouts,
            tuning: Tuning::default(),
            access,
            administrators,
            replicas: entries.collect(),
            later: None,
        };
        Self { config, replicas, group_secret, client_key, gateway_keys, administrator_keys }
    }

    /// Writes one folder of secrets for each replica, `client.key`, `gateway-1.key` and so on,
    /// `admin-1.key` and so on, and `cluster.toml` last: where it is, all is there. Overwrites
    /// nothing.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file or folder that could not be made.
    pub fn write(&self, root: &Path) -> Result<(), ConfigError> {
        self.client_key.save(&root.join("client.key"))?;
        for (number, key) in (1..).zip(&self.gateway_keys) {
            key.save(&root.join(gateway_key_name(number)))?;
        }
        for (number, key) in (1..).zip(&self.administrator_keys) {
            key.save(&root.join(administrator_key_name(number)))?;
        }
        for (id, secrets) in self.replicas.iter().enumerate() {
            let folder = root.join(format!("replica-{id}"));
            files::make_private_folder(&folder)?;
            secrets.key.save(&folder.join("key"))?;
            secrets.signing.lock().save_first(&folder.join(SIGNING_FOLDER))?;
            self.group_secret.save(&folder.join("group-secret"))?;
            secrets.device.save(&folder.join(DEVICE))?;
        }
        files::write_new(&root.join("cluster.toml"), 0o644, self.config.render().as_bytes())
    }
}

/// The secrets of a machine that is to become a member, and its card.
pub struct NewMember {
    secrets: ReplicaSecrets,
    card: Card,
}

impl NewMember {
    /// Makes them, for a machine that is to join this group and that others reach at this address.
    ///
    /// # Errors
    /// [`BadCard::Address`]
    pub fn generate(group: GroupId, address: &str) -> Result<Self, BadCard> {
        let secrets = ReplicaSecrets::generate(None);
        let signing = secrets.signing.lock().current().public();
        let device = secrets.device.incarnation();
        let card = Card::new(group, &secrets.key, signing, device, address)?;
        Ok(Self { secrets, card })
    }

    /// What administrators need to see of it.
    #[must_use]
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// The keys by which it signs.
    #[must_use]
    pub const fn signing(&self) -> &SharedSigningKeys {
        &self.secrets.signing
    }

    /// All that only that machine may know.
    #[must_use]
    pub fn into_secrets(self) -> ReplicaSecrets {
        self.secrets
    }

    /// Writes a new folder with all of it.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file or folder that could not be made.
    pub fn write(&self, folder: &Path) -> Result<(), ConfigError> {
        files::make_private_folder(folder)?;
        self.secrets.key.save(&folder.join("key"))?;
        self.secrets.signing.lock().save_first(&folder.join(SIGNING_FOLDER))?;
        self.secrets.device.save(&folder.join(DEVICE))?;
        let card = format!("{}\n", self.card);
        files::write_new(&folder.join("card"), 0o644, card.as_bytes())
    }
}

/// The file with the key of a gateway, counted from 1.
#[must_use]
pub fn gateway_key_name(number: usize) -> String {
    format!("gateway-{number}.key")
}

/// The file with the key of an administrator, counted from 1.
#[must_use]
pub fn administrator_key_name(number: usize) -> String {
    format!("admin-{number}.key")
}

impl ReplicaSecrets {
    fn generate(group_secret: Option<GroupSecret>) -> Self {
        let key = KeyPair::generate();
        let signing = SigningKeys::in_memory(key.clone(), KeyPair::generate(), group_secret);
        Self { key, signing, device: DeviceIdentity::generate_mac() }
    }
}
