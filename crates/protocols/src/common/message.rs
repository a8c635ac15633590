//! What replicas of every protocol say to each other beside their protocol's own messages.

use super::certificate::{Check, CheckpointProof, Vouched};
use super::checks::{batch, requests};
use alloc::sync::Arc;
use core::fmt;
use pentarchy_core::auth::{Auth, Verifier};
use pentarchy_core::ballot::Ballot;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::{Reject, Topic, Value};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The first byte of their encodings is this or higher. Protocols number their own messages below.
const FIRST_TAG: u8 = 128;

/// | message | convinces by | says |
/// | --- | --- | --- |
/// | `RequestViewChange` | signature | I want that view |
/// | `Checkpoint` | signature | my state after that slot |
/// | `Stable` | itself | so many checkpoints, for one who fell behind |
/// | `Report` | channel | what I have; send what I lack |
/// | `Forward`, `AskEnvelope`, `Envelope` | itself | requests by digest |
/// | `AskBody`, `Body` | itself | batches by digest |
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Shared<M: More> {
    /// A replica asks for a view; transferable.
    RequestViewChange {
        /// The lowest view it asks for.
        view: View,
    },
    /// The state after a slot.
    Checkpoint {
        /// The slot.
        slot: Slot,
        /// The state.
        state: M::State,
    },
    /// Proof of a stable checkpoint, for one who fell behind. Proves itself.
    Stable(CheckpointProof<M::State>),
    /// What I have, so that others send what I lack.
    Report(Report<M>),
    /// A client's envelope for the primary, who may not have it.
    Forward(Arc<Envelope>),
    /// I lack the proposal with this digest.
    AskBody {
        /// Digest of the proposal.
        batch: Digest,
    },
    /// A proposal; its digest proves it.
    Body(Arc<Proposal>),
    /// I lack the envelope with this digest.
    AskEnvelope {
        /// Digest of the envelope.
        envelope: Digest,
    },
    /// An envelope; its digest and its client's authentication prove it.
    Envelope(Arc<Envelope>),
}

/// Where a replica stands, for its peers. Nothing is decided by it; it only moves retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Report<M> {
    /// The view it is in or wants to enter.
    pub view: View,
    /// Whether it has entered that view.
    pub entered: bool,
    /// Whose VIEW-CHANGE for the view it has.
    pub view_changes: ReplicaSet,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// The last slot that it executed.
    pub executed: Slot,
    /// The last slot up to which it knows what every slot orders.
    pub prepared: Slot,
    /// The peers whose last report says the same view and slots as this one.
    pub level: ReplicaSet,
    /// What else its protocol goes by.
    pub more: M,
}

/// What one protocol says beside what all say: in its reports this, and at its checkpoints.
pub trait More: Wire + Value + Copy + Default {
    /// What replicas vouch for at a checkpoint.
    type State: Vouched;

    /// A slot up to which its sender has got with what only this protocol counts. Who gets no
    /// further is stuck.
    fn reached(&self) -> Slot {
        Slot(0)
    }

    /// The last slot that is final at its sender, who executed so many.
    fn last_final(&self, executed: Slot) -> Slot {
        executed
    }
}

impl<M: More> Report<M> {
    /// The last slot that is final at its sender.
    #[must_use]
    pub fn last_final(&self) -> Slot {
        self.more.last_final(self.executed)
    }
}

impl<M: Wire> Wire for Report<M> {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.u8(u8::from(self.entered));
        self.view_changes.encode(to);
        for slot in [self.stable, self.executed, self.prepared] {
            slot.encode(to);
        }
        self.level.encode(to);
        self.more.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            entered: decode_flag(from)?,
            view_changes: ReplicaSet::decode(from)?,
            stable: Slot::decode(from)?,
            executed: Slot::decode(from)?,
            prepared: Slot::decode(from)?,
            level: ReplicaSet::decode(from)?,
            more: M::decode(from)?,
        })
    }
}

/// A byte that is 0 or 1.
///
/// # Errors
/// [`Malformed`] if it is neither.
pub fn decode_flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

/// The names of what replicas sign under a protocol. No two protocols share one, so that nothing
/// that was said in one counts in another.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// Of a REQUEST-VIEW-CHANGE.
    pub request_view_change: &'static str,
    /// Of a CHECKPOINT.
    pub checkpoint: &'static str,
}

impl Statements {
    /// What a REQUEST-VIEW-CHANGE's signature covers.
    #[must_use]
    pub fn request_view_change(&self, domain: &Domain, view: View) -> Digest {
        domain.statement(self.request_view_change).u64(view.0).finish()
    }

    /// What a CHECKPOINT's signature covers.
    #[must_use]
    pub fn checkpoint<S: Vouched>(&self, domain: &Domain, slot: Slot, state: &S) -> Digest {
        let mut statement = domain.statement(self.checkpoint);
        statement.u64(slot.0);
        state.cover(&mut statement);
        statement.finish()
    }

    /// Checks that `quorum` replicas vouch for a state.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if they do not.
    pub fn validate_checkpoint<S: Vouched>(
        &self,
        proof: &CheckpointProof<S>,
        check: Check<'_>,
        quorum: usize,
    ) -> Result<(), Reject> {
        let statement = self.checkpoint(&check.domain, proof.slot, &proof.state);
        proof.validate(check, &statement, quorum)
    }
}

/// Checks that a message is about a slot that can be ordered.
///
/// # Errors
/// [`Reject::OutOfBounds`] if it is about slot 0.
pub const fn in_bounds(slot: Slot) -> Result<(), Reject> {
    if slot.0 > 0 { Ok(()) } else { Err(Reject::OutOfBounds) }
}

impl<M: More> Shared<M> {
    /// See [`pentarchy_core::protocol::Protocol::validate`]. So many vouch for a stable state.
    ///
    /// # Errors
    /// The reason for which the message is refused.
    pub fn validate(
        &self,
        membership: &Membership,
        verifier: &dyn Verifier,
        statements: &Statements,
        vouching: usize,
    ) -> Result<(), Reject> {
        match self {
            Self::Checkpoint { slot, .. } => in_bounds(*slot),
            Self::Stable(proof) => {
                statements.validate_checkpoint(proof, Check::new(membership, verifier), vouching)
            }
            Self::Forward(envelope) | Self::Envelope(envelope) => {
                requests(verifier, core::iter::once(envelope))
            }
            Self::Body(proposal) => batch(verifier, proposal),
            Self::RequestViewChange { .. }
            | Self::Report(_)
            | Self::AskBody { .. }
            | Self::AskEnvelope { .. } => Ok(()),
        }
    }

    /// See [`pentarchy_core::protocol::Message::auth`].
    #[must_use]
    pub const fn auth(&self) -> Auth {
        match self {
            Self::RequestViewChange { .. } | Self::Checkpoint { .. } => Auth::Signature,
            _ => Auth::Channel,
        }
    }

    /// See [`pentarchy_core::protocol::Message::kind`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RequestViewChange { .. } => "request_view_change",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Stable(_) => "stable",
            Self::Report(_) => "report",
            Self::Forward(_) => "forward",
            Self::AskBody { .. } => "ask_body",
            Self::Body(_) => "body",
            Self::AskEnvelope { .. } => "ask_envelope",
            Self::Envelope(_) => "envelope",
        }
    }

    /// See [`pentarchy_core::protocol::Message::topic`]. Who asks for a view always asks alike.
    #[must_use]
    pub const fn topic(&self) -> Option<Topic> {
        match self {
            Self::Checkpoint { slot, .. } => Topic::of_slot(self.kind(), View(0), *slot),
            _ => None,
        }
    }

    /// See [`pentarchy_core::protocol::Message::ballots`].
    pub fn ballots(&self, cast: &mut dyn FnMut(Ballot)) {
        if let Self::Checkpoint { slot, state } = self {
            cast(Ballot::of_slot(self.kind(), View(0), *slot, state.state()));
        }
    }

    /// See [`pentarchy_core::protocol::Message::statement`]. What is not signed proves itself or
    /// binds nobody; the channel vouches for the sender.
    #[must_use]
    pub fn statement(&self, domain: &Domain, statements: &Statements) -> Digest {
        match self {
            Self::RequestViewChange { view } => statements.request_view_change(domain, *view),
            Self::Checkpoint { slot, state } => statements.checkpoint(domain, *slot, state),
            _ => Digest::default(),
        }
    }

    /// The rest of a message that begins with this byte.
    ///
    /// # Errors
    /// [`Malformed`] if no such message does, or goes on so.
    pub fn decode(tag: u8, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag.checked_sub(FIRST_TAG).ok_or(Malformed)? {
            0 => Self::RequestViewChange { view: View::decode(from)? },
            1 => Self::Checkpoint { slot: Slot::decode(from)?, state: M::State::decode(from)? },
            2 => Self::Stable(CheckpointProof::decode(from)?),
            3 => Self::Report(Report::decode(from)?),
            4 => Self::Forward(Arc::new(Envelope::decode(from)?)),
            5 => Self::AskBody { batch: Digest::decode(from)? },
            6 => Self::Body(Arc::new(Proposal::decode(from)?)),
            7 => Self::AskEnvelope { envelope: Digest::decode(from)? },
            8 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            _ => return Err(Malformed),
        })
    }

    /// Appends the encoding.
    pub fn encode(&self, to: &mut Writer) {
        to.u8(FIRST_TAG + self.index());
        match self {
            Self::RequestViewChange { view } => view.encode(to),
            Self::Checkpoint { slot, state } => {
                slot.encode(to);
                state.encode(to);
            }
            Self::Stable(proof) => proof.encode(to),
            Self::Report(report) => report.encode(to),
            Self::Forward(envelope) | Self::Envelope(envelope) => envelope.encode(to),
            Self::AskBody { batch: digest } | Self::AskEnvelope { envelope: digest } => {
                digest.encode(to);
            }
            Self::Body(proposal) => proposal.encode(to),
        }
    }

    const fn index(&self) -> u8 {
        match self {
            Self::RequestViewChange { .. } => 0,
            Self::Checkpoint { .. } => 1,
            Self::Stable(_) => 2,
            Self::Report(_) => 3,
            Self::Forward(_) => 4,
            Self::AskBody { .. } => 5,
            Self::Body(_) => 6,
            Self::AskEnvelope { .. } => 7,
            Self::Envelope(_) => 8,
        }
    }
}

/// One line for traces.
impl<M: More> fmt::Debug for Shared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestViewChange { view } => write!(f, "RequestViewChange {view}"),
            Self::Checkpoint { slot, .. } => write!(f, "Checkpoint {slot}"),
            Self::Stable(proof) => write!(f, "Stable {} by {:?}", proof.slot, proof.signers()),
            Self::Report(Report { view, executed, prepared, stable, .. }) => {
                write!(f, "Report {view} stable {stable} executed {executed} prepared {prepared}")
            }
            Self::Forward(envelope) => write!(f, "Forward {envelope:?}"),
            Self::AskBody { .. } => f.write_str("AskBody"),
            Self::Body(proposal) => write!(f, "Body {:?}", proposal.items),
            Self::AskEnvelope { .. } => f.write_str("AskEnvelope"),
            Self::Envelope(envelope) => write!(f, "Envelope {envelope:?}"),
        }
    }
}
