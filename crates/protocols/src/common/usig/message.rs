//! What replicas say to each other.

use super::certificate::{NewView, ViewChange};
use super::statements::{TERMS, acknowledge_statement, enter_statement};
use crate::common::counters::certificate::Opened;
use crate::common::counters::order::Order;
use crate::common::message::{self, More, decode_flag};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// PREPARE or COMMIT.
    Order(Order),
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
    /// A client: see to it that what you executed there becomes final.
    Settle {
        /// The view in which it was executed.
        view: View,
        /// The slot.
        slot: Slot,
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

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => order.fmt(f),
            Self::ViewChange(change) => {
                let entry = change.entry.as_ref().map(|entry| (entry.view(), entry.end()));
                let (low, shown) = (change.checkpoint.slot, change.shown());
                write!(f, "ViewChange {} from {low} to {shown}", change.view)?;
                entry.map_or(Ok(()), |(view, end)| write!(f, ", {view} took over to {end}"))
            }
            Self::NewView(opening) => {
                let start = opening.start();
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                let end = start.end();
                write!(f, "NewView {} of {members:?}, {} to {end}", opening.view, start.base)
            }
            Self::Acknowledge { view, .. } => write!(f, "Acknowledge {view}"),
            Self::Enter { view, .. } => write!(f, "Enter {view}"),
            Self::Settle { view, slot } => write!(f, "Settle {view} {slot}"),
            Self::Shared(message) => message.fmt(f),
        }
    }
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Order(order) => order.auth(&TERMS),
            Self::ViewChange(change) => Auth::usig(Position::new(change.view, Position::LEAVE)),
            Self::NewView(opening) => Auth::usig(Position::new(opening.view, Position::OPEN)),
            Self::Acknowledge { view, .. } => Auth::usig(Position::new(*view, Position::OPEN)),
            Self::Enter { view, .. } => Auth::usig(Position::new(*view, Position::COMMITMENT)),
            Self::Settle { .. } => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Order(order) => order.kind(),
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Acknowledge { .. } => "acknowledge",
            Self::Enter { .. } => "enter",
            Self::Settle { .. } => "settle",
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
                let (view, end) = (opening.view, opening.start().end());
                cast(Ballot::of_view("acknowledge", view, *digest));
                cast(Ballot::of_slot("opening", view, end, *digest));
            }
            Self::Acknowledge { view, opening } => {
                cast(Ballot::of_view("acknowledge", *view, *opening));
            }
            Self::Enter { view, opening } => cast(Ballot::of_view("enter", *view, *opening)),
            Self::Settle { .. } => {}
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
            Self::Acknowledge { view, opening } => acknowledge_statement(domain, *view, opening),
            Self::Enter { view, opening } => enter_statement(domain, *view, opening),
            // The channel vouches for the sender.
            Self::Settle { .. } => Digest::default(),
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
            Self::Acknowledge { view, opening } | Self::Enter { view, opening } => {
                to.u8(if matches!(self, Self::Enter { .. }) { 5 } else { 4 });
                view.encode(to);
                opening.encode(to);
            }
            Self::Settle { view, slot } => {
                to.u8(6);
                view.encode(to);
                slot.encode(to);
            }
            Self::Shared(message) => message.encode(to),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            tag @ (0 | 1) => Self::Order(Order::decode(tag, from)?),
            2 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            3 => Self::NewView(Arc::new(NewView::decode(from)?)),
            4 => Self::Acknowledge { view: View::decode(from)?, opening: Digest::decode(from)? },
            5 => Self::Enter { view: View::decode(from)?, opening: Digest::decode(from)? },
            6 => Self::Settle { view: View::decode(from)?, slot: Slot::decode(from)? },
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
