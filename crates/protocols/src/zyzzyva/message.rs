//! What replicas say to each other, and clients to them, and what each statement covers.

use super::certificate::{Committed, Confirmed, Misbehaviour, NewView, Stable, ViewChange};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::Auth;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaSet, Slot, View};
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol;
use pentarchy_core::request::Envelope;
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
    /// A replica asks for a view; transferable.
    RequestViewChange {
        /// The lowest view it asks for.
        view: View,
    },
    /// A replica leaves all lower views and shows what it executed.
    ViewChange(Arc<ViewChange>),
    /// The new primary opens its view with what others showed.
    NewView(Arc<NewView>),
    /// A replica agrees on what the view begins with.
    Confirm(Place),
    /// Proof that a quorum does. Proves itself.
    Confirmed(Arc<Confirmed>),
    /// A history that is final, and the state after it.
    Checkpoint {
        /// The slot.
        slot: Slot,
        /// The history.
        history: Digest,
        /// The state.
        state: Digest,
    },
    /// Proof of a stable checkpoint, for one who fell behind. Proves itself.
    Stable(Stable),
    /// Proof that a primary lies. Proves itself.
    Misbehaviour(Misbehaviour),
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
    /// A client: sign what you answered me.
    Vouch {
        /// The view in which you did.
        view: View,
        /// The slot.
        slot: Slot,
    },
    /// A client: a quorum answered me alike. Proves itself.
    Certificate(Arc<Committed>),
}

/// Where a replica stands, for its peers. Nothing is decided by it; it only moves retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Report {
    /// The view it is in or wants to enter.
    pub view: View,
    /// Whether it has entered that view.
    pub entered: bool,
    /// Whether it has a NEW-VIEW for it.
    pub opened: bool,
    /// Whose VIEW-CHANGE for the view it has.
    pub view_changes: ReplicaSet,
    /// Who confirmed to it what the view begins with.
    pub confirms: ReplicaSet,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// The last slot that is final here.
    pub committed: Slot,
    /// The last slot that it executed.
    pub executed: Slot,
    /// The last slot up to which it knows what every slot orders.
    pub known: Slot,
    /// The peers whose last report says the same view and slots as this one.
    pub level: ReplicaSet,
}

impl Wire for Report {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.u8(u8::from(self.entered) | u8::from(self.opened) << 1);
        self.view_changes.encode(to);
        self.confirms.encode(to);
        for slot in [self.stable, self.committed, self.executed, self.known] {
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
            confirms: ReplicaSet::decode(from)?,
            stable: Slot::decode(from)?,
            committed: Slot::decode(from)?,
            executed: Slot::decode(from)?,
            known: Slot::decode(from)?,
            level: ReplicaSet::decode(from)?,
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
            Self::RequestViewChange { view } => write!(f, "RequestViewChange {view}"),
            Self::ViewChange(change) => {
                let (stable, count) = (change.stable.slot(), change.batches.len());
                let (view, last) = (change.view, change.last_view());
                let proven = change.certificate.as_ref().map(|it| it.place.slot);
                write!(f, "ViewChange {view} from {last}: {count} behind {stable}")?;
                proven.map_or(Ok(()), |slot| write!(f, ", {slot} proven"))
            }
            Self::NewView(opening) => {
                let members: Vec<_> = opening.members.iter().map(|member| member.author).collect();
                write!(f, "NewView {} of {members:?}", opening.view)
            }
            Self::Confirm(it) => place(f, "Confirm", it),
            Self::Confirmed(proof) => place(f, "Confirmed", &proof.place),
            Self::Checkpoint { slot, .. } => write!(f, "Checkpoint {slot}"),
            Self::Stable(stable) => {
                write!(f, "Stable {} by {:?}", stable.slot(), stable.proof.signers())
            }
            Self::Misbehaviour(proof) => write!(f, "Misbehaviour {}", proof.view),
            Self::Report(Report { view, committed, executed, stable, .. }) => {
                write!(f, "Report {view} stable {stable} committed {committed} executed {executed}")
            }
            Self::Forward(envelope) => write!(f, "Forward {envelope:?}"),
            Self::AskBody { .. } => f.write_str("AskBody"),
            Self::Body(proposal) => write!(f, "Body {:?}", proposal.items),
            Self::AskEnvelope { .. } => f.write_str("AskEnvelope"),
            Self::Envelope(envelope) => write!(f, "Envelope {envelope:?}"),
            Self::Vouch { view, slot } => write!(f, "Vouch {view} {slot}"),
            Self::Certificate(proof) => place(f, "Certificate", &proof.place),
        }
    }
}

/// What an ORDER-REQ's signature covers. The batch enters by its digest.
#[must_use]
pub fn order_statement(
    domain: &Domain,
    view: View,
    slot: Slot,
    parent: &Digest,
    batch: &Digest,
) -> Digest {
    let mut hasher = domain.statement("zyzzyva order");
    hasher.u64(view.0).u64(slot.0).digest(parent).digest(batch).finish()
}

fn place_statement(domain: &Domain, kind: &'static str, place: &Place) -> Digest {
    let mut hasher = domain.statement(kind);
    hasher.u64(place.view.0).u64(place.slot.0).digest(&place.history).finish()
}

/// What the signature under an answer covers: a quorum of them is a commit certificate.
#[must_use]
pub fn vote_statement(domain: &Domain, place: &Place) -> Digest {
    place_statement(domain, "zyzzyva response", place)
}

/// What a CONFIRM's signature covers.
#[must_use]
pub fn confirm_statement(domain: &Domain, place: &Place) -> Digest {
    place_statement(domain, "zyzzyva view-confirm", place)
}

/// What a REQUEST-VIEW-CHANGE's signature covers.
#[must_use]
pub fn request_statement(domain: &Domain, view: View) -> Digest {
    domain.statement("zyzzyva request-view-change").u64(view.0).finish()
}

/// What a CHECKPOINT's signature covers: history and state by their common
/// [name](super::certificate::mark).
#[must_use]
pub fn checkpoint_statement(domain: &Domain, slot: Slot, mark: &Digest) -> Digest {
    domain.statement("zyzzyva checkpoint").u64(slot.0).digest(mark).finish()
}

impl protocol::Message for Message {
    fn auth(&self) -> Auth {
        match self {
            Self::Order { .. }
            | Self::Vote(_)
            | Self::RequestViewChange { .. }
            | Self::ViewChange(_)
            | Self::NewView(_)
            | Self::Confirm(_)
            | Self::Checkpoint { .. } => Auth::Signature,
            _ => Auth::Channel,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Order { .. } => "order",
            Self::Vote(_) => "vote",
            Self::Commit(_) => "commit",
            Self::RequestViewChange { .. } => "request_view_change",
            Self::ViewChange(_) => "view_change",
            Self::NewView(_) => "new_view",
            Self::Confirm(_) => "confirm",
            Self::Confirmed(_) => "confirmed",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Stable(_) => "stable",
            Self::Misbehaviour(_) => "misbehaviour",
            Self::Report(_) => "report",
            Self::Forward(_) => "forward",
            Self::AskBody { .. } => "ask_body",
            Self::Body(_) => "body",
            Self::AskEnvelope { .. } => "ask_envelope",
            Self::Envelope(_) => "envelope",
            Self::Vouch { .. } => "vouch",
            Self::Certificate(_) => "certificate",
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Order { view, slot, parent, proposal } => {
                order_statement(domain, *view, *slot, parent, &proposal.digest())
            }
            Self::Vote(place) => vote_statement(domain, place),
            Self::RequestViewChange { view } => request_statement(domain, *view),
            Self::ViewChange(change) => change.statement(domain),
            Self::NewView(opening) => opening.statement(domain),
            Self::Confirm(place) => confirm_statement(domain, place),
            Self::Checkpoint { slot, history, state } => {
                checkpoint_statement(domain, *slot, &super::certificate::mark(history, state))
            }
            // These prove themselves or bind nobody; the channel vouches for the sender.
            _ => Digest::default(),
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
            Self::RequestViewChange { view } => tagged(3, view, to),
            Self::ViewChange(change) => tagged(4, &**change, to),
            Self::NewView(opening) => tagged(5, &**opening, to),
            Self::Confirm(place) => tagged(6, place, to),
            Self::Confirmed(proof) => tagged(7, &**proof, to),
            Self::Checkpoint { slot, history, state } => {
                to.u8(8);
                slot.encode(to);
                history.encode(to);
                state.encode(to);
            }
            Self::Stable(stable) => tagged(9, stable, to),
            Self::Misbehaviour(proof) => tagged(10, proof, to),
            Self::Report(report) => tagged(11, report, to),
            Self::Forward(envelope) => tagged(12, &**envelope, to),
            Self::AskBody { batch } => tagged(13, batch, to),
            Self::Body(proposal) => tagged(14, &**proposal, to),
            Self::AskEnvelope { envelope } => tagged(15, envelope, to),
            Self::Envelope(envelope) => tagged(16, &**envelope, to),
            Self::Vouch { view, slot } => {
                to.u8(17);
                view.encode(to);
                slot.encode(to);
            }
            Self::Certificate(proof) => tagged(18, &**proof, to),
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
            3 => Self::RequestViewChange { view: View::decode(from)? },
            4 => Self::ViewChange(Arc::new(ViewChange::decode(from)?)),
            5 => Self::NewView(Arc::new(NewView::decode(from)?)),
            6 => Self::Confirm(Place::decode(from)?),
            7 => Self::Confirmed(Arc::new(Confirmed::decode(from)?)),
            8 => Self::Checkpoint {
                slot: Slot::decode(from)?,
                history: Digest::decode(from)?,
                state: Digest::decode(from)?,
            },
            9 => Self::Stable(Stable::decode(from)?),
            10 => Self::Misbehaviour(Misbehaviour::decode(from)?),
            11 => Self::Report(Report::decode(from)?),
            12 => Self::Forward(Arc::new(Envelope::decode(from)?)),
            13 => Self::AskBody { batch: Digest::decode(from)? },
            14 => Self::Body(Arc::new(Proposal::decode(from)?)),
            15 => Self::AskEnvelope { envelope: Digest::decode(from)? },
            16 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            17 => Self::Vouch { view: View::decode(from)?, slot: Slot::decode(from)? },
            18 => Self::Certificate(Arc::new(Committed::decode(from)?)),
            _ => return Err(Malformed),
        })
    }
}

fn tagged<T: Wire>(tag: u8, value: &T, to: &mut Writer) {
    to.u8(tag);
    value.encode(to);
}
