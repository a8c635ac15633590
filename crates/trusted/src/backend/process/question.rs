//! What a replica and the process of its counter say to each other: plain data, each with one
//! bounded encoding. Both sides decode what came as they would decode a stranger's message.

use crate::trinx::{self, Ask, COUNTERS, Certified, Claim, InstanceId, Kind, Reading, Value};
use pentarchy_core::counter::{Memory, Position, REPEATABLE, Refused, Ui};
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{ClientId, Incarnation, MemberId};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use pentarchy_crypto::session::Tag;

/// What is asked. Each goes to the mailbox of an instance, or, if it is a check, to any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// The first one, and the only one of its kind: whose device this is to be.
    Initialise(Initialise),
    /// [`super::super::Trinx::begin_epoch`], of the instance whose mailbox it is.
    BeginEpoch(EpochId),
    /// [`super::super::Trinx::certify`].
    Certify(Ask, Digest),
    /// [`super::super::Trinx::memory`].
    Recall,
    /// [`super::super::Trinx::restore`].
    Restore(Box<trinx::Memory>),
    /// [`pentarchy_core::counter::Usig::create`].
    Create(Position, Digest),
    /// [`pentarchy_core::counter::Usig::memory`].
    RecallUsig,
    /// [`pentarchy_core::counter::Usig::restore`].
    RestoreUsig(Memory),
    /// [`super::super::Trinx::verify`], in this context ([`trinx::context`]).
    CheckTrinx(Digest, InstanceId, trinx::Certificate, Digest),
    /// Whether a member's USIG gave an identifier in this context ([`crate::usig::context_of`]).
    CheckUsig(Digest, MemberId, Ui, Digest),
    /// Whether a client tagged a statement.
    CheckTag(ClientId, Digest, Tag),
    /// The public key with which clients agree on keys.
    SessionKey,
    /// Goes over to a later epoch, in which it is a device of this kind, if both kinds have one
    /// mailbox.
    Become(Device, EpochId),
}

/// Whose device it is, in which life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initialise {
    /// Which.
    pub device: Device,
    /// The epoch in which it begins, of which group, under which configuration.
    pub epoch: EpochId,
    /// Whose.
    pub member: MemberId,
    /// Its life. Whoever says it answers for no other device having it.
    pub incarnation: Incarnation,
}

/// Which device a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// A USIG that certifies under the group's secret.
    Usig,
    /// So many instances of TrInX, from 1 to [`super::INSTANCES_MAX`].
    Trinx(u16),
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// It is not done, nor will it be.
    Refused(Refused),
    /// To a check.
    Is(bool),
    /// To [`Question::Certify`].
    Certificate(trinx::Certificate),
    /// To [`Question::Recall`].
    Memory(Option<Box<trinx::Memory>>),
    /// To [`Question::Create`].
    Ui(Ui),
    /// To [`Question::RecallUsig`].
    UsigMemory(Memory),
    /// To [`Question::SessionKey`].
    Key([u8; 32]),
}

impl Wire for Question {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Initialise(whose) => tagged(to, 0, whose),
            Self::BeginEpoch(epoch) => tagged(to, 1, epoch),
            Self::Certify(ask, digest) => {
                tagged(to, 2, ask);
                digest.encode(to);
            }
            Self::Recall => to.u8(3),
            Self::Restore(memory) => tagged(to, 4, &**memory),
            Self::Create(position, digest) => {
                tagged(to, 5, position);
                digest.encode(to);
            }
            Self::RecallUsig => to.u8(6),
            Self::RestoreUsig(memory) => tagged(to, 7, memory),
            Self::CheckTrinx(context, by, certificate, digest) => {
                tagged(to, 8, context);
                by.encode(to);
                certificate.encode(to);
                digest.encode(to);
            }
            Self::CheckUsig(context, member, ui, digest) => {
                tagged(to, 9, context);
                member.encode(to);
                ui.encode(to);
                digest.encode(to);
            }
            Self::CheckTag(client, statement, tag) => {
                tagged(to, 10, client);
                statement.encode(to);
                to.array(tag);
            }
            Self::SessionKey => to.u8(11),
            Self::Become(device, epoch) => {
                tagged(to, 12, device);
                epoch.encode(to);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Initialise(Initialise::decode(from)?),
            1 => Self::BeginEpoch(EpochId::decode(from)?),
            2 => Self::Certify(Ask::decode(from)?, Digest::decode(from)?),
            3 => Self::Recall,
            4 => Self::Restore(Box::new(trinx::Memory::decode(from)?)),
            5 => Self::Create(Position::decode(from)?, Digest::decode(from)?),
            6 => Self::RecallUsig,
            7 => Self::RestoreUsig(Memory::decode(from)?),
            8 => {
                let (context, by) = (Digest::decode(from)?, InstanceId::decode(from)?);
                let certificate = trinx::Certificate::decode(from)?;
                Self::CheckTrinx(context, by, certificate, Digest::decode(from)?)
            }
            9 => {
                let (context, member) = (Digest::decode(from)?, MemberId::decode(from)?);
                Self::CheckUsig(context, member, Ui::decode(from)?, Digest::decode(from)?)
            }
            10 => {
                let (client, statement) = (ClientId::decode(from)?, Digest::decode(from)?);
                Self::CheckTag(client, statement, from.array()?)
            }
            11 => Self::SessionKey,
            12 => Self::Become(Device::decode(from)?, EpochId::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}

impl Wire for Answer {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Done => to.u8(0),
            Self::Refused(Refused::Spent) => to.u8(1),
            Self::Refused(Refused::Unavailable) => to.u8(2),
            Self::Is(false) => to.u8(3),
            Self::Is(true) => to.u8(4),
            Self::Certificate(certificate) => tagged(to, 5, certificate),
            Self::Memory(memory) => {
                to.u8(6);
                to.option(memory.as_deref());
            }
            Self::Ui(ui) => tagged(to, 7, ui),
            Self::UsigMemory(memory) => tagged(to, 8, memory),
            Self::Key(key) => {
                to.u8(9);
                to.array(key);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Done,
            1 => Self::Refused(Refused::Spent),
            2 => Self::Refused(Refused::Unavailable),
            3 => Self::Is(false),
            4 => Self::Is(true),
            5 => Self::Certificate(trinx::Certificate::decode(from)?),
            6 => Self::Memory(from.option()?.map(Box::new)),
            7 => Self::Ui(Ui::decode(from)?),
            8 => Self::UsigMemory(Memory::decode(from)?),
            9 => Self::Key(from.array()?),
            _ => return Err(Malformed),
        })
    }
}

/// A number for the kind, and what belongs to it.
fn tagged(to: &mut Writer, tag: u8, value: &impl Wire) {
    to.u8(tag);
    value.encode(to);
}

impl Wire for Device {
    fn encode(&self, to: &mut Writer) {
        to.u16(match self {
            Self::Usig => 0,
            Self::Trinx(instances) => *instances,
        });
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u16()? {
            0 => Ok(Self::Usig),
            instances if instances <= super::INSTANCES_MAX => Ok(Self::Trinx(instances)),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Initialise {
    fn encode(&self, to: &mut Writer) {
        self.device.encode(to);
        self.epoch.encode(to);
        self.member.encode(to);
        self.incarnation.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (device, epoch) = (Device::decode(from)?, EpochId::decode(from)?);
        let (member, incarnation) = (MemberId::decode(from)?, Incarnation::decode(from)?);
        Ok(Self { device, epoch, member, incarnation })
    }
}

impl Wire for Value {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0.to_le_bytes());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(u128::from_le_bytes).map(Self)
    }
}

impl Wire for InstanceId {
    fn encode(&self, to: &mut Writer) {
        self.member.encode(to);
        to.u16(self.number);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { member: MemberId::decode(from)?, number: from.u16()? })
    }
}

impl Wire for Kind {
    fn encode(&self, to: &mut Writer) {
        to.u8(if *self == Self::Continuing { 1 } else { 2 });
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            1 => Ok(Self::Continuing),
            2 => Ok(Self::Independent),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Ask {
    fn encode(&self, to: &mut Writer) {
        self.kind.encode(to);
        each(to, &self.values, |to, value| to.option(value.as_ref()));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { kind: Kind::decode(from)?, values: all(from, Reader::option)? })
    }
}

impl Wire for Reading {
    fn encode(&self, to: &mut Writer) {
        self.value.encode(to);
        to.option(self.previous.as_ref());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { value: Value::decode(from)?, previous: from.option()? })
    }
}

impl Wire for trinx::Certificate {
    fn encode(&self, to: &mut Writer) {
        let Claim { incarnation, kind, readings } = &self.claim;
        incarnation.encode(to);
        kind.encode(to);
        each(to, readings, |to, reading| to.option(reading.as_ref()));
        to.array(&self.seal);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (incarnation, kind) = (Incarnation::decode(from)?, Kind::decode(from)?);
        let claim = Claim { incarnation, kind, readings: all(from, Reader::option)? };
        Ok(Self { claim, seal: from.array()? })
    }
}

impl Wire for Certified {
    fn encode(&self, to: &mut Writer) {
        self.ask.encode(to);
        each(to, &self.before, |to, value| value.encode(to));
        self.digest.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (ask, before) = (Ask::decode(from)?, all(from, Value::decode)?);
        Ok(Self { ask, before, digest: Digest::decode(from)? })
    }
}

impl Wire for trinx::Memory {
    fn encode(&self, to: &mut Writer) {
        each(to, &self.values, |to, value| value.encode(to));
        each(to, &self.recent, |to, it| to.option(it.as_ref()));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let values = all::<_, COUNTERS>(from, Value::decode)?;
        Ok(Self { values, recent: all::<_, REPEATABLE>(from, Reader::option)? })
    }
}

/// A fixed number of values, one after the other.
fn each<T>(to: &mut Writer, values: &[T], encode: impl Fn(&mut Writer, &T)) {
    values.iter().for_each(|value| encode(to, value));
}

fn all<'a, T: Copy + Default, const N: usize>(
    from: &mut Reader<'a>,
    decode: impl Fn(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<[T; N], Malformed> {
    let mut values = [T::default(); N];
    for value in &mut values {
        *value = decode(from)?;
    }
    Ok(values)
}
