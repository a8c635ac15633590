//! What replicas say to each other about epochs.

use super::handover::{Handover, Proof};
use crate::auth::Signature;
use crate::digest::Digest;
use crate::ids::Epoch;
use crate::limits::HANDOVERS_SENT_MAX;
use crate::request::Envelope;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What replicas say to each other about epochs, over their channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// I am in this epoch, under the configuration with this digest: show me how it ended, if it
    /// did.
    At {
        /// The epoch.
        epoch: Epoch,
        /// The digest.
        configuration: Digest,
    },
    /// I executed the whole epoch, and sign for it.
    Vote(Handover, Signature),
    /// How epochs ended, one after the other.
    Proofs(Vec<Proof>),
    /// Have this ordered: its author asks something of the group, such as to be admitted.
    Admit(Arc<Envelope>),
    /// I am no member from this epoch on. Do you have the state with which it began? If not, I may.
    Leaves {
        /// The epoch.
        epoch: Epoch,
    },
    /// I have the state with which this epoch began, durably if I keep anything.
    Settled {
        /// The epoch.
        epoch: Epoch,
    },
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::At { epoch, configuration } => {
                to.u8(0);
                epoch.encode(to);
                configuration.encode(to);
            }
            Self::Vote(handover, signature) => {
                to.u8(1);
                handover.encode(to);
                signature.encode(to);
            }
            Self::Proofs(proofs) => {
                to.u8(2);
                to.sequence(proofs);
            }
            Self::Admit(envelope) => {
                to.u8(3);
                envelope.encode(to);
            }
            Self::Leaves { epoch } => {
                to.u8(4);
                epoch.encode(to);
            }
            Self::Settled { epoch } => {
                to.u8(5);
                epoch.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => {
                let (epoch, configuration) = (Epoch::decode(from)?, Digest::decode(from)?);
                Ok(Self::At { epoch, configuration })
            }
            1 => Ok(Self::Vote(Handover::decode(from)?, Signature::decode(from)?)),
            2 => from.sequence(HANDOVERS_SENT_MAX).map(Self::Proofs),
            3 => Envelope::decode(from).map(|envelope| Self::Admit(Arc::new(envelope))),
            4 => Ok(Self::Leaves { epoch: Epoch::decode(from)? }),
            5 => Ok(Self::Settled { epoch: Epoch::decode(from)? }),
            _ => Err(Malformed),
        }
    }
}
