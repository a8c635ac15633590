//! What Olympus says: to whoever asked, and unasked to members.

use super::link::{Link, Proposal};
use super::operation::text;
use super::terms::{POOL_MAX, WHY_BYTES_MAX};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use pentarchy_core::ids::{Epoch, MemberId, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The answer to an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done, or had been done before.
    Done,
    /// It was not.
    Refused(Refusal),
    /// The tail may read until then, by its own clock.
    Lease(Millis),
    /// To [`Status`](super::Operation::Status).
    Status(Box<Status>),
    /// To [`Link`](super::Operation::Link); none if the epoch is not over, or was long ago.
    Link(Option<Box<Link>>),
}

/// Why an operation was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The bytes are no operation.
    Malformed,
    /// The asker may not ask this.
    NotYours,
    /// It is about another epoch, or another attempt.
    NotNow,
    /// The pool is full.
    PoolFull,
    /// Another candidate has this key.
    KeyTaken,
    /// No member's address is empty or so long.
    Address,
    /// Too few would be left for a configuration.
    TooFew,
    /// It is in another life than the one that is a member.
    OtherLife,
    /// The report is one that no correct member makes: too long, without what the epoch inherited,
    /// or on a base that is not certified.
    Unfounded,
    /// The evidence proves nothing.
    NoContradiction,
    /// The operation changes state, and has to be ordered; or it is for queries only.
    NotSo,
}

const REFUSALS: [Refusal; 11] = [
    Refusal::Malformed,
    Refusal::NotYours,
    Refusal::NotNow,
    Refusal::PoolFull,
    Refusal::KeyTaken,
    Refusal::Address,
    Refusal::TooFew,
    Refusal::OtherLife,
    Refusal::Unfounded,
    Refusal::NoContradiction,
    Refusal::NotSo,
];

/// Where Olympus is with the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The configuration works.
    Active,
    /// It will be ended, at this agreed time.
    Accused(Millis),
    /// It is being ended.
    Wedging {
        /// Since when, in agreed time.
        since: Millis,
        /// Who reported.
        reported: ReplicaSet,
    },
}

/// Who asked to end a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accusation {
    /// A member; none if an administrator or evidence did.
    pub by: Option<ReplicaId>,
    /// The accused member.
    pub about: ReplicaId,
    /// For people.
    pub why: String,
}

/// A candidate, as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Who.
    pub member: MemberId,
    /// Whether it can be a member of the next configuration.
    pub is_registered: bool,
    /// How often it was in the way. The lowest are taken first.
    pub score: u32,
}

/// What is going on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Agreed time.
    pub time: Millis,
    /// The epoch that was begun last.
    pub epoch: Epoch,
    /// See [`Stage`].
    pub stage: Stage,
    /// Why it is being ended.
    pub accusation: Option<Accusation>,
    /// With what it may go on.
    pub proposal: Option<Proposal>,
    /// How the epoch began, if the asker is in an earlier one.
    pub link: Option<Link>,
    /// The pool, members included.
    pub pool: Vec<Standing>,
    /// How many candidates beside the members administrators want.
    pub spares: u16,
}

/// What Olympus tells members unasked. [`Status`] says the same to whoever missed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// To the members of this epoch: stop, and report.
    Wedge(Epoch),
    /// To the members of a proposal: get hold of it.
    Prepare(Proposal),
    /// To the members that begin, and to those before.
    Begin(Link),
}

impl Wire for Answer {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Done => to.u8(0),
            Self::Refused(refusal) => {
                to.u8(1);
                let place = REFUSALS.iter().position(|it| it == refusal);
                to.u8(place.expect("every refusal is in its list") as u8);
            }
            Self::Lease(until) => {
                to.u8(2);
                until.encode(to);
            }
            Self::Status(status) => {
                to.u8(3);
                status.encode(to);
            }
            Self::Link(link) => {
                to.u8(4);
                to.option(link.as_deref());
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Done,
            1 => Self::Refused(*REFUSALS.get(usize::from(from.u8()?)).ok_or(Malformed)?),
            2 => Self::Lease(Millis::decode(from)?),
            3 => Self::Status(Box::new(Status::decode(from)?)),
            4 => Self::Link(from.option()?.map(Box::new)),
            _ => return Err(Malformed),
        })
    }
}

impl Wire for Stage {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Active => to.u8(0),
            Self::Accused(due) => {
                to.u8(1);
                due.encode(to);
            }
            Self::Wedging { since, reported } => {
                to.u8(2);
                since.encode(to);
                reported.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Active),
            1 => Millis::decode(from).map(Self::Accused),
            2 => Ok(Self::Wedging { since: Wire::decode(from)?, reported: Wire::decode(from)? }),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Accusation {
    fn encode(&self, to: &mut Writer) {
        to.option(self.by.as_ref());
        self.about.encode(to);
        to.bytes(self.why.as_bytes());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (by, about) = (from.option()?, ReplicaId::decode(from)?);
        Ok(Self { by, about, why: text(from, WHY_BYTES_MAX)? })
    }
}

impl Wire for Standing {
    fn encode(&self, to: &mut Writer) {
        self.member.encode(to);
        to.u8(u8::from(self.is_registered));
        to.u32(self.score);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let member = MemberId::decode(from)?;
        let is_registered = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        Ok(Self { member, is_registered, score: from.u32()? })
    }
}

impl Wire for Status {
    fn encode(&self, to: &mut Writer) {
        self.time.encode(to);
        self.epoch.encode(to);
        self.stage.encode(to);
        to.option(self.accusation.as_ref());
        to.option(self.proposal.as_ref());
        to.option(self.link.as_ref());
        to.sequence(&self.pool);
        to.u16(self.spares);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            time: Millis::decode(from)?,
            epoch: Epoch::decode(from)?,
            stage: Stage::decode(from)?,
            accusation: from.option()?,
            proposal: from.option()?,
            link: from.option()?,
            pool: from.sequence(POOL_MAX)?,
            spares: from.u16()?,
        })
    }
}

impl Wire for Notice {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Wedge(epoch) => {
                to.u8(0);
                epoch.encode(to);
            }
            Self::Prepare(proposal) => {
                to.u8(1);
                proposal.encode(to);
            }
            Self::Begin(link) => {
                to.u8(2);
                link.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Epoch::decode(from).map(Self::Wedge),
            1 => Proposal::decode(from).map(Self::Prepare),
            2 => Link::decode(from).map(Self::Begin),
            _ => Err(Malformed),
        }
    }
}
