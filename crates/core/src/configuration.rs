//! What a group has agreed on about itself: its members and their keys, how many of them may be
//! faulty, and by which protocol they order.
//!
//! A configuration is data. It states the facts that a protocol's name stands for, so that a
//! replica can judge a configuration of a protocol that its program does not have, and two versions
//! of a program never compute different quorums for one name. Its digest is a part of everything
//! that a replica says ([`Domain`](crate::digest::Domain)): what is said under one configuration
//! means nothing under another.

mod wire;

use crate::counter::Counter;
use crate::digest::{Digest, Hasher};
use crate::ids::{Epoch, GroupId, MemberId};
use crate::limits::{ADDRESS_BYTES_MAX, PILLARS_MAX, PROTOCOL_NAME_BYTES_MAX, REPLICAS_MAX};
use crate::membership::{BadMembership, Base, Life, Member, Membership, PillarConfig};
use crate::protocol::{Authority, FaultModel, Rules, Tuning};
use crate::quorum::{Count, QuorumRule, Quorums, ReadRule};
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
    /// The protocol's word, at most [`PROTOCOL_NAME_BYTES_MAX`] long.
    pub protocol: String,
    /// What that word stands for.
    pub facts: Facts,
    /// Faulty members that are tolerated.
    pub f: u16,
    /// How the order is split. Its `pillar` is none.
    pub lane: PillarConfig,
    /// Sizes that all replicas must share.
    pub tuning: Tuning,
    /// How clients convince replicas.
    pub requests: RequestMeans,
    /// Hash of the secret that the members' devices share, if they share one and it was stated.
    pub secret: Option<Digest>,
    /// Who may change the configuration.
    pub administrators: Administrators,
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
    /// `host:port`, at most [`ADDRESS_BYTES_MAX`] long; nobody resolves it here.
    pub address: String,
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

/// Why no group can have a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadConfiguration {
    /// Too few or too many members for its faults.
    Members(BadMembership),
    /// Two members have one number or one key, or a number is not yet given.
    SameMember,
    /// The protocol's name is empty or too long, or has other letters than `a` to `z`, digits and
    /// hyphens.
    Protocol,
    /// An address is empty or too long.
    Address,
    /// Its order is split where the protocol does not allow that, or into too many pillars.
    Pillars,
    /// The threshold of administrators is 0 or above their number, or a key is named twice.
    Administrators,
}

impl fmt::Display for BadConfiguration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Members(error) => return error.fmt(out),
            Self::SameMember => "two members have the same number or key",
            Self::Protocol => "a protocol has no such name",
            Self::Address => "a member has no address, or one that is too long",
            Self::Pillars => "the protocol does not split its order so",
            Self::Administrators => {
                "the administrators' keys must differ, and the threshold must be from 1 to their \
                 number"
            }
        })
    }
}

impl core::error::Error for BadConfiguration {}

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
            authority: self.authority,
            counter: self.counter,
        }
    }
}

impl Configuration {
    /// Names it in all that is said under it: the hash of its encoding.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Hasher::new("pentarchy configuration").bytes(&self.to_bytes()).finish()
    }

    /// The first epoch of a group that begins with it, in which these lives of devices count.
    ///
    /// # Panics
    /// If there is not one life for each member.
    #[must_use]
    pub fn begin(&self, lives: &[Life]) -> Membership {
        assert_eq!(lives.len(), self.members.len(), "one life for each member");
        let member = |(entry, life): (&MemberEntry, &Life)| Member {
            id: entry.id,
            identity: entry.identity,
            signing: entry.signing,
            incarnation: life.incarnation,
            device_key: life.device_key,
        };
        Membership {
            group: self.group,
            configuration: self.digest(),
            epoch: Epoch(0),
            f: self.f.into(),
            members: self.members.iter().zip(lives).map(member).collect(),
            base: Base::default(),
            lane: self.lane,
        }
    }

    /// Whether a group can work by it, from what it says alone.
    ///
    /// # Errors
    /// [`BadConfiguration`] if not.
    pub fn check(&self) -> Result<(), BadConfiguration> {
        let group = Quorums { n: self.members.len(), f: self.f.into() };
        self.facts.check(group).map_err(BadConfiguration::Members)?;
        let name = self.protocol.as_bytes();
        let is_letter = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-';
        let fits = (1..=PROTOCOL_NAME_BYTES_MAX).contains(&name.len());
        (fits && name.iter().all(is_letter)).then_some(()).ok_or(BadConfiguration::Protocol)?;
        let mut addresses = self.members.iter().map(|member| member.address.len());
        let good = addresses.all(|length| (1..=ADDRESS_BYTES_MAX).contains(&length));
        good.then_some(()).ok_or(BadConfiguration::Address)?;
        let PillarConfig { pillars, pillar, .. } = self.lane;
        let splits = if self.facts.pillars { 2..=PILLARS_MAX } else { 1..=1 };
        let good = splits.contains(&pillars) && pillar.is_none();
        good.then_some(()).ok_or(BadConfiguration::Pillars)?;
        self.check_keys()
    }

    fn check_keys(&self) -> Result<(), BadConfiguration> {
        let ids: Vec<_> = self.members.iter().map(|member| member.id).collect();
        let identities: Vec<_> = self.members.iter().map(|member| member.identity).collect();
        let signing: Vec<_> = self.members.iter().map(|member| member.signing).collect();
        let given = ids.iter().all(|id| *id < self.next_member);
        let good = given && differ(ids) && differ(identities) && differ(signing);
        good.then_some(()).ok_or(BadConfiguration::SameMember)?;
        let Administrators { threshold, keys } = &self.administrators;
        let threshold = usize::from(*threshold);
        let fits = if keys.is_empty() { threshold == 0 } else { threshold >= 1 };
        let good = fits && threshold <= keys.len() && differ(keys.clone());
        good.then_some(()).ok_or(BadConfiguration::Administrators)
    }
}

/// Whether no value is there twice.
fn differ<T: Ord>(mut values: Vec<T>) -> bool {
    values.sort_unstable();
    values.windows(2).all(|pair| pair[0] != pair[1])
}

impl Facts {
    /// Whether a protocol of which these are true is safe and live in a group of this size.
    ///
    /// # Errors
    /// [`BadMembership`] if it is not.
    pub const fn check(&self, group: Quorums) -> Result<(), BadMembership> {
        let Quorums { n, f } = group;
        let (needed, least) = (self.group_size.of(f), self.fault_model.replicas_min(f));
        let is_enough = n >= needed && n >= least && n <= REPLICAS_MAX;
        if is_enough && self.quorum.works_in(group) {
            Ok(())
        } else {
            Err(BadMembership { n, f, needed })
        }
    }
}
