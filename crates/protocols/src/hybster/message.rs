//! What replicas say to each other.

use super::certificate::{NewView, ViewChange, ViewChanges};
use super::statements::{TERMS, acknowledge_statement, enter_statement};
use crate::common::counters::order::Order;
use crate::common::message::{self, More};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, View};
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// PREPARE or COMMIT.
    Order(Order),
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
    /// A replica found the NEW-VIEW sound of a view that it had left already; transferable.
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

impl Message {
    /// The view that it opens, if it is a NEW-VIEW.
    pub(super) fn opens(&self) -> Option<View> {
        if let Self::NewView(opening) = self { Some(opening.view()) } else { None }
    }
}

fn authors(changes: &ViewChanges) -> Vec<ReplicaId> {
    changes.members.iter().map(|member| member.author).collect()
}

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => order.fmt(f),
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

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Order(order) => order.auth(&TERMS),
            Self::ViewChange(change) => Auth::usig(Position::new(change.view, Position::LEAVE)),
            Self::NewView(opening) => Auth::usig(Position::new(opening.view(), Position::OPEN)),
            Self::Enter { view, .. } => Auth::usig(Position::new(*view, Position::OPEN)),
            Self::Acknowledge { .. } => Auth::Signature,
            Self::ViewChanges(_) => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Order(order) => order.kind(),
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Enter { .. } => "enter",
            Self::Acknowledge { .. } => "acknowledge",
            Self::ViewChanges(_) => "view_changes",
            Self::Shared(message) => message.kind(),
        }
    }

    fn topic(&self) -> Option<Topic> {
        match self {
            Self::Shared(message) => message.topic(),
            _ => None,
        }
    }

    fn ballots(&self, digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        match self {
            Self::Order(order) => order.ballots(cast),
            Self::ViewChange(change) => {
                cast(Ballot::of_view("view_change", change.view, Digest::default()));
            }
            Self::NewView(opening) => {
                let (view, end) = (opening.view(), opening.start().end());
                cast(Ballot::of_view("enter", view, *digest));
                cast(Ballot::of_slot("opening", view, end, *digest));
            }
            Self::Enter { view, opening } => cast(Ballot::of_view("enter", *view, *opening)),
            Self::Acknowledge { .. } | Self::ViewChanges(_) => {}
            Self::Shared(message) => message.ballots(cast),
        }
    }

    fn shows(&self) -> Option<Shown> {
        match self {
            Self::ViewChange(change) => Some(change.shows()),
            _ => None,
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Order(order) => order.statement(domain, &TERMS),
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Enter { view, opening } => enter_statement(domain, *view, opening),
            Self::Acknowledge { view } => acknowledge_statement(domain, *view),
            // Its members convince; the channel vouches for the sender.
            Self::ViewChanges(_) => Digest::default(),
            Self::Shared(message) => message.statement(domain, &TERMS.signed),
        }
    }
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Order(order) => order.encode(to),
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
            tag @ (0 | 1) => Self::Order(Order::decode(tag, from)?),
            2 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            3 => Self::NewView(Arc::new(NewView::decode(from)?)),
            4 => Self::Enter { view: View::decode(from)?, opening: Digest::decode(from)? },
            5 => Self::Acknowledge { view: View::decode(from)? },
            6 => Self::ViewChanges(Arc::new(ViewChanges::decode(from)?)),
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
