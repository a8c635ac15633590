//! What replicas say to each other, and clients to them.

use super::certificate::{Committed, Confirmed, Misbehaviour, Reached, ViewChange};
use super::new_view::NewView;
use super::statements::{STATEMENTS, confirm_statement, order_statement, vote_statement};
use crate::common::message::{self, More, decode_flag};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message {
    /// The primary orders a batch behind a history.
    Order {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// The history behind which it comes.
        parent: Digest,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// A replica has executed a history in a view: what it answers clients, under its signature.
    Vote(Place),
    /// A replica keeps proof that a quorum executed it. Only its receiver has to be convinced.
    Commit(Place),
    /// A replica leaves all lower views and shows what it executed.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view with what others showed.
    NewView(Arc<NewView>),
    /// A replica agrees on what the view begins with.
    Confirm(Place),
    /// Proof that a quorum does. Proves itself.
    Confirmed(Arc<Confirmed>),
    /// Proof that a primary lies. Proves itself.
    Misbehaviour(Misbehaviour),
    /// A client: sign what you answered me.
    Vouch {
        /// The view in which you did.
        view: View,
        /// The slot.
        slot: Slot,
    },
    /// A client: a quorum answered me alike. Proves itself.
    Certificate(Arc<Committed>),
    /// What every protocol says.
    Shared(Shared),
}

/// What every protocol says, with the reports and the checkpoints of this one.
pub type Shared = message::Shared<Standing>;

/// A report of Zyzzyva.
pub type Report = message::Report<Standing>;

/// What a report says beside what all say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Standing {
    /// Whether its sender has a NEW-VIEW for its view.
    pub opened: bool,
    /// Who confirmed to it what the view begins with.
    pub confirms: ReplicaSet,
    /// The last slot that is final there.
    pub last_final: Slot,
}

impl More for Standing {
    type State = Reached;

    fn reached(&self) -> Slot {
        self.last_final
    }
    fn last_final(&self, _executed: Slot) -> Slot {
        self.last_final
    }
}

impl Wire for Standing {
    fn encode(&self, to: &mut Writer) {
        to.u8(u8::from(self.opened));
        self.confirms.encode(to);
        self.last_final.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            opened: decode_flag(from)?,
            confirms: ReplicaSet::decode(from)?,
            last_final: Slot::decode(from)?,
        })
    }
}

/// One line for traces.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |f: &mut fmt::Formatter<'_>, name, Place { view, slot, .. }: &Place| {
            write!(f, "{name} {view} {slot}")
        };
        match self {
            Self::Order { view, slot, proposal, .. } => {
                write!(f, "Order {view} {slot} {:?}", proposal.items)
            }
            Self::Vote(it) => place(f, "Vote", it),
            Self::Commit(it) => place(f, "Commit", it),
            Self::ViewChange(change) => {
                let (stable, count) = (change.stable.slot, change.batches.len());
                let (view, last) = (change.view, change.last_view());
                let proven = change.certificate.as_ref().map(|it| it.place.slot);
                write!(f, "ViewChange {view} from {last}: {count} behind {stable}")?;
                if change.contradicted.is_some() {
                    write!(f, ", contradicted")?;
                }
                proven.map_or(Ok(()), |slot| write!(f, ", {slot} proven"))
            }
            Self::NewView(opening) => {
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                write!(f, "NewView {} of {members:?}", opening.view)
            }
            Self::Confirm(it) => place(f, "Confirm", it),
            Self::Confirmed(proof) => place(f, "Confirmed", &proof.place),
            Self::Misbehaviour(proof) => write!(f, "Misbehaviour {}", proof.view),
            Self::Vouch { view, slot } => write!(f, "Vouch {view} {slot}"),
            Self::Certificate(proof) => place(f, "Certificate", &proof.place),
            Self::Shared(message) => message.fmt(f),
        }
    }
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Order { .. }
            | Self::Vote(_)
            | Self::ViewChange(_)
            | Self::NewView(_)
            | Self::Confirm(_) => Auth::Signature,
            Self::Commit(_)
            | Self::Confirmed(_)
            | Self::Misbehaviour(_)
            | Self::Vouch { .. }
            | Self::Certificate(_) => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Order { .. } => "order",
            Self::Vote(_) => "vote",
            Self::Commit(_) => "commit",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Confirm(_) => "confirm",
            Self::Confirmed(_) => "confirmed",
            Self::Misbehaviour(_) => "misbehaviour",
            Self::Vouch { .. } => "vouch",
            Self::Certificate(_) => "certificate",
            Self::Shared(message) => message.kind(),
        }
    }

    fn ballots(&self, _digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        match self {
            Self::ViewChange(change) => {
                cast(Ballot::of_view("view_change", change.view, Digest::default()));
            }
            Self::Confirm(place) => cast(Ballot::of_view("confirm", place.view, place.history)),
            Self::Commit(Place { view, slot, history }) => {
                cast(Ballot::of_slot("commit", *view, *slot, *history));
            }
            Self::Shared(message) => message.ballots(cast),
            Self::Order { .. }
            | Self::Vote(_)
            | Self::NewView(_)
            | Self::Confirmed(_)
            | Self::Misbehaviour(_)
            | Self::Vouch { .. }
            | Self::Certificate(_) => {}
        }
    }

    fn shows(&self) -> Option<Shown> {
        match self {
            Self::ViewChange(change) => Some(change.answers()),
            _ => None,
        }
    }

    fn topic(&self) -> Option<Topic> {
        match self {
            Self::Order { view, slot, .. } => Topic::of_slot(self.kind(), *view, *slot),
            Self::Vote(place) => Topic::of_slot(self.kind(), place.view, place.slot),
            Self::ViewChange(change) => Topic::of_view(self.kind(), change.view),
            Self::NewView(opening) => Topic::of_view(self.kind(), opening.view),
            Self::Confirm(place) => Topic::of_view(self.kind(), place.view),
            Self::Commit(_)
            | Self::Confirmed(_)
            | Self::Misbehaviour(_)
            | Self::Vouch { .. }
            | Self::Certificate(_) => None,
            Self::Shared(message) => message.topic(),
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Order { view, slot, parent, proposal } => {
                order_statement(domain, *view, *slot, parent, &proposal.digest())
            }
            Self::Vote(place) => vote_statement(domain, place),
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Confirm(place) => confirm_statement(domain, place),
            Self::Shared(message) => message.statement(domain, &STATEMENTS),
            // These prove themselves or bind nobody; the channel vouches for the sender.
            Self::Commit(_)
            | Self::Confirmed(_)
            | Self::Misbehaviour(_)
            | Self::Vouch { .. }
            | Self::Certificate(_) => Digest::default(),
        }
    }
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Order { view, slot, parent, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                parent.encode(to);
                proposal.encode(to);
            }
            Self::Vote(place) => tagged(1, place, to),
            Self::Commit(place) => tagged(2, place, to),
            Self::ViewChange(change) => tagged(3, &**change, to),
            Self::NewView(opening) => tagged(4, &**opening, to),
            Self::Confirm(place) => tagged(5, place, to),
            Self::Confirmed(proof) => tagged(6, &**proof, to),
            Self::Misbehaviour(proof) => tagged(7, proof, to),
            Self::Vouch { view, slot } => {
                to.u8(8);
                view.encode(to);
                slot.encode(to);
            }
            Self::Certificate(proof) => tagged(9, &**proof, to),
            Self::Shared(message) => message.encode(to),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Order {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                parent: Digest::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Vote(Place::decode(from)?),
            2 => Self::Commit(Place::decode(from)?),
            3 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            4 => Self::NewView(Arc::new(NewView::decode(from)?)),
            5 => Self::Confirm(Place::decode(from)?),
            6 => Self::Confirmed(Arc::new(Confirmed::decode(from)?)),
            7 => Self::Misbehaviour(Misbehaviour::decode(from)?),
            8 => Self::Vouch { view: View::decode(from)?, slot: Slot::decode(from)? },
            9 => Self::Certificate(Arc::new(Committed::decode(from)?)),
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}

fn tagged<T: Wire>(tag: u8, value: &T, to: &mut Writer) {
    to.u8(tag);
    value.encode(to);
}
