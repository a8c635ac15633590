//! Who is in an epoch, with the keys by which their statements are checked.

pub use crate::configuration::BadMembership;
pub use crate::pillar_config::PillarConfig;

use crate::configuration::{Access, Configuration, MemberEntry};
use crate::digest::{Digest, Domain, EpochId};
use crate::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, ReplicaId, Slot, View};
use crate::mutant;
use crate::quorum::Quorums;
use crate::request::Envelope;
use crate::rules::Rules;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;

/// One replica of the group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Who it is, in all configurations.
    pub id: MemberId,
    /// Ed25519 public key of its own requests and, by conversion, of its channels.
    pub identity: [u8; 32],
    /// Ed25519 public key of what it signs in this configuration.
    pub signing: [u8; 32],
    /// The life of its trusted device that this epoch admits.
    pub incarnation: Incarnation,
    /// Ed25519 public key of its trusted device; all zero if the device certifies with the group's
    /// shared MAC key.
    pub device_key: [u8; 32],
}

/// One life of a member's trusted device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Life {
    /// See [`Member::incarnation`].
    pub incarnation: Incarnation,
    /// See [`Member::device_key`].
    pub device_key: [u8; 32],
}

impl Life {
    /// Of a device that certifies under the group's key.
    #[must_use]
    pub const fn mac(incarnation: Incarnation) -> Self {
        Self { incarnation, device_key: [0; 32] }
    }

    /// Whether its certificates are MACs under the group's key, and not signatures.
    #[must_use]
    pub fn is_mac(&self) -> bool {
        self.device_key == [0; 32]
    }
}

impl Wire for Life {
    fn encode(&self, to: &mut Writer) {
        self.incarnation.encode(to);
        to.array(&self.device_key);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { incarnation: Incarnation::decode(from)?, device_key: from.array()? })
    }
}

impl Member {
    /// The life of its device that the epoch admits.
    #[must_use]
    pub const fn life(&self) -> Life {
        Life { incarnation: self.incarnation, device_key: self.device_key }
    }
}

/// The state with which an epoch begins. The first one begins with nothing, at slot 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Base {
    /// The last slot that was executed before.
    pub slot: Slot,
    /// Digest of the state after it.
    pub state: Digest,
}

impl Wire for Base {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.state.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { slot: Slot::decode(from)?, state: Digest::decode(from)? })
    }
}

/// The members of one epoch, in the order of their ids.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// Name of the group.
    pub group: GroupId,
    /// Digest of the [`Configuration`] from which this comes.
    pub configuration: Digest,
    /// Number of this membership.
    pub epoch: Epoch,
    /// Faulty members that are tolerated.
    pub f: usize,
    /// The replicas; index is [`ReplicaId`].
    pub members: Arc<[Member]>,
    /// With which state it begins.
    pub base: Base,
    /// What of the order its replicas agree on.
    pub lane: PillarConfig,
    /// The configuration itself; none in a group that is made of keys alone
    /// ([`Self::of_keys`]), which cannot change.
    pub stated: Option<Arc<Configuration>>,
}

impl Configuration {
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
            stated: Some(Arc::new(self.clone())),
        }
    }
}

impl Membership {
    /// The number of its configuration; 0 also if nothing is stated of that.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.stated.as_ref().map_or(0, |stated| stated.number)
    }

    /// A group that has no configuration, in its first epoch, each of whose members has one key for
    /// all that it does: for tests and measurements.
    #[must_use]
    pub fn of_keys(
        group: GroupId,
        f: usize,
        members: impl IntoIterator<Item = ([u8; 32], Life)>,
    ) -> Self {
        let member = |(id, (key, life)): (u32, ([u8; 32], Life))| Member {
            id: MemberId(id),
            identity: key,
            signing: key,
            incarnation: life.incarnation,
            device_key: life.device_key,
        };
        Self {
            group,
            configuration: Digest::default(),
            epoch: Epoch(0),
            f,
            members: (0..).zip(members).map(member).collect(),
            base: Base::default(),
            lane: PillarConfig::default(),
            stated: None,
        }
    }

    /// Whether this client can propose to change the configuration.
    #[must_use]
    pub fn has_administrator(&self, client: &ClientId) -> bool {
        let stated = self.stated.as_deref();
        let keys = stated.map_or(&[][..], |stated| &stated.administrators.keys);
        keys.iter().any(|key| client.has_key(key))
    }

    /// Who can propose to change the configuration.
    pub fn administrators(&self) -> impl Iterator<Item = ClientId> + '_ {
        let stated = self.stated.as_deref();
        let keys = stated.into_iter().flat_map(|stated| &stated.administrators.keys);
        keys.map(|key| ClientId(*key))
    }

    /// Group size and faults.
    #[must_use]
    pub fn quorums(&self) -> Quorums {
        Quorums { n: self.members.len(), f: self.f }
    }

    /// How many replicas there are.
    #[must_use]
    pub fn n(&self) -> usize {
        self.members.len()
    }

    /// The one that proposes in a view. Another one in each epoch, so that no member begins them
    /// all.
    #[must_use]
    pub fn primary(&self, view: View) -> ReplicaId {
        let shift = self.lane.pillar.filter(|_| self.lane.rotates).unwrap_or_default();
        let reign = view.0.wrapping_add(self.epoch.0).wrapping_add(u64::from(shift));
        ReplicaId((reign % self.members.len() as u64) as u16)
    }

    /// Whether a replica of this number exists.
    #[must_use]
    pub fn contains(&self, id: ReplicaId) -> bool {
        usize::from(id.0) < self.members.len()
    }

    /// Which replica of the epoch this member is; none if it is not in it.
    #[must_use]
    pub fn index_of(&self, member: MemberId) -> Option<ReplicaId> {
        let index = self.members.iter().position(|it| it.id == member)?;
        u16::try_from(index).ok().map(ReplicaId)
    }

    /// The member who asks as this client, if any: a member's requests are to the group itself.
    #[must_use]
    pub fn member(&self, client: &ClientId) -> Option<ReplicaId> {
        let index = self.members.iter().position(|member| client.has_key(&member.identity))?;
        u16::try_from(index).ok().map(ReplicaId)
    }

    /// Whether this is a member or an administrator. Replicas take what these ask as addressed to
    /// the group.
    #[must_use]
    pub fn governs(&self, client: &ClientId) -> bool {
        self.member(client).is_some() || self.has_administrator(client)
    }

    /// Whether replicas order what this envelope asks, if these are the group's clients.
    ///
    /// An envelope to the group itself takes no place in the client table, and the roster refuses
    /// it to whoever has no say in the group. A machine that is to be a member has one, and is in
    /// no list.
    #[must_use]
    pub fn serves(&self, access: &Access, envelope: &Envelope) -> bool {
        let client = &envelope.client;
        access.admits(client)
            || self.governs(client)
            || envelope.is_to_group()
            || mutant!("access.connections-only")
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }

    /// Which epoch this is.
    #[must_use]
    pub const fn epoch_id(&self) -> EpochId {
        let Self { group, configuration, epoch, .. } = *self;
        EpochId { group, configuration, epoch }
    }

    /// To what statements about this epoch are bound, if it is one of the same configuration.
    #[must_use]
    pub fn domain_of(&self, epoch: Epoch) -> Domain {
        Domain::new(&EpochId { epoch, ..self.epoch_id() })
    }

    /// What clients' signatures and channels are bound to: the group, in whatever epoch it is. A
    /// request means the same in each, and is executed once in all of them.
    #[must_use]
    pub fn group_domain(&self) -> Domain {
        Domain::of_group(&self.group)
    }

    /// What clients' vectors of MACs are bound to: this configuration of the group, in whatever
    /// epoch. Some members may keep the signing keys that they had before. A vector that a client
    /// made for the configuration before must not convince these alone: a correct one of them, as
    /// primary, would order what all others refuse, and in crash mode later views would have to
    /// take that batch over.
    #[must_use]
    pub fn macs_domain(&self) -> Domain {
        self.domain_of(Epoch(0))
    }

    /// What every statement of a replica in this epoch is bound to.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.domain_in(self.lane)
    }

    /// The same of these members, if this is what they agree on.
    #[must_use]
    pub fn domain_in(&self, lane: PillarConfig) -> Domain {
        let PillarConfig { pillars, rotates, pillar } = lane;
        let mut domain = Domain::new(&self.epoch_id());
        if pillars > 1 {
            domain = domain.split(pillars, rotates);
        }
        pillar.map_or(domain, |pillar| domain.pillar(pillar))
    }

    /// The same members, who agree on one pillar of what these do, from this slot of it on.
    #[must_use]
    pub fn of_pillar(&self, pillar: u8, base: Slot) -> Self {
        let lane = PillarConfig { pillar: Some(pillar), ..self.lane };
        Self { lane, base: Base { slot: base, state: self.base.state }, ..self.clone() }
    }

    /// Checks that a protocol of these rules is safe and live in this group.
    ///
    /// # Errors
    /// [`BadMembership`] if it is not.
    pub fn check(&self, rules: &Rules) -> Result<(), BadMembership> {
        rules.facts().check(self.quorums())
    }
}
