//! What clients of Olympus ask it to do.

#[cfg(doc)]
use super::link::Link;
use super::terms::WHY_BYTES_MAX;
use alloc::string::String;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, MemberId, ReplicaId, Slot};
use pentarchy_core::limits::ADDRESS_BYTES_MAX;
use pentarchy_core::membership::Life;
use pentarchy_core::succession::{Mark, MarkCertificate, Report};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One operation. Who asks is the client who had it ordered: a candidate asks as the client of its
/// identity key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// An administrator adds a candidate to the pool.
    Enrol {
        /// Ed25519 public key for all that it asks of Olympus.
        identity: [u8; 32],
        /// `host:port`.
        address: String,
    },
    /// An administrator takes a candidate out of the pool. If it is a member, that ends the
    /// configuration.
    Dismiss(MemberId),
    /// An administrator says how many candidates beside the members there should be. Olympus only
    /// shows it beside how many there are.
    Spares(u16),
    /// A candidate says as whom it can be a member of the next configuration. A member that names
    /// another life has lost what it ordered: that ends the configuration.
    Register {
        /// Ed25519 public key that signs in that configuration.
        signing: [u8; 32],
        /// The life of its device.
        life: Life,
    },
    /// A member asks to end the configuration.
    Accuse {
        /// The epoch to end.
        epoch: Epoch,
        /// Who keeps the group from its work, as far as the member sees.
        about: ReplicaId,
        /// For people.
        why: String,
    },
    /// Anybody shows that a member signed two states, or histories, after one slot.
    Convict(Conviction),
    /// A member has stopped, and says what it had ordered.
    Report {
        /// What, by whom, in which life. No signature is needed inside an ordered request.
        report: Report,
        /// That its base is certified; none if it is that with which the epoch began.
        certificate: Option<MarkCertificate>,
    },
    /// A member of a proposal holds all that the next configuration begins with, durably.
    Holds {
        /// Which attempt.
        attempt: u32,
        /// [`Link::digest`] of what was proposed.
        link: Digest,
        /// The life that holds it.
        life: Life,
    },
    /// A member of a proposal cannot get a batch of it.
    Lacks {
        /// Which attempt.
        attempt: u32,
        /// [`Link::digest`] of what was proposed.
        link: Digest,
        /// Where the batch stands.
        slot: Slot,
    },
    /// The tail asks to read on.
    Renew {
        /// In which epoch.
        epoch: Epoch,
    },
    /// What is going on. Ordered, it moves the agreed time, which nothing else does while members
    /// wait; as a query it changes nothing.
    Status {
        /// The epoch in which the asker is: if that is over, it is told how the last one began.
        epoch: Epoch,
    },
    /// How an epoch ended. A query.
    Link {
        /// Which one.
        epoch: Epoch,
    },
}

/// Two contradicting marks of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conviction {
    /// The epoch of both.
    pub epoch: Epoch,
    /// Who signed both.
    pub by: ReplicaId,
    /// One, with its signature.
    pub one: (Mark, Signature),
    /// Another after the same slot.
    pub other: (Mark, Signature),
}

impl Conviction {
    /// Whether no correct member says both.
    pub fn contradicts(&self) -> bool {
        self.one.0.base.slot == self.other.0.base.slot && self.one.0 != self.other.0
    }
}

impl Wire for Conviction {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.by.encode(to);
        self.one.encode(to);
        self.other.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, by) = (Epoch::decode(from)?, ReplicaId::decode(from)?);
        Ok(Self { epoch, by, one: Wire::decode(from)?, other: Wire::decode(from)? })
    }
}

impl Wire for Operation {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Enrol { identity, address } => {
                to.u8(0);
                to.array(identity);
                to.bytes(address.as_bytes());
            }
            Self::Dismiss(member) => tagged(to, 1, member),
            Self::Spares(count) => {
                to.u8(2);
                to.u16(*count);
            }
            Self::Register { signing, life } => {
                to.u8(3);
                to.array(signing);
                life.encode(to);
            }
            Self::Accuse { epoch, about, why } => {
                tagged(to, 4, epoch);
                about.encode(to);
                to.bytes(why.as_bytes());
            }
            Self::Convict(conviction) => tagged(to, 5, conviction),
            Self::Report { report, certificate } => {
                tagged(to, 6, report);
                to.option(certificate.as_ref());
            }
            Self::Holds { attempt, link, life } => {
                to.u8(7);
                to.u32(*attempt);
                link.encode(to);
                life.encode(to);
            }
            Self::Lacks { attempt, link, slot } => {
                to.u8(8);
                to.u32(*attempt);
                link.encode(to);
                slot.encode(to);
            }
            Self::Renew { epoch } => tagged(to, 9, epoch),
            Self::Status { epoch } => tagged(to, 10, epoch),
            Self::Link { epoch } => tagged(to, 11, epoch),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Enrol { identity: from.array()?, address: text(from, ADDRESS_BYTES_MAX)? },
            1 => Self::Dismiss(MemberId::decode(from)?),
            2 => Self::Spares(from.u16()?),
            3 => Self::Register { signing: from.array()?, life: Life::decode(from)? },
            4 => Self::Accuse {
                epoch: Epoch::decode(from)?,
                about: ReplicaId::decode(from)?,
                why: text(from, WHY_BYTES_MAX)?,
            },
            5 => Self::Convict(Conviction::decode(from)?),
            6 => Self::Report { report: Report::decode(from)?, certificate: from.option()? },
            7 => Self::Holds {
                attempt: from.u32()?,
                link: Digest::decode(from)?,
                life: Life::decode(from)?,
            },
            8 => Self::Lacks {
                attempt: from.u32()?,
                link: Digest::decode(from)?,
                slot: Slot::decode(from)?,
            },
            9 => Self::Renew { epoch: Epoch::decode(from)? },
            10 => Self::Status { epoch: Epoch::decode(from)? },
            11 => Self::Link { epoch: Epoch::decode(from)? },
            _ => return Err(Malformed),
        })
    }
}

fn tagged(to: &mut Writer, tag: u8, value: &impl Wire) {
    to.u8(tag);
    value.encode(to);
}

/// Text of at most so many bytes.
pub(super) fn text(from: &mut Reader<'_>, bytes_max: usize) -> Result<String, Malformed> {
    String::from_utf8(from.bytes(bytes_max)?.to_vec()).map_err(|_| Malformed)
}
