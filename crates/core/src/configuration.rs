//! What a group has agreed on about itself: its members and their keys, how many of them may be
//! faulty, and by which protocol they order.
//!
//! A configuration is data. It states the facts that a protocol's name stands for, so that a
//! replica can judge a configuration of a protocol that its program does not have, and two versions
//! of a program never compute different quorums for one name. Its digest is a part of all that a
//! replica signs, authenticates by a MAC or has its trusted device certify
//! ([`Domain`](crate::digest::Domain)): none of it means anything under another configuration.

mod check;
mod wire;

pub use check::{BadConfiguration, BadMembership};

use crate::digest::{Digest, Hasher};
use crate::ids::{ClientId, GroupId, MemberId};
#[cfg(doc)]
use crate::limits::{ADDRESS_BYTES_MAX, CLIENTS_LISTED_MAX, PROTOCOL_NAME_BYTES_MAX};
use crate::pillar_config::PillarConfig;
use crate::quorum::{Count, QuorumRule, ReadRule};
use crate::rules::{Authority, Counter, FaultModel, Rules, Tuning};
use crate::wire::Wire as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Configuration {
    /// Name of the group, the same in all of its configurations.
    pub group: GroupId,
    /// 0 for the one with which the group began, and one more with each change.
    pub number: u64,
    /// The protocol's name, at most [`PROTOCOL_NAME_BYTES_MAX`] long.
    pub protocol: String,
    /// What that name stands for.
    pub facts: Facts,
    /// Faulty members that are tolerated.
    pub f: u16,
    /// How the order is split. Its `pillar` is none.
    pub lane: PillarConfig,
    /// Sizes that all replicas must share.
    pub tuning: Tuning,
    /// How clients convince replicas.
    pub requests: RequestMeans,
    /// Names the secret that the members' devices share: its hash. None as long as that is the one
    /// with which the group began.
    pub secret: Option<Digest>,
    /// Who may change the configuration.
    pub administrators: Administrators,
    /// Who may be a client, beside members and administrators.
    pub access: Access,
    /// The members; a member's index is its [`ReplicaId`](crate::ids::ReplicaId) in this
    /// configuration.
    pub members: Vec<MemberEntry>,
    /// The number that the next new member gets. No number is given twice.
    pub next_member: MemberId,
}

/// One member in one configuration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemberEntry {
    /// Who it is, in all configurations.
    pub id: MemberId,
    /// Ed25519 public key that opens its channels and signs its own requests.
    pub identity: [u8; 32],
    /// Ed25519 public key that signs what it says in this configuration.
    pub signing: [u8; 32],
    /// The secret that the devices share, for this member alone; none if it is the one with which
    /// the group began.
    pub sealed: Option<SealedSecret>,
    /// `host:port`, at most [`ADDRESS_BYTES_MAX`] long; nobody resolves it here.
    pub address: String,
}

/// A secret that only one member can read: whoever had the key by which it signed when
/// administrators proposed the configuration that began with this secret, or, if it was new then,
/// the key in its card. Members erase those keys, and the chain of configurations is public.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SealedSecret(pub [u8; Self::BYTES]);

impl SealedSecret {
    /// A public key that was made for it, the secret encrypted, and what shows that nobody has
    /// altered it.
    pub const BYTES: usize = 32 + 32 + 16;
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SealedSecret(..)")
    }
}

/// What a protocol's name stands for, as far as its members and clients have to agree on it. See
/// [`Rules`] for what each means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Facts {
    /// What faulty replicas may do.
    pub fault_model: FaultModel,
    /// The size of the smallest group for `f` faults.
    pub group_size: Count,
    /// Which sets of replicas decide.
    pub quorum: QuorumRule,
    /// How many equal replies a client believes.
    pub replies: Count,
    /// How many equal answers to a query a client believes.
    pub reads: ReadRule,
    /// Whether its order is split into pillars.
    pub pillars: bool,
    /// Whether replies may be taken back.
    pub speculative: bool,
    /// Whether the protocol replies to clients, and not the host of each replica.
    pub replies_itself: bool,
    /// Who ends its epochs.
    pub authority: Authority,
    /// What its certificates come from.
    pub counter: Option<Counter>,
}

/// How clients convince replicas that a request is theirs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RequestMeans {
    /// By a signature.
    #[default]
    Signature,
    /// By a MAC for each replica.
    Macs,
    /// By a tag that the members' trusted devices check, whose public key this is.
    Session([u8; 32]),
}

/// Who may change a configuration: so many of these keys together, or nobody if there is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Administrators {
    /// How many have to sign.
    pub threshold: u8,
    /// Ed25519 public keys, at most
    /// [`ADMINISTRATORS_MAX`](crate::limits::ADMINISTRATORS_MAX).
    pub keys: Vec<[u8; 32]>,
}

/// Who may be a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// Anyone who has a key.
    #[default]
    Open,
    /// Only these, from 1 to [`CLIENTS_LISTED_MAX`], in the order of their keys.
    Only(Vec<ClientId>),
}

impl Access {
    /// Only these clients, in whatever order they are named.
    #[must_use]
    pub fn only(clients: impl IntoIterator<Item = ClientId>) -> Self {
        let mut clients: Vec<_> = clients.into_iter().collect();
        clients.sort_unstable();
        clients.dedup();
        Self::Only(clients)
    }

    /// Whether this client may ask the service.
    #[must_use]
    pub fn admits(&self, client: &ClientId) -> bool {
        match self {
            Self::Open => true,
            Self::Only(clients) => clients.binary_search(client).is_ok(),
        }
    }
}

impl Administrators {
    /// The administrators with these keys, of whom more than half have to agree. A group without
    /// such keys has no administrator.
    #[must_use]
    pub const fn by_majority(keys: Vec<[u8; 32]>) -> Self {
        let threshold = if keys.is_empty() { 0 } else { (keys.len() / 2 + 1) as u8 };
        Self { threshold, keys }
    }
}

impl Rules {
    /// What of these rules the members and clients of a group agree on.
    #[must_use]
    pub const fn facts(&self) -> Facts {
        Facts {
            fault_model: self.fault_model,
            group_size: self.group_size,
            quorum: self.quorum,
            replies: self.replies,
            reads: self.reads,
            pillars: self.pillars,
            speculative: self.speculative,
            replies_itself: self.replies_itself,
            authority: self.authority,
            counter: self.counter,
        }
    }
}

impl Configuration {
    /// Names it in what is bound to it: the hash of the encoding of what replicas
    /// [agree](Self::agreed) on.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Hasher::new("pentarchy configuration").bytes(&self.agreed().to_bytes()).finish()
    }

    /// Whether the group can come to order by another protocol. That is not built for pillars.
    #[must_use]
    pub const fn can_switch(&self) -> bool {
        self.lane.pillars == 1
    }

    /// What all replicas have of it. Of the first configuration that is all but the addresses and
    /// who may be a client: each host has these from its own `cluster.toml`, so that an operator
    /// can move a replica, or let another client in, by editing that on one host after the other.
    #[must_use]
    pub fn agreed(&self) -> Self {
        let mut agreed = self.clone();
        if self.number == 0 {
            agreed.members.iter_mut().for_each(|member| member.address.clear());
            agreed.access = Access::Open;
        }
        agreed
    }
}
