//! What replicas say to each other, and what each statement covers.

use super::certificate::{NewView, ViewChange};
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::protocol;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The counter position at which a view's primary proposes a slot and its backups commit to it.
/// Behind ENTER, which is the view's first commitment.
#[must_use]
pub const fn position(view: View, slot: Slot) -> Position {
    Position::new(view, slot.0.saturating_add(Position::COMMITMENT))
}

/// The slot whose commitment stands at an index, if one does.
#[must_use]
pub const fn slot_at(index: u64) -> Option<Slot> {
    if index > Position::COMMITMENT { Some(Slot(index - Position::COMMITMENT)) } else { None }
}

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
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
    /// A replica asks for a view; transferable.
    RequestViewChange {
        /// The lowest view it asks for.
        view: View,
    },
    /// A replica leaves all lower views and shows what it committed to.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view with what a quorum showed.
    NewView(Arc<NewView>),
    /// A backup found the NEW-VIEW valid.
    Acknowledge {
        /// The view.
        view: View,
        /// Digest of the NEW-VIEW's statement.
        opening: Digest,
    },
    /// A replica commits to the NEW-VIEW, having seen a quorum find it valid.
    Enter {
        /// The view.
        view: View,
        /// Digest of the NEW-VIEW's statement.
        opening: Digest,
    },
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
    /// Whether it has the view's NEW-VIEW.
    pub opened: bool,
    /// Whose VIEW-CHANGE for the view it has.
    pub view_changes: ReplicaSet,
    /// Whose acknowledgement of the view it has.
    pub acknowledged: ReplicaSet,
    /// Whose ENTER for the view it has.
    pub enters: ReplicaSet,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// The last slot of its contiguous committed order.
    pub committed: Slot,
    /// The last slot up to which it knows what every slot orders.
    pub prepared: Slot,
    /// The peers whose last report says the same view and slots as this one.
    pub level: ReplicaSet,
}

impl Wire for Report {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.u8(u8::from(self.entered) | u8::from(self.opened) << 1);
        for set in [self.view_changes, self.acknowledged, self.enters] {
            set.encode(to);
        }
        for slot in [self.stable, self.committed, self.prepared] {
            slot.encode(to);
        }
        self.level.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let view = View::decode(from)?;
        let flags = from.u8()?;
        if flags > 3 {
            return Err(Malformed);
        }
        Ok(Self {
            view,
            entered: flags & 1 != 0,
            opened: flags & 2 != 0,
            view_changes: ReplicaSet::decode(from)?,
            acknowledged: ReplicaSet::decode(from)?,
            enters: ReplicaSet::decode(from)?,
            stable: Slot::decode(from)?,
            committed: Slot::decode(from)?,
            prepared: Slot::decode(from)?,
            level: ReplicaSet::decode(from)?,
        })
    }
}

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { view, slot, proposal } => {
                write!(f, "Prepare {view} {slot} {:?}", proposal.items)
            }
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
            Self::RequestViewChange { view } => write!(f, "RequestViewChange {view}"),
            Self::ViewChange(change) => {
                let entry = change.entry.as_ref().map(|entry| (entry.view, entry.end()));
                let (low, shown) = (change.checkpoint.slot, change.shown());
                write!(f, "ViewChange {} from {low} to {shown}", change.view)?;
                entry.map_or(Ok(()), |(view, end)| write!(f, ", {view} took over to {end}"))
            }
            Self::NewView(opening) => {
                let start = opening.start();
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                let end = Slot(start.base.0.saturating_add(start.list.len() as u64));
                write!(f, "NewView {} of {members:?}, {} to {end}", opening.view, start.base)
            }
            Self::Acknowledge { view, .. } => write!(f, "Acknowledge {view}"),
            Self::Enter { view, .. } => write!(f, "Enter {view}"),
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

/// What a PREPARE's certificate covers. The batch enters by its digest, so that the header
/// convinces without the body.
#[must_use]
pub fn prepare_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("minbft prepare").u64(view.0).u64(slot.0).digest(batch).finish()
}

/// What a REQUEST-VIEW-CHANGE's signature covers.
#[must_use]
pub fn request_statement(domain: &Domain, view: View) -> Digest {
    domain.statement("minbft request-view-change").u64(view.0).finish()
}

/// What a CHECKPOINT's signature covers.
#[must_use]
pub fn checkpoint_statement(domain: &Domain, slot: Slot, state: &Digest) -> Digest {
    domain.statement("minbft checkpoint").u64(slot.0).digest(state).finish()
}

/// What an ACKNOWLEDGE's certificate covers.
#[must_use]
pub fn acknowledge_statement(domain: &Domain, view: View, opening: &Digest) -> Digest {
    domain.statement("minbft acknowledge").u64(view.0).digest(opening).finish()
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Prepare { view, slot, .. } | Self::Commit { view, slot, .. } => {
                Auth::Usig(position(*view, *slot))
            }
            Self::ViewChange(change) => Auth::Usig(Position::new(change.view, Position::LEAVE)),
            Self::NewView(opening) => Auth::Usig(Position::new(opening.view, Position::OPEN)),
            Self::Acknowledge { view, .. } => Auth::Usig(Position::new(*view, Position::OPEN)),
            Self::Enter { view, .. } => Auth::Usig(Position::new(*view, Position::COMMITMENT)),
            Self::RequestViewChange { .. } | Self::Checkpoint { .. } => Auth::Signature,
            Self::Stable(_)
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
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::RequestViewChange { .. } => "request_view_change",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Acknowledge { .. } => "acknowledge",
            Self::Enter { .. } => "enter",
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
            Self::Prepare { view, slot, proposal } => {
                prepare_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Commit { view, slot, batch } => {
                domain.statement("minbft commit").u64(view.0).u64(slot.0).digest(batch).finish()
            }
            Self::RequestViewChange { view } => request_statement(domain, *view),
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Acknowledge { view, opening } => acknowledge_statement(domain, *view, opening),
            Self::Enter { view, opening } => {
                domain.statement("minbft enter").u64(view.0).digest(opening).finish()
            }
            Self::Checkpoint { slot, state } => checkpoint_statement(domain, *slot, state),
            // These prove themselves or bind nobody; the channel vouches for the sender.
            Self::Stable(_)
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
            Self::Prepare { view, slot, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Commit { view, slot, batch } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::RequestViewChange { view } => {
                to.u8(2);
                view.encode(to);
            }
            Self::ViewChange(change) => {
                to.u8(3);
                change.encode(to);
            }
            Self::NewView(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Acknowledge { view, opening } | Self::Enter { view, opening } => {
                to.u8(if matches!(self, Self::Enter { .. }) { 6 } else { 5 });
                view.encode(to);
                opening.encode(to);
            }
            Self::Checkpoint { slot, state } => {
                to.u8(7);
                slot.encode(to);
                state.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(8);
                proof.encode(to);
            }
            Self::Report(report) => {
                to.u8(9);
                report.encode(to);
            }
            Self::Forward(envelope) => {
                to.u8(10);
                envelope.encode(to);
            }
            Self::AskBody { batch } => {
                to.u8(11);
                batch.encode(to);
            }
            Self::Body(proposal) => {
                to.u8(12);
                proposal.encode(to);
            }
            Self::AskEnvelope { envelope } => {
                to.u8(13);
                envelope.encode(to);
            }
            Self::Envelope(envelope) => {
                to.u8(14);
                envelope.encode(to);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Prepare {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Commit {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                batch: Digest::decode(from)?,
            },
            2 => Self::RequestViewChange { view: View::decode(from)? },
            3 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            4 => Self::NewView(Arc::new(NewView::decode(from)?)),
            5 => Self::Acknowledge { view: View::decode(from)?, opening: Digest::decode(from)? },
            6 => Self::Enter { view: View::decode(from)?, opening: Digest::decode(from)? },
            7 => Self::Checkpoint { slot: Slot::decode(from)?, state: Digest::decode(from)? },
            8 => Self::Stable(CheckpointProof::decode(from)?),
            9 => Self::Report(Report::decode(from)?),
            10 => Self::Forward(Arc::new(Envelope::decode(from)?)),
            11 => Self::AskBody { batch: Digest::decode(from)? },
            12 => Self::Body(Arc::new(Proposal::decode(from)?)),
            13 => Self::AskEnvelope { envelope: Digest::decode(from)? },
            14 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            _ => return Err(Malformed),
        })
    }
}
