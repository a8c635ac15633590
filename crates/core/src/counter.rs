//! The trusted counter as protocols see it: certificate types and the trait, no implementation.
//!
//! A USIG (*Efficient Byzantine fault tolerance*, section 2) gives each message a unique identifier
//! with a counter reading that never repeats. Ours counts positions `(view, index)` in ascending
//! order, as Hybster's counters do (*Hybrids on Steroids*, section 4), and keeps one thing more:
//! the highest position at which it certified a *commitment*. A replica that leaves a view must
//! have the new position certified, and that certificate names the last commitment, so nothing that
//! it committed to can be left out of its report, however many views have failed in between. Why
//! the paper's plain counter cannot bound that report: `docs/protocols/minbft.md`.

pub use crate::rules::Counter;

use crate::digest::Digest;
use crate::ids::{Incarnation, ReplicaId, View};
use crate::membership::Membership;
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Which of a replica's trusted counters. Most protocols have one; each counts for itself, and what
/// it certifies names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instance(pub u8);

impl Instance {
    /// The one that every replica has.
    pub const FIRST: Self = Self(0);
    /// The highest that an identifier can name.
    pub const MAX: u8 = 127;
}

impl Membership {
    /// By which of their counters its members certify.
    #[must_use]
    pub fn instance(&self) -> Instance {
        self.lane.pillar.map_or(Instance::FIRST, Instance)
    }
}

/// A counter reading. Positions are ordered by view, then by index; a device certifies each at
/// most once and never one below the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The view in which the message speaks.
    pub view: View,
    /// What it says there; see the associated constants.
    pub index: u64,
}

impl Position {
    /// Index of the message by which a replica leaves all lower views (VIEW-CHANGE).
    pub const LEAVE: u64 = 0;
    /// Index of the message that opens a view (NEW-VIEW, or a backup's acknowledgement of it).
    pub const OPEN: u64 = 1;
    /// Index of the first commitment in a view. From here on a certificate commits its maker.
    pub const COMMITMENT: u64 = 2;

    /// The position of `index` in `view`.
    #[must_use]
    pub const fn new(view: View, index: u64) -> Self {
        Self { view, index }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.view.0, self.index)
    }
}

impl Wire for Position {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.u64(self.index);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { view: View::decode(from)?, index: from.u64()? })
    }
}

impl Counter {
    /// Where a fresh device stands, as its last position and as its last commitment.
    #[must_use]
    pub const fn start(self) -> Position {
        match self {
            Self::Usig | Self::Unbound => Position::new(View(0), Position::COMMITMENT),
            Self::Trinx => Position::new(View(0), 0),
        }
    }

    /// What an identifier for a position names of a device that has this last position, and this
    /// last commitment.
    #[must_use]
    pub const fn names(self, at: Position, last: Position, committed: Position) -> Position {
        match self {
            Self::Usig | Self::Unbound => committed,
            Self::Trinx if at.index == Position::LEAVE => last,
            Self::Trinx => Position::new(View(0), 0),
        }
    }
}

/// The device's seal on (incarnation, instance, position, committed, digest).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certificate {
    /// HMAC-SHA-256 under a key that only the group's devices hold; checked inside a device.
    Mac([u8; 32]),
    /// Ed25519 under the device's own key; anyone can check it.
    Signature([u8; 64]),
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Self::Mac(bytes) => ("mac", &bytes[..4]),
            Self::Signature(bytes) => ("sig", &bytes[..4]),
        };
        write!(f, "{kind}:")?;
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A unique identifier: proof that the device gave this position to one message and to no other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ui {
    /// The life of the device that made it.
    pub incarnation: Incarnation,
    /// Which of that replica's devices.
    pub instance: Instance,
    /// The counter reading.
    pub position: Position,
    /// The highest position with an index of at least [`Position::COMMITMENT`] that the device had
    /// certified *before* this one; of TrInX another one ([`Counter::names`]).
    pub committed: Position,
    /// The seal over the four fields above and the digest of the message.
    pub certificate: Certificate,
}

impl Ui {
    /// Whether it is of this counter and for this position.
    #[must_use]
    pub fn is_at(&self, instance: Instance, position: Position) -> bool {
        let any = mutant!("pillars.any-pillar");
        (self.instance == instance || any) && self.position == position
    }
}

/// The instance shares a byte with the kind of the seal.
impl Wire for Ui {
    fn encode(&self, to: &mut Writer) {
        self.incarnation.encode(to);
        self.position.encode(to);
        self.committed.encode(to);
        let instance = self.instance.0 << 1;
        match &self.certificate {
            Certificate::Mac(bytes) => {
                to.u8(instance);
                to.array(bytes);
            }
            Certificate::Signature(bytes) => {
                to.u8(instance | 1);
                to.array(bytes);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let incarnation = Incarnation::decode(from)?;
        let (position, committed) = (Position::decode(from)?, Position::decode(from)?);
        let tag = from.u8()?;
        let certificate = match tag & 1 {
            0 => Certificate::Mac(from.array()?),
            _ => Certificate::Signature(from.array()?),
        };
        Ok(Self { incarnation, instance: Instance(tag >> 1), position, committed, certificate })
    }
}

/// The device's word that its replica said something, for all devices of the group: HMAC-SHA-256
/// under a key that only they hold, over the device, its life and the digest. Moves no counter, so
/// it excludes nothing; a device gives it to whatever it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustedMac(pub [u8; 32]);

impl fmt::Debug for TrustedMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Certificate::Mac(self.0).fmt(f)
    }
}

impl Wire for TrustedMac {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

/// Why a device refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The position is not above the last one, and it is not a repetition that the device still
    /// remembers; or the epoch is over.
    Spent,
    /// The device cannot be reached or has failed. Final: the replica stops.
    Unavailable,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spent => "the trusted counter has passed this position already",
            Self::Unavailable => "the trusted counter does not answer",
        })
    }
}

impl core::error::Error for Refused {}

/// Certificates that a device can be asked for again, and remembers for that. A [`Memory`] has at
/// most so many.
pub const REPEATABLE: usize = 8;

/// Something that a device certified.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Statement {
    /// At which position.
    pub position: Position,
    /// The last commitment before it.
    pub committed: Position,
    /// What.
    pub digest: Digest,
}

impl Wire for Statement {
    fn encode(&self, to: &mut Writer) {
        self.position.encode(to);
        self.committed.encode(to);
        self.digest.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (position, committed) = (Position::decode(from)?, Position::decode(from)?);
        Ok(Self { position, committed, digest: Digest::decode(from)? })
    }
}

/// All that a device remembers of its present epoch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// The highest position that it certified.
    pub last: Position,
    /// The highest of those that are commitments.
    pub committed: Position,
    /// What it would repeat, the newest first; at most [`REPEATABLE`].
    pub recent: Vec<Statement>,
}

impl Wire for Memory {
    fn encode(&self, to: &mut Writer) {
        self.last.encode(to);
        self.committed.encode(to);
        to.sequence(&self.recent);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (last, committed) = (Position::decode(from)?, Position::decode(from)?);
        Ok(Self { last, committed, recent: from.sequence(REPEATABLE)? })
    }
}

/// The trusted service. One device serves one replica, in one epoch after the other; in each it
/// begins at position `0:2`, so that view 0 needs no opening. What it certifies names the epoch.
pub trait Usig: Send {
    /// The life of this device.
    fn incarnation(&self) -> Incarnation;

    /// Goes over to a later epoch, for good: nothing is certified in the ones before any more.
    /// Nothing to do if it is in this epoch already.
    ///
    /// # Errors
    /// [`Refused`] if the device was in a later one, or has failed.
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused>;

    /// Certifies `digest` at `position`, which must be above every position before.
    ///
    /// Idempotent: one of the last positions with the same digest gives the same identifier again,
    /// so that a crash between the device and our log leaves no hole.
    ///
    /// # Errors
    /// [`Refused`] if the position is spent or the device has failed.
    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused>;

    /// Says that its replica was given `digest` to say. Nothing changes by that, and the same
    /// digest has the same MAC in all of an epoch.
    ///
    /// # Errors
    /// [`Refused::Unavailable`] if the device has failed, or makes none.
    fn mac(&mut self, digest: &Digest) -> Result<TrustedMac, Refused> {
        let _ = digest;
        Err(Refused::Unavailable)
    }

    /// What it remembers of its epoch, for a host that keeps it across a crash. None if the device
    /// keeps that itself, which is the better place.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Brings a device that has certified nothing in this epoch to where one of the same life was,
    /// so that nobody can tell the two apart. The memory must be as new as anything that the other
    /// one certified; what it certified since has to be asked of this one again, in the same order,
    /// before anything else.
    ///
    /// # Errors
    /// [`Refused::Spent`] if it has certified something in this epoch, if no device could have such
    /// a memory, or if it keeps its memory itself.
    fn restore(&mut self, _memory: &Memory) -> Result<(), Refused> {
        Err(Refused::Spent)
    }

    /// Whether the device of `replica` gave `ui` to the message with this digest.
    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool;
}

/// All trusted counters of one replica, all in the same life and the same epoch.
pub trait Counters {
    /// The counter of this number.
    ///
    /// # Errors
    /// [`Refused::Unavailable`] if there is none.
    fn of(&mut self, instance: Instance) -> Result<&mut dyn Usig, Refused>;
}

impl Counters for Vec<Box<dyn Usig>> {
    fn of(&mut self, instance: Instance) -> Result<&mut dyn Usig, Refused> {
        let counter = self.get_mut(usize::from(instance.0)).ok_or(Refused::Unavailable)?;
        Ok(&mut **counter)
    }
}
