//! What replicas keep across a crash of what they said by their counters.
//!
//! Each record is persisted before the message that rests on it is sent: a commitment before the
//! COMMIT, with the batch that it commits to. Slots are not logged as decided: whoever committed
//! says so again, and a quorum of commitments decides as before.

use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::protocol::Message;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget. A fact: it may be told twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Noted<M> {
    /// As primary, this replica proposes.
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica commits to that PREPARE.
    Commit(Verified<M>),
    /// What this replica said, under the certificate that it was given.
    Said(Verified<M>),
    /// This replica executes what that PREPARE orders, and has not committed to it.
    Executed(Verified<M>),
}

impl<M: Message> Noted<M> {
    /// With this byte the encoding of [`Self::Said`] begins. Protocols number their own records
    /// between 2 and this, and above.
    pub const SAID: u8 = 6;
    /// And with this that of [`Self::Executed`].
    pub const EXECUTED: u8 = 16;

    /// Appends the encoding.
    pub fn encode(&self, to: &mut Writer) {
        match self {
            Self::Prepare { view, slot, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Commit(prepare) => {
                to.u8(1);
                prepare.encode(to);
            }
            Self::Said(message) => {
                to.u8(Self::SAID);
                message.encode(to);
            }
            Self::Executed(prepare) => {
                to.u8(Self::EXECUTED);
                prepare.encode(to);
            }
        }
    }

    /// The rest of a record that begins with this byte.
    ///
    /// # Errors
    /// [`Malformed`] if no such record does, or goes on so.
    pub fn decode(tag: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            0 => Self::Prepare {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Commit(Verified::decode(from)?),
            Self::SAID => Self::Said(Verified::decode(from)?),
            Self::EXECUTED => Self::Executed(Verified::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}
