//! What replicas of every protocol keep across a crash beside their protocol's own records.

use super::certificate::{CheckpointProof, Vouched};
use alloc::sync::Arc;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The first byte of their encodings is this or higher. Protocols number their own records below.
const FIRST_TAG: u8 = 128;

/// One thing that no replica forgets. A fact: it may be told twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kept<S = Digest> {
    /// An envelope that the next proposal names without carrying it.
    Envelope(Arc<Envelope>),
    /// A batch that a later record is about.
    Body {
        /// The slot that orders it.
        slot: Slot,
        /// The batch, as it was proposed.
        proposal: Arc<Proposal>,
    },
    /// A state that a quorum vouches for; nothing up to there is needed any more.
    Stable(CheckpointProof<S>),
}

impl<S: Vouched> Kept<S> {
    /// Appends the encoding.
    pub fn encode(&self, to: &mut Writer) {
        match self {
            Self::Envelope(envelope) => {
                to.u8(FIRST_TAG);
                envelope.encode(to);
            }
            Self::Body { slot, proposal } => {
                to.u8(FIRST_TAG + 1);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(FIRST_TAG + 2);
                proof.encode(to);
            }
        }
    }

    /// The rest of a record that begins with this byte.
    ///
    /// # Errors
    /// [`Malformed`] if no such record does, or goes on so.
    pub fn decode(tag: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag.checked_sub(FIRST_TAG).ok_or(Malformed)? {
            0 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            1 => Self::Body {
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            2 => Self::Stable(CheckpointProof::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}
