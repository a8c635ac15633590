//! What replicas say to each other.

use super::certificate::{Claims, NewView, ViewChange};
use super::seal::Seal;
use super::statements::{STATEMENTS, prepare_statement};
use crate::common::message::{self, More};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::{Auth, Signature};
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// See the table in the [module page](super). `S`: by what votes convince.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message<S = Signature> {
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
    /// A replica leaves all lower views and shows what it has proof of.
    ViewChange(Arc<ViewChange<S>>),
    /// The new primary opens its view with what a quorum showed.
    NewView(Arc<NewView<S>>),
    /// What every protocol says.
    Shared(Shared),
}

/// What every protocol says, with the reports of this one.
pub type Shared = message::Shared<Certified>;

/// A report of PBFT.
pub type Report = message::Report<Certified>;

/// The last slot up to which a replica has certificates of its view. Less than what it committed,
/// if that was in another view: without its votes and COMMITs here, others might never decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Certified(pub Slot);

impl More for Certified {
    type State = Digest;

    fn reached(&self) -> Slot {
        self.0
    }
}

impl Wire for Certified {
    fn encode(&self, to: &mut Writer) {
        self.0.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Slot::decode(from).map(Self)
    }
}

/// One line for traces.
impl<S: Seal> fmt::Debug for Message<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                write!(f, "PrePrepare {view} {slot} {:?}", proposal.items)
            }
            Self::Prepare { view, slot, .. } => write!(f, "Prepare {view} {slot}"),
            Self::Commit { view, slot, .. } => write!(f, "Commit {view} {slot}"),
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
            Self::Shared(message) => message.fmt(f),
        }
    }
}

impl<S: Seal> protocol::Message for Message<S> {
    fn auth(&self) -> Auth {
        match self {
            Self::PrePrepare { .. }
            | Self::Prepare { .. }
            | Self::ViewChange(_)
            | Self::NewView(_) => S::AUTH,
            Self::Commit { .. } => Auth::Channel,
            Self::Shared(message) => message.auth(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::PrePrepare { .. } => "pre_prepare",
            Self::Prepare { .. } => "prepare",
            Self::Commit { .. } => "commit",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Shared(message) => message.kind(),
        }
    }

    fn ballots(&self, _digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                cast(Ballot::of_slot("vote", *view, *slot, proposal.digest()));
            }
            Self::Prepare { view, slot, batch } => {
                cast(Ballot::of_slot("vote", *view, *slot, *batch));
            }
            Self::Commit { view, slot, batch } => {
                cast(Ballot::of_slot("commit", *view, *slot, *batch));
            }
            Self::ViewChange(change) => {
                cast(Ballot::of_view("view_change", change.claims.view, Digest::default()));
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
            Self::PrePrepare { view, slot, .. } | Self::Prepare { view, slot, .. } => {
                Topic::of_slot("vote", *view, *slot)
            }
            Self::ViewChange(change) => Topic::of_view(self.kind(), change.claims.view),
            Self::NewView(opening) => Topic::of_view(self.kind(), opening.view),
            Self::Commit { .. } => None,
            Self::Shared(message) => message.topic(),
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::PrePrepare { view, slot, proposal } => {
                prepare_statement(domain, *view, *slot, &proposal.digest())
            }
            Self::Prepare { view, slot, batch } => prepare_statement(domain, *view, *slot, batch),
            Self::ViewChange(change) => change.claims.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            // It binds nobody; the channel vouches for the sender.
            Self::Commit { .. } => Digest::default(),
            Self::Shared(message) => message.statement(domain, &STATEMENTS),
        }
    }
}

impl<S: Seal> Wire for Message<S> {
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
            Self::ViewChange(change) => {
                to.u8(3);
                change.encode(to);
            }
            Self::NewView(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Shared(message) => message.encode(to),
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
            3 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            4 => Self::NewView(Arc::new(NewView::decode(from)?)),
            tag => Self::Shared(Shared::decode(tag, from)?),
        })
    }
}
