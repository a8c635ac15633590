//! What replicas say to each other.

use super::mode::Mode;
use super::statements::{Marked, mark_statement, order_statement};
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::{Auth, Signature};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::protocol::{self, Topic};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// What a slot orders, as one replica passes it to the next. Also as a replica keeps it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order<M: Mode> {
    /// The slot.
    pub slot: Slot,
    /// What the slot orders; every envelope travels whole.
    pub proposal: Arc<Proposal>,
    /// What was ordered up to here.
    pub history: Digest,
    /// What came of the slot at its sender; none of a witness, and of one that has restarted and
    /// does not know any more.
    pub results: Option<Digest>,
    /// The tags of all before the sender over this history, from the head on. As a replica keeps
    /// it, of all before itself.
    pub tags: Vec<M::Tag>,
}

/// See the table in the [module page](super).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Message<M: Mode> {
    /// All before me ordered this, and I did.
    Order(Arc<Order<M>>),
    /// All behind me ordered this, and I did.
    Done {
        /// The last slot.
        upto: Slot,
        /// What was ordered up to there.
        history: Digest,
        /// The tags of all behind the sender over this history, from its successor on.
        tags: Vec<M::Tag>,
    },
    /// My state behind a slot that all have ordered.
    Mark {
        /// The slot.
        slot: Slot,
        /// The state, and what led there.
        marked: Marked,
        /// The signatures of all full replicas before the sender, from the head on.
        signatures: Vec<Signature>,
    },
    /// All full replicas marked a state. Proves itself.
    Stable(CheckpointProof<Marked>),
    /// Where I stand, so that a neighbour sends what I lack. Nothing is decided by it.
    Level(Level),
    /// A client's envelope for the head, who may not have it, and for whoever is to wait for it.
    Forward(Arc<Envelope>),
}

/// Where a replica stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Level {
    /// The last slot that it ordered.
    pub ordered: Slot,
    /// The last slot that it knows to be ordered by all.
    pub done: Slot,
    /// Its last stable checkpoint.
    pub stable: Slot,
}

/// One line for traces.
impl<M: Mode> fmt::Debug for Message<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => write!(f, "Order {} {:?}", order.slot, order.proposal.items),
            Self::Done { upto, .. } => write!(f, "Done {upto}"),
            Self::Mark { slot, .. } => write!(f, "Mark {slot}"),
            Self::Stable(proof) => write!(f, "Stable {}", proof.slot),
            Self::Level(Level { ordered, done, stable }) => {
                write!(f, "Level {ordered} {done} {stable}")
            }
            Self::Forward(envelope) => write!(f, "Forward {envelope:?}"),
        }
    }
}

impl<M: Mode> protocol::Message for Message<M> {
    fn auth(&self) -> Auth {
        match self {
            Self::Order(_) | Self::Done { .. } => M::AUTH,
            Self::Mark { .. } => Auth::Signature,
            Self::Stable(_) | Self::Level(_) | Self::Forward(_) => Auth::Channel,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Order(_) => "order",
            Self::Done { .. } => "done",
            Self::Mark { .. } => "mark",
            Self::Stable(_) => "stable",
            Self::Level(_) => "level",
            Self::Forward(_) => "forward",
        }
    }

    /// Who ordered a slot says one history of it for ever, down the chain and up.
    fn topic(&self) -> Option<Topic> {
        match self {
            Self::Order(order) => Topic::of_slot("order", View(0), order.slot),
            Self::Done { upto, .. } => Topic::of_slot("done", View(0), *upto),
            Self::Mark { slot, .. } => Topic::of_slot("mark", View(0), *slot),
            Self::Stable(_) | Self::Level(_) | Self::Forward(_) => None,
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        match self {
            Self::Order(order) => order_statement(domain, order.slot, &order.history),
            Self::Done { upto, history, .. } => order_statement(domain, *upto, history),
            Self::Mark { slot, marked, .. } => mark_statement(domain, *slot, marked),
            Self::Stable(_) | Self::Level(_) | Self::Forward(_) => Digest::default(),
        }
    }
}

impl<M: Mode> Wire for Order<M> {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.proposal.encode(to);
        self.history.encode(to);
        to.option(self.results.as_ref());
        to.sequence(&self.tags);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            proposal: Arc::new(Proposal::decode(from)?),
            history: Digest::decode(from)?,
            results: from.option()?,
            tags: from.sequence(REPLICAS_MAX)?,
        })
    }
}

impl Wire for Level {
    fn encode(&self, to: &mut Writer) {
        [self.ordered, self.done, self.stable].iter().for_each(|slot| slot.encode(to));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (ordered, done) = (Slot::decode(from)?, Slot::decode(from)?);
        Ok(Self { ordered, done, stable: Slot::decode(from)? })
    }
}

impl<M: Mode> Wire for Message<M> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Order(order) => {
                to.u8(0);
                order.encode(to);
            }
            Self::Done { upto, history, tags } => {
                to.u8(1);
                upto.encode(to);
                history.encode(to);
                to.sequence(tags);
            }
            Self::Mark { slot, marked, signatures } => {
                to.u8(2);
                slot.encode(to);
                marked.encode(to);
                to.sequence(signatures);
            }
            Self::Stable(proof) => {
                to.u8(3);
                proof.encode(to);
            }
            Self::Level(level) => {
                to.u8(4);
                level.encode(to);
            }
            Self::Forward(envelope) => {
                to.u8(5);
                envelope.encode(to);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Order(Arc::new(Order::decode(from)?)),
            1 => Self::Done {
                upto: Slot::decode(from)?,
                history: Digest::decode(from)?,
                tags: from.sequence(REPLICAS_MAX)?,
            },
            2 => Self::Mark {
                slot: Slot::decode(from)?,
                marked: Marked::decode(from)?,
                signatures: from.sequence(REPLICAS_MAX)?,
            },
            3 => Self::Stable(CheckpointProof::decode(from)?),
            4 => Self::Level(Level::decode(from)?),
            5 => Self::Forward(Arc::new(Envelope::decode(from)?)),
            _ => return Err(Malformed),
        })
    }
}
