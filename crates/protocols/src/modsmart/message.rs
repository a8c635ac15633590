//! What replicas say to each other.

use super::certificate::{NewView, ViewChange};
use super::claims::Claims;
use super::statements::{STATEMENTS, accept_statement, write_statement};
use super::variant::{Variant, Windowed};
use crate::common::message::{self, More, decode_flag};
use crate::common::seal::Seal as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super). `V`: of which variant.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message<V: Variant = Windowed> {
    /// The primary orders a batch; its own WRITE of it, or its own ACCEPT where nobody writes.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
        /// Whether it is signed, as the primary cannot keep that it wrote this.
        signed: bool,
    },
    /// A replica holds the batch, and writes no other in this slot and view.
    Write {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
        /// Whether it is signed, as its author cannot keep that it wrote this.
        signed: bool,
    },
    /// A replica heard that a quorum wrote the batch, and locked it.
    Accept {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// A replica leaves all lower views and shows what it wrote and locked.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view with what others showed.
    NewView(Arc<NewView<V::Seal>>),
    /// The slot is decided at its author, in whatever view.
    Decided {
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// What every protocol says.
    Shared(Shared),
}

/// What every protocol says, with the reports of this one.
pub type Shared = message::Shared<Locked>;

/// A report of Mod-SMaRt.
pub type Report = message::Report<Locked>;

/// The last slot up to which a replica locked in its view. Less than what it executed, if that was
/// decided in another view: without its votes here, others might never decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Locked(pub Slot);

impl More for Locked {
    type State = Digest;

    fn reached(&self) -> Slot {
        self.0
    }
}

impl Wire for Locked {
    fn encode(&self, to: &mut Writer) {
        self.0.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Slot::decode(from).map(Self)
    }
}

/// One line for traces.
impl<V: Variant> fmt::Debug for Message<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |signed: &bool| if *signed { " signed" } else { "" };
        match self {
            Self::Propose { view, slot, proposal, signed } => {
                write!(f, "Propose {view} {slot} {:?}{}", proposal.items, sign(signed))
            }
            Self::Write { view, slot, signed, .. } => {
                write!(f, "Write {view} {slot}{}", sign(signed))
            }
            Self::Accept { view, slot, .. } => write!(f, "Accept {view} {slot}"),
            Self::ViewChange(change) => {
                let Claims { view, stable, slots } = &change.claims;
                let locks: Vec<_> =
                    slots.iter().map(|it| (it.slot, it.lock.map(|lock| lock.view))).collect();
                write!(f, "ViewChange {view} from {stable} {locks:?}")
            }
            Self::NewView(opening) => {
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                write!(f, "NewView {} of {members:?}", opening.view)
            }
            Self::Decided { slot, .. } => write!(f, "Decided {slot}"),
            Self::Shared(message) => message.fmt(f),
        }
    }
}

impl<V: Variant> protocol::Message for Message<V> {
    fn auth(&self) -> Auth {
        match self {
            Self::Propose { signed: true, .. } | Self::Write { signed: true, .. } => {
                Auth::Signature
            }
            Self::Accept { .. } if V::SERIAL => Auth::Signature,
            Self::ViewChange(_) | Self::NewView(_) => V::Seal::AUTH,
            Self::Propose { .. }
            | Self::Write { .. }
            | Self::Accept { .. }
            | Self::Decided { .. } => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Propose { .. } => "propose",
            Self::Write { .. } => "write",
            Self::Accept { .. } => "accept",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Decided { .. } => "decided",
            Self::Shared(message) => message.kind(),
        }
    }

    fn ballots(&self, _digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        match self {
            Self::Propose { view, slot, proposal, .. } => {
                let kind = if V::WRITES { "write" } else { "accept" };
                cast(Ballot::of_slot(kind, *view, *slot, proposal.digest()));
            }
            Self::Write { view, slot, batch, .. } => {
                cast(Ballot::of_slot("write", *view, *slot, *batch));
            }
            Self::Accept { view, slot, batch } => {
                cast(Ballot::of_slot("accept", *view, *slot, *batch));
            }
            Self::ViewChange(change) => {
                cast(Ballot::of_view("view_change", change.claims.view, Digest::default()));
            }
            Self::Decided { slot, batch } => {
                cast(Ballot::of_slot("decided", View(0), *slot, *batch));
            }
            Self::NewView(_) => {}
            Self::Shared(message) => message.ballots(cast),
        }
    }

    fn shows(&self) -> Option<Shown> {
        match self {
            Self::ViewChange(change) => Some(change.claims.shows()),
            _ => None,
        }
    }

    fn topic(&self) -> Option<Topic> {
        match self {
            Self::Propose { view, slot, .. }
            | Self::Write { view, slot, .. }
            | Self::Accept { view, slot, .. } => Topic::of_slot(self.kind(), *view, *slot),
            Self::Decided { slot, .. } => Topic::of_slot(self.kind(), View(0), *slot),
            Self::ViewChange(change) => Topic::of_view(self.kind(), change.claims.view),
            Self::NewView(opening) => Topic::of_view(self.kind(), opening.view),
            Self::Shared(message) => message.topic(),
        }
    }

    /// What the channel alone vouches for binds nobody.
    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Propose { view, slot, proposal, signed: true } => {
                write_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Write { view, slot, batch, signed: true } => {
                write_statement(domain, *view, *slot, batch)
            }
            Self::Accept { view, slot, batch } if V::SERIAL => {
                accept_statement(domain, *view, *slot, batch)
            }
            Self::ViewChange(change) => change.claims.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Propose { .. }
            | Self::Write { .. }
            | Self::Accept { .. }
            | Self::Decided { .. } => Digest::default(),
            Self::Shared(message) => message.statement(domain, &STATEMENTS),
        }
    }
}

impl<V: Variant> Wire for Message<V> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Propose { view, slot, proposal, signed } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                to.u8(u8::from(*signed));
                proposal.encode(to);
            }
            Self::Write { view, slot, batch, signed } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                to.u8(u8::from(*signed));
                batch.encode(to);
            }
            Self::Accept { view, slot, batch } => {
                to.u8(2);
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::ViewChange(change) => {
                to.u8(3);
                change.encode(to);
            }
            Self::NewView(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Decided { slot, batch } => {
                to.u8(5);
                slot.encode(to);
                batch.encode(to);
            }
            Self::Shared(message) => message.encode(to),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => {
                let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
                let signed = decode_flag(from)?;
                let proposal = Arc::new(Proposal::decode(from)?);
                Self::Propose { view, slot, proposal, signed }
            }
            1 => {
                let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
                let signed = decode_flag(from)?;
                Self::Write { view, slot, batch: Digest::decode(from)?, signed }
            }
            2 => Self::Accept {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                batch: Digest::decode(from)?,
            },
            3 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            4 => Self::NewView(Arc::new(NewView::decode(from)?)),
            5 => Self::Decided { slot: Slot::decode(from)?, batch: Digest::decode(from)? },
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
