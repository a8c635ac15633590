//! What replicas say to each other, and what each statement covers.

use super::certificate::{Claims, NewView, ViewChange};
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::protocol;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// The primary orders a batch; its own vote for it.
    PrePrepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// A vote for what the primary or the view orders.
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// A replica has proof that a quorum voted. Only its receiver has to be convinced.
    Commit {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// A replica asks for a view; transferable.
    RequestViewChange {
        /// The lowest view it asks for.
        view: View,
    },
    /// A replica leaves all lower views and shows what it has proof of.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view with what a quorum showed.
    NewView(Arc<NewView>),
    /// The state after a slot.
    Checkpoint {
        /// The slot.
        slot: Slot,
        /// Its digest.
        state: Digest,
    },
    /// Proof of a stable checkpoint, for one who fell behind. Proves itself.
    Stable(CheckpointProof),
    /// What I have, so that others send what I lack.
    Report(Report),
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
pub struct Report {
    /// The view it is in or wants to enter.
    pub view: View,
    /// Whether it has entered that view.
    pub entered: bool,
    /// Whose VIEW-CHANGE for the view it has.
    pub view_changes: ReplicaSet,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// The last slot of its contiguous committed order.
    pub committed: Slot,
    /// The last slot up to which it knows what every slot orders.
    pub prepared: Slot,
    /// The last slot up to which it has certificates of this view. Less than what it committed, if
    /// that was in another view: without its votes and COMMITs here, others might never decide.
    pub certified: Slot,
    /// The peers whose last report says the same view and slots as this one.
    pub level: ReplicaSet,
}

impl Wire for Report {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.u8(u8::from(self.entered));
        self.view_changes.encode(to);
        for slot in [self.stable, self.committed, self.prepared, self.certified] {
            slot.encode(to);
        }
        self.level.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let view = View::decode(from)?;
        let flags = from.u8()?;
        if flags > 1 {
            return Err(Malformed);
        }
        Ok(Self {
            view,
            entered: flags != 0,
            view_changes: ReplicaSet::decode(from)?,
            stable: Slot::decode(from)?,
            committed: Slot::decode(from)?,
            prepared: Slot::decode(from)?,
            certified: Slot::decode(from)?,
            level: ReplicaSet::decode(from)?,
        })
    }
}

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                write!(f, "PrePrepare {view} {slot} {:?}", proposal.items)
            }
            Self::Prepare { view, slot, .. } => write!(f, "Prepare {view} {slot}"),
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
            Self::RequestViewChange { view } => write!(f, "RequestViewChange {view}"),
            Self::ViewChange(change) => {
                let Claims { view, stable, prepared } = &change.claims;
                let prepared: Vec<_> = prepared.iter().map(|it| (it.slot, it.view)).collect();
                write!(f, "ViewChange {view} from {stable} {prepared:?}")
            }
            Self::NewView(opening) => {
                let start = opening.start();
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                let (base, end) = (start.base, start.end());
                write!(f, "NewView {} of {members:?}, {base} to {end}", opening.view)
            }
            Self::Checkpoint { slot, .. } => write!(f, "Checkpoint {slot}"),
            Self::Stable(proof) => write!(f, "Stable {} by {:?}", proof.slot, proof.signers()),
            Self::Report(Report { view, committed, prepared, stable, .. }) => {
                write!(f, "Report {view} stable {stable} committed {committed} prepared {prepared}")
            }
            Self::Forward(envelope) => write!(f, "Forward {envelope:?}"),
            Self::AskBody { .. } => f.write_str("AskBody"),
            Self::Body(proposal) => write!(f, "Body {:?}", proposal.items),
            Self::AskEnvelope { .. } => f.write_str("AskEnvelope"),
            Self::Envelope(envelope) => write!(f, "Envelope {envelope:?}"),
        }
    }
}

/// What votes cover, the primary's PRE-PREPARE among them: a quorum of signatures under it is a
/// certificate. The batch enters by its digest, so that the header convinces without the body.
#[must_use]
pub fn prepare_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("pbft prepare").u64(view.0).u64(slot.0).digest(batch).finish()
}

/// What a REQUEST-VIEW-CHANGE's signature covers.
#[must_use]
pub fn request_statement(domain: &Domain, view: View) -> Digest {
    domain.statement("pbft request-view-change").u64(view.0).finish()
}

/// What a CHECKPOINT's signature covers.
#[must_use]
pub fn checkpoint_statement(domain: &Domain, slot: Slot, state: &Digest) -> Digest {
    domain.statement("pbft checkpoint").u64(slot.0).digest(state).finish()
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::PrePrepare { .. }
            | Self::Prepare { .. }
            | Self::RequestViewChange { .. }
            | Self::ViewChange(_)
            | Self::NewView(_)
            | Self::Checkpoint { .. } => Auth::Signature,
            Self::Commit { .. }
            | Self::Stable(_)
            | Self::Report(_)
            | Self::Forward(_)
            | Self::AskBody { .. }
            | Self::Body(_)
            | Self::AskEnvelope { .. }
            | Self::Envelope(_) => Auth::Channel,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::PrePrepare { .. } => "pre_prepare",
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::RequestViewChange { .. } => "request_view_change",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
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

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                prepare_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Prepare { view, slot, batch } => prepare_statement(domain, *view, *slot, batch),
            Self::RequestViewChange { view } => request_statement(domain, *view),
            Self::ViewChange(change) => change.claims.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Checkpoint { slot, state } => checkpoint_statement(domain, *slot, state),
            // These prove themselves or bind nobody; the channel vouches for the sender.
            Self::Commit { .. }
            | Self::Stable(_)
            | Self::Report(_)
            | Self::Forward(_)
            | Self::AskBody { .. }
            | Self::Body(_)
            | Self::AskEnvelope { .. }
            | Self::Envelope(_) => Digest::default(),
        }
    }
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Prepare { view, slot, batch } | Self::Commit { view, slot, batch } => {
                to.u8(if matches!(self, Self::Commit { .. }) { 2 } else { 1 });
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::RequestViewChange { view } => {
                to.u8(3);
                view.encode(to);
            }
            Self::ViewChange(change) => {
                to.u8(4);
                change.encode(to);
            }
            Self::NewView(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Checkpoint { slot, state } => {
                to.u8(6);
                slot.encode(to);
                state.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(7);
                proof.encode(to);
            }
            Self::Report(report) => {
                to.u8(8);
                report.encode(to);
            }
            Self::Forward(envelope) => {
                to.u8(9);
                envelope.encode(to);
            }
            Self::AskBody { batch } => {
                to.u8(10);
                batch.encode(to);
            }
            Self::Body(proposal) => {
                to.u8(11);
                proposal.encode(to);
            }
            Self::AskEnvelope { envelope } => {
                to.u8(12);
                envelope.encode(to);
            }
            Self::Envelope(envelope) => {
                to.u8(13);
                envelope.encode(to);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::PrePrepare {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            kind @ (1 | 2) => {
                let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
                let batch = Digest::decode(from)?;
                match kind {
                    1 => Self::Prepare { view, slot, batch },
                    _ => Self::Commit { view, slot, batch },
                }
            }
            3 => Self::RequestViewChange { view: View::decode(from)? },
            4 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            5 => Self::NewView(Arc::new(NewView::decode(from)?)),
            6 => Self::Checkpoint { slot: Slot::decode(from)?, state: Digest::decode(from)? },
            7 => Self::Stable(CheckpointProof::decode(from)?),
            8 => Self::Report(Report::decode(from)?),
            9 => Self::Forward(Arc::new(Envelope::decode(from)?)),
            10 => Self::AskBody { batch: Digest::decode(from)? },
            11 => Self::Body(Arc::new(Proposal::decode(from)?)),
            12 => Self::AskEnvelope { envelope: Digest::decode(from)? },
            13 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            _ => return Err(Malformed),
        })
    }
}
