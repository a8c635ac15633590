//! What replicas say to each other, and what each statement covers.

use super::certificate::{NewView, ViewChange, ViewChanges};
use crate::common::message::{self, More, Statements};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::protocol;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The counter's value `[view|slot + 1]`, at which a view's primary proposes a slot and its backups
/// commit to it. [`Position::OPEN`] comes before the first slot.
#[must_use]
pub const fn position(view: View, slot: Slot) -> Position {
    Position::new(view, slot.0.saturating_add(Position::OPEN))
}

/// The slot that was spoken of at an index, if one was.
#[must_use]
pub const fn slot_at(index: u64) -> Option<Slot> {
    if index > Position::OPEN { Some(Slot(index - Position::OPEN)) } else { None }
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
    /// A replica leaves all lower views and shows what it knows of the last that it accepted.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view, and proposes in one go all that it takes over.
    NewView(Arc<NewView>),
    /// A backup enters the view, and commits in one go to all that it takes over.
    Enter {
        /// The view.
        view: View,
        /// Digest of the NEW-VIEW's statement.
        opening: Digest,
    },
    /// A replica accepted the NEW-VIEW of a view that it had left already; transferable.
    Acknowledge {
        /// The view.
        view: View,
    },
    /// Why its sender could leave a view, for one who could not yet. Proves itself.
    ViewChanges(Arc<ViewChanges>),
    /// What every protocol says.
    Shared(Shared),
}

/// What every protocol says, with the reports of this one.
pub type Shared = message::Shared<Steps>;

/// A report of Hybster.
pub type Report = message::Report<Steps>;

/// How far a replica has come from view to view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Steps {
    /// The last view whose NEW-VIEW it accepted.
    pub from: View,
    /// The highest view for which it left others, or that it entered.
    pub left: View,
    /// Whose commitment to the NEW-VIEW of the view that it entered it has.
    pub enters: ReplicaSet,
}

impl More for Steps {
    type State = Digest;
}

impl Wire for Steps {
    fn encode(&self, to: &mut Writer) {
        self.from.encode(to);
        self.left.encode(to);
        self.enters.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            from: View::decode(from)?,
            left: View::decode(from)?,
            enters: ReplicaSet::decode(from)?,
        })
    }
}

/// What replicas sign beside view changes.
pub const STATEMENTS: Statements = Statements {
    request_view_change: "hybster request-view-change",
    checkpoint: "hybster checkpoint",
};

fn authors(changes: &ViewChanges) -> Vec<ReplicaId> {
    changes.members.iter().map(|member| member.author).collect()
}

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { view, slot, proposal } => {
                write!(f, "Prepare {view} {slot} {:?}", proposal.items)
            }
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
            Self::ViewChange(change) => {
                let (low, shown) = (change.checkpoint.slot, change.shown());
                let from = change.from();
                write!(f, "ViewChange {} of {from} from {low} to {shown}", change.view)
            }
            Self::NewView(opening) => {
                let start = opening.start();
                let end = start.end();
                let (view, members) = (opening.view(), authors(&opening.changes));
                write!(f, "NewView {view} of {members:?}, {} to {end}", start.base)
            }
            Self::Enter { view, .. } => write!(f, "Enter {view}"),
            Self::Acknowledge { view } => write!(f, "Acknowledge {view}"),
            Self::ViewChanges(changes) => {
                write!(f, "ViewChanges {} of {:?}", changes.view, authors(changes))
            }
            Self::Shared(message) => message.fmt(f),
        }
    }
}

/// What a PREPARE's certificate covers. The batch enters by its digest, so that the header
/// convinces without the body.
#[must_use]
pub fn prepare_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("hybster prepare").u64(view.0).u64(slot.0).digest(batch).finish()
}

/// What an ACKNOWLEDGE's signature covers. A view has one NEW-VIEW that convinces, so its number
/// says which.
#[must_use]
pub fn acknowledge_statement(domain: &Domain, view: View) -> Digest {
    domain.statement("hybster acknowledge").u64(view.0).finish()
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Prepare { view, slot, .. } | Self::Commit { view, slot, .. } => {
                Auth::Usig(position(*view, *slot))
            }
            Self::ViewChange(change) => Auth::Usig(Position::new(change.view, Position::LEAVE)),
            Self::NewView(opening) => Auth::Usig(Position::new(opening.view(), Position::OPEN)),
            Self::Enter { view, .. } => Auth::Usig(Position::new(*view, Position::OPEN)),
            Self::Acknowledge { .. } => Auth::Signature,
            Self::ViewChanges(_) => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Enter { .. } => "enter",
            Self::Acknowledge { .. } => "acknowledge",
            Self::ViewChanges(_) => "view_changes",
            Self::Shared(message) => message.kind(),
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Prepare { view, slot, proposal } => {
                prepare_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Commit { view, slot, batch } => {
                domain.statement("hybster commit").u64(view.0).u64(slot.0).digest(batch).finish()
            }
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Enter { view, opening } => {
                domain.statement("hybster enter").u64(view.0).digest(opening).finish()
            }
            Self::Acknowledge { view } => acknowledge_statement(domain, *view),
            // Its members convince; the channel vouches for the sender.
            Self::ViewChanges(_) => Digest::default(),
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
            Self::Enter { view, opening } => {
                to.u8(4);
                view.encode(to);
                opening.encode(to);
            }
            Self::Acknowledge { view } => {
                to.u8(5);
                view.encode(to);
            }
            Self::ViewChanges(changes) => {
                to.u8(6);
                changes.encode(to);
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
            4 => Self::Enter { view: View::decode(from)?, opening: Digest::decode(from)? },
            5 => Self::Acknowledge { view: View::decode(from)? },
            6 => Self::ViewChanges(Arc::new(ViewChanges::decode(from)?)),
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
