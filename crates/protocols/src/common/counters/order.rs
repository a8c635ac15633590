//! What devices certify about slots.

use super::Terms;
use crate::common::checks::batch;
use crate::common::message::in_bounds;
use alloc::sync::Arc;
use core::fmt;
use pentarchy_core::auth::{Auth, Verifier};
use pentarchy_core::ballot::Ballot;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// | message | who | convinces by | says |
/// | --- | --- | --- | --- |
/// | `Prepare` | primary | counter, at the slot's position | the slot orders this batch |
/// | `Commit` | backup | the same | I hold that batch and commit to it |
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Order {
    /// The primary orders a batch; its own commitment to it.
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// A backup commits to a PREPARE.
    Commit {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
}

impl Order {
    /// The view and the slot that it speaks of.
    #[must_use]
    pub const fn place(&self) -> (View, Slot) {
        match self {
            Self::Prepare { view, slot, .. } | Self::Commit { view, slot, .. } => (*view, *slot),
        }
    }

    /// See [`pentarchy_core::protocol::Protocol::validate`].
    ///
    /// # Errors
    /// The reason for which the message is refused.
    pub fn validate(
        &self,
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
    ) -> Result<(), Reject> {
        let (view, slot) = self.place();
        let proposes = matches!(self, Self::Prepare { .. });
        if (membership.primary(view) == author) != proposes {
            return Err(Reject::WrongRole);
        }
        in_bounds(slot)?;
        match self {
            Self::Prepare { proposal, .. } => batch(verifier, proposal),
            Self::Commit { .. } => Ok(()),
        }
    }

    /// See [`pentarchy_core::protocol::Message::auth`].
    #[must_use]
    pub const fn auth(&self, terms: &Terms) -> Auth {
        let (view, slot) = self.place();
        Auth::usig(terms.position(view, slot))
    }

    /// See [`pentarchy_core::protocol::Message::kind`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
        }
    }

    /// See [`pentarchy_core::protocol::Message::ballots`]: each is a commitment.
    pub fn ballots(&self, cast: &mut dyn FnMut(Ballot)) {
        let (view, slot) = self.place();
        let batch = match self {
            Self::Prepare { proposal, .. } => proposal.digest(),
            Self::Commit { batch, .. } => *batch,
        };
        cast(Ballot::of_slot("commit", view, slot, batch));
    }

    /// See [`pentarchy_core::protocol::Message::statement`].
    #[must_use]
    pub fn statement(&self, domain: &Domain, terms: &Terms) -> Digest {
        match self {
            Self::Prepare { view, slot, proposal } => {
                terms.prepare_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Commit { view, slot, batch } => {
                domain.statement(terms.commit).u64(view.0).u64(slot.0).digest(batch).finish()
            }
        }
    }

    /// Appends the encoding.
    pub fn encode(&self, to: &mut Writer) {
        to.u8(u8::from(matches!(self, Self::Commit { .. })));
        let (view, slot) = self.place();
        view.encode(to);
        slot.encode(to);
        match self {
            Self::Prepare { proposal, .. } => proposal.encode(to),
            Self::Commit { batch, .. } => batch.encode(to),
        }
    }

    /// The rest of a message that begins with this byte.
    ///
    /// # Errors
    /// [`Malformed`] if no such message does, or goes on so.
    pub fn decode(tag: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
        Ok(match tag {
            0 => Self::Prepare { view, slot, proposal: Arc::new(Proposal::decode(from)?) },
            1 => Self::Commit { view, slot, batch: Digest::decode(from)? },
            _ => return Err(Malformed),
        })
    }
}

/// One line for traces.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { view, slot, proposal } => {
                write!(f, "Prepare {view} {slot} {:?}", proposal.items)
            }
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
        }
    }
}

impl Terms {
    /// What a PREPARE's certificate covers. The batch enters by its digest, so that the header
    /// convinces without the body.
    #[must_use]
    pub fn prepare_statement(
        &self,
        domain: &Domain,
        view: View,
        slot: Slot,
        batch: &Digest,
    ) -> Digest {
        domain.statement(self.prepare).u64(view.0).u64(slot.0).digest(batch).finish()
    }
}
