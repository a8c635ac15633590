//! What replicas say to each other, and what each statement covers.

use super::certificate::{NewView, ViewChange};
use crate::common::message::{self, More, Statements, decode_flag};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::protocol;
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
    /// What every protocol says.
    Shared(Shared),
}

/// What every protocol says, with the reports of this one.
pub type Shared = message::Shared<Steps>;

/// A report of MinBFT.
pub type Report = message::Report<Steps>;

/// How far a replica has come in entering its view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Steps {
    /// Whether it has the view's NEW-VIEW.
    pub opened: bool,
    /// Whose acknowledgement of the view it has.
    pub acknowledged: ReplicaSet,
    /// Whose ENTER for the view it has.
    pub enters: ReplicaSet,
}

impl More for Steps {
    type State = Digest;
}

impl Wire for Steps {
    fn encode(&self, to: &mut Writer) {
        to.u8(u8::from(self.opened));
        self.acknowledged.encode(to);
        self.enters.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            opened: decode_flag(from)?,
            acknowledged: ReplicaSet::decode(from)?,
            enters: ReplicaSet::decode(from)?,
        })
    }
}

/// What replicas sign beside view changes.
pub const STATEMENTS: Statements = Statements {
    request_view_change: "minbft request-view-change",
    checkpoint: "minbft checkpoint",
};

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { view, slot, proposal } => {
                write!(f, "Prepare {view} {slot} {:?}", proposal.items)
            }
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
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
            Self::Shared(message) => message.fmt(f),
        }
    }
}

/// What a PREPARE's certificate covers. The batch enters by its digest, so that the header
/// convinces without the body.
#[must_use]
pub fn prepare_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("minbft prepare").u64(view.0).u64(slot.0).digest(batch).finish()
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
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Acknowledge { .. } => "acknowledge",
            Self::Enter { .. } => "enter",
            Self::Shared(message) => message.kind(),
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
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Acknowledge { view, opening } => acknowledge_statement(domain, *view, opening),
            Self::Enter { view, opening } => {
                domain.statement("minbft enter").u64(view.0).digest(opening).finish()
            }
            Self::Shared(message) => message.statement(domain, &STATEMENTS),
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
            Self::ViewChange(change) => {
                to.u8(2);
                change.encode(to);
            }
            Self::NewView(opening) => {
                to.u8(3);
                opening.encode(to);
            }
            Self::Acknowledge { view, opening } | Self::Enter { view, opening } => {
                to.u8(if matches!(self, Self::Enter { .. }) { 5 } else { 4 });
                view.encode(to);
                opening.encode(to);
            }
            Self::Shared(message) => message.encode(to),
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
            2 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            3 => Self::NewView(Arc::new(NewView::decode(from)?)),
            4 => Self::Acknowledge { view: View::decode(from)?, opening: Digest::decode(from)? },
            5 => Self::Enter { view: View::decode(from)?, opening: Digest::decode(from)? },
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
