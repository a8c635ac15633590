//! The client's pair: a client core is part of its protocol, as some protocols let clients commit.

use crate::ids::{Millis, ReplicaId, ReplicaSet};
use crate::request::Draft;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

use crate::auth::Signature;
use crate::digest::Digest;
use crate::ids::{Slot, View};
use crate::limits::{
    BATCH_REQUESTS_MAX, CLIENT_EVENTS_MAX, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, OPERATION_BYTES_MAX,
};
use crate::request::Envelope;
use crate::transfer;
use crate::welcome::Welcome;
use alloc::sync::Arc;

/// What a client says to a replica over its channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToReplica {
    /// Order these.
    Request(Arc<Envelope>),
    /// Answer from what you have executed; do not order.
    Query {
        /// Echoed in the answer.
        number: u64,
        /// A read-only operation.
        operation: Bytes,
    },
    /// Say how you are.
    Status,
    /// Send again what is kept of my events from this number on.
    Resume {
        /// The lowest number that the client was not given.
        from: u64,
    },
    /// A message of the protocol that clients may send: see
    /// [`crate::erased::ReplicaCore::open_client`].
    Protocol(Bytes),
    /// Say how your group stands.
    Standing {
        /// The number of the configuration that the asker knows.
        from: u64,
    },
    /// Send this of a state: a question of a machine that is to become a member.
    State(transfer::Message),
}

impl ToReplica {
    /// Whether these bytes can be no other message than a request, so that a host can refuse
    /// one without decoding it.
    #[must_use]
    pub fn is_request(bytes: &[u8]) -> bool {
        bytes.first() == Some(&0)
    }

    /// The name under which hosts count it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Query { .. } => "query",
            Self::Status => "status",
            Self::Resume { .. } => "resume",
            Self::Protocol(_) => "client_protocol",
            Self::Standing { .. } => "standing",
            Self::State(_) => "state",
        }
    }
}

impl Wire for ToReplica {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Request(envelope) => {
                to.u8(0);
                envelope.encode(to);
            }
            Self::Query { number, operation } => {
                to.u8(1);
                to.u64(*number);
                to.bytes(operation);
            }
            Self::Status => to.u8(2),
            Self::Resume { from } => {
                to.u8(3);
                to.u64(*from);
            }
            Self::Protocol(message) => {
                to.u8(4);
                to.bytes(message);
            }
            Self::Standing { from } => {
                to.u8(5);
                to.u64(*from);
            }
            Self::State(question) => {
                to.u8(6);
                question.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Envelope::decode(from).map(|envelope| Self::Request(Arc::new(envelope))),
            1 => {
                Ok(Self::Query { number: from.u64()?, operation: from.bytes(OPERATION_BYTES_MAX)? })
            }
            2 => Ok(Self::Status),
            3 => Ok(Self::Resume { from: from.u64()? }),
            4 => from.bytes(MESSAGE_BYTES_MAX).map(Self::Protocol),
            5 => Ok(Self::Standing { from: from.u64()? }),
            6 => transfer::Message::decode(from).map(Self::State),
            _ => Err(Malformed),
        }
    }
}

/// One result, on its way to a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reply {
    /// The request's number.
    pub number: u64,
    /// How the replica settled the request.
    pub outcome: Outcome,
}

/// How replicas settled a request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It was executed once, with this result.
    Done(Bytes),
    /// It is settled, but there is no result: it was executed once and the result was too old
    /// to keep.
    Forgotten,
    /// Its number is beyond the window above the client's floor; it was not executed.
    Refused,
    /// It was not executed and never will be: its client gave its number up before, by a
    /// [`FENCE`](crate::request::FENCE).
    GivenUp,
    /// Its number is below its client's floor: it was executed once or never will be, and
    /// nothing more is known. A client that waits for it learns that another host with its key
    /// has begun with higher numbers, as it never raises its floor above what it waits for.
    Overtaken,
}

impl Wire for Reply {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.number);
        match &self.outcome {
            Outcome::Done(result) => {
                to.u8(0);
                to.bytes(result);
            }
            Outcome::Forgotten => to.u8(1),
            Outcome::Refused => to.u8(2),
            Outcome::GivenUp => to.u8(3),
            Outcome::Overtaken => to.u8(4),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = from.u64()?;
        let outcome = match from.u8()? {
            0 => Outcome::Done(from.bytes(FRAME_BYTES_MAX)?),
            1 => Outcome::Forgotten,
            2 => Outcome::Refused,
            3 => Outcome::GivenUp,
            4 => Outcome::Overtaken,
            _ => return Err(Malformed),
        };
        Ok(Self { number, outcome })
    }
}

/// The result of a request, by its digest. A replica tells a client this instead of a [`Reply`] if
/// another replica tells the result ([`designated_replier`](crate::designated_replier)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ResultDigest {
    /// The request's number.
    pub number: u64,
    /// Digest of the result.
    pub digest: Digest,
}

impl Wire for ResultDigest {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.number);
        self.digest.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { number: from.u64()?, digest: Digest::decode(from)? })
    }
}

/// Where a replica stands with what it executed although nothing was agreed on yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The view in which it did.
    pub view: View,
    /// The slot.
    pub slot: Slot,
    /// Names all that it executed up to there, in order.
    pub history: Digest,
}

impl Wire for Place {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.slot.encode(to);
        self.history.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
        Ok(Self { view, slot, history: Digest::decode(from)? })
    }
}

/// What a replica says to a client over its channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ToClient {
    /// Results of ordered requests, which are final.
    Replies {
        /// A hint to who is primary, not a claim: its id, as a number modulo the group's size.
        view: View,
        /// Results in the order of execution.
        replies: Vec<Reply>,
    },
    /// Results of ordered requests by their digests: another replica tells the results.
    Digests {
        /// As in [`Self::Replies`].
        view: View,
        /// In the order of execution.
        digests: Vec<ResultDigest>,
    },
    /// Results that may still be taken back.
    Speculative {
        /// A hint to who is primary, not a claim.
        primary: ReplicaId,
        /// Where they stand.
        place: Place,
        /// Results of requests that this slot orders.
        replies: Vec<Reply>,
    },
    /// Results that may still be taken back, by their digests: another replica tells the
    /// results.
    SpeculativeDigests {
        /// As in [`Self::Speculative`].
        primary: ReplicaId,
        /// Where they stand.
        place: Place,
        /// Of requests that this slot orders.
        digests: Vec<ResultDigest>,
    },
    /// The replica has executed what is named here, and says so under its signature.
    Vouched {
        /// What.
        place: Place,
        /// Other replicas check this signature; the client need not.
        signature: Signature,
    },
    /// The replica keeps proof that enough others have executed what is named here.
    Committed(Place),
    /// Answer to a query, from the replica's executed state.
    Answer {
        /// The query's number.
        number: u64,
        /// Its result.
        result: Bytes,
    },
    /// The replica's tables are full; try again later.
    Busy {
        /// The lowest number of the envelope that was not taken.
        number: u64,
    },
    /// The replica's status as JSON, for people and tools. Nothing is decided by it.
    Status(Bytes),
    /// A message of the protocol: only its client cores can read it.
    Protocol(Bytes),
    /// What the service tells the client unasked: `events[i]` has the number `first + i`.
    Events {
        /// Every event below this number is gone here, for ever. 0 claims nothing.
        oldest: u64,
        /// The number of the first event.
        first: u64,
        /// Their bodies. May be empty in answer to [`ToReplica::Resume`].
        events: Vec<Bytes>,
    },
    /// How the group stands, as an encoded [`Standing`](crate::standing::Standing). Only hosts of
    /// clients read it.
    Standing(Bytes),
    /// A configuration has begun at the replica: it says so over each connection before anything
    /// else. Only hosts of clients read it.
    Begun(Welcome),
    /// The answer to [`ToReplica::State`], as an encoded [`transfer::Message`]. Only machines that
    /// are to become members read it.
    State(Bytes),
}

impl ToClient {
    /// The name under which hosts count it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Replies { .. } => "replies",
            Self::Digests { .. } => "digests",
            Self::Answer { .. } => "answer",
            Self::Busy { .. } => "busy",
            Self::Status(_) => "status",
            Self::Events { .. } => "events",
            Self::Speculative { .. } => "speculative",
            Self::SpeculativeDigests { .. } => "speculative_digests",
            Self::Vouched { .. } => "vouched",
            Self::Committed(_) => "committed",
            Self::Protocol(_) => "replica_protocol",
            Self::Standing(_) => "standing",
            Self::Begun(_) => "begun",
            Self::State(_) => "state",
        }
    }
}

impl Wire for ToClient {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Replies { view, replies } => {
                to.u8(0);
                view.encode(to);
                to.sequence(replies);
            }
            Self::Digests { view, digests } => {
                to.u8(8);
                view.encode(to);
                to.sequence(digests);
            }
            Self::Answer { number, result } => {
                to.u8(1);
                to.u64(*number);
                to.bytes(result);
            }
            Self::Busy { number } => {
                to.u8(2);
                to.u64(*number);
            }
            Self::Status(json) => {
                to.u8(3);
                to.bytes(json);
            }
            Self::Events { oldest, first, events } => {
                to.u8(4);
                to.u64(*oldest);
                to.u64(*first);
                to.sequence(events);
            }
            Self::Speculative { primary, place, replies } => {
                to.u8(5);
                primary.encode(to);
                place.encode(to);
                to.sequence(replies);
            }
            Self::SpeculativeDigests { primary, place, digests } => {
                to.u8(9);
                primary.encode(to);
                place.encode(to);
                to.sequence(digests);
            }
            Self::Vouched { place, signature } => {
                to.u8(6);
                place.encode(to);
                signature.encode(to);
            }
            Self::Committed(place) => {
                to.u8(7);
                place.encode(to);
            }
            Self::Protocol(message) => {
                to.u8(10);
                to.bytes(message);
            }
            Self::Standing(standing) => {
                to.u8(11);
                to.bytes(standing);
            }
            Self::Begun(welcome) => {
                to.u8(12);
                welcome.encode(to);
            }
            Self::State(answer) => {
                to.u8(13);
                to.bytes(answer);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Replies {
                view: View::decode(from)?,
                replies: from.sequence(BATCH_REQUESTS_MAX)?,
            }),
            8 => Ok(Self::Digests {
                view: View::decode(from)?,
                digests: from.sequence(BATCH_REQUESTS_MAX)?,
            }),
            1 => Ok(Self::Answer { number: from.u64()?, result: from.bytes(FRAME_BYTES_MAX)? }),
            2 => Ok(Self::Busy { number: from.u64()? }),
            3 => from.bytes(FRAME_BYTES_MAX).map(Self::Status),
            4 => Ok(Self::Events {
                oldest: from.u64()?,
                first: from.u64()?,
                events: from.sequence(CLIENT_EVENTS_MAX)?,
            }),
            5 => Ok(Self::Speculative {
                primary: ReplicaId::decode(from)?,
                place: Place::decode(from)?,
                replies: from.sequence(BATCH_REQUESTS_MAX)?,
            }),
            9 => Ok(Self::SpeculativeDigests {
                primary: ReplicaId::decode(from)?,
                place: Place::decode(from)?,
                digests: from.sequence(BATCH_REQUESTS_MAX)?,
            }),
            6 => Ok(Self::Vouched {
                place: Place::decode(from)?,
                signature: Signature::decode(from)?,
            }),
            7 => Place::decode(from).map(Self::Committed),
            10 => from.bytes(MESSAGE_BYTES_MAX).map(Self::Protocol),
            11 => from.bytes(FRAME_BYTES_MAX).map(Self::Standing),
            12 => Welcome::decode(from).map(Self::Begun),
            13 => from.bytes(MESSAGE_BYTES_MAX).map(Self::State),
            _ => Err(Malformed),
        }
    }
}

/// What happens to a client core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The application wants this ordered and executed. The host chose the number: each once,
    /// ascending.
    Submit {
        /// The request's number.
        number: u64,
        /// The operation.
        operation: Bytes,
    },
    /// The application wants a fast read (its guarantee: `docs/reads.md`).
    Query {
        /// The query's number; shares the sequence of request numbers, because a query that
        /// finds no agreement becomes a request.
        number: u64,
        /// A read-only operation.
        operation: Bytes,
    },
    /// As [`Self::Submit`], or [`Self::Query`] if `fast`, but the host judges what replicas say:
    /// the client says it by [`Effect::Told`], sends the request again until it hears
    /// [`Self::Settled`], and never says [`Effect::Completed`]. Only of a client that
    /// [hands replies on](ClientCore::hands_on).
    SubmitJudged {
        /// The request's number.
        number: u64,
        /// The operation.
        operation: Bytes,
        /// Whether replicas may answer without ordering it.
        fast: bool,
    },
    /// The host needs no more replies to this number, which it judges itself. If it was not ordered
    /// yet, it may still be executed.
    Settled {
        /// The number.
        number: u64,
    },
    /// The host had no room for what this replica said of a number that the host judges. The client
    /// hands on what that replica says next, as if it had not said anything.
    Unheard {
        /// The number.
        number: u64,
        /// Whose reply was dropped.
        from: ReplicaId,
    },
    /// The application waits no longer for this number. The client has replicas settle it as soon
    /// as they can, so that it has run or never will, and says the outcome by
    /// [`Effect::Completed`], as if the application still waited. The client ignores this if the
    /// number is settled.
    GiveUp {
        /// The number.
        number: u64,
    },
    /// The host goes on with this core after another one, which may have sent every number below
    /// this one. It asks for those again that are outstanding. Before all of these.
    Resumed {
        /// The number.
        below: u64,
    },
    /// A replica spoke.
    Message {
        /// Which replica.
        from: ReplicaId,
        /// The replica's message.
        message: ToClient,
    },
    /// A channel to a replica was opened or opened again.
    Connected(ReplicaId),
    /// The application wants to be told events. Before anything else; without it they are
    /// ignored, and replicas need not keep them.
    Listen,
    /// All that had arrived was delivered: send what waits.
    Round {
        /// The host's clock. Never goes back.
        now: Millis,
    },
}

/// What a client core asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Authenticate the draft and send it to these replicas.
    Request {
        /// Who gets it.
        to: ReplicaSet,
        /// What to authenticate.
        draft: Draft,
    },
    /// Send a query to these replicas.
    Query {
        /// Who gets it.
        to: ReplicaSet,
        /// The query's number.
        number: u64,
        /// The operation.
        operation: Bytes,
    },
    /// Send a message of the protocol to these replicas.
    Protocol {
        /// Who gets it.
        to: ReplicaSet,
        /// Its encoding, as [`ToReplica::Protocol`] carries it.
        message: Bytes,
    },
    /// Tell the application.
    Completed {
        /// The number it was given.
        number: u64,
        /// How replicas settled it.
        outcome: Outcome,
    },
    /// A replica told what came of a number that the host [judges](Event::SubmitJudged); each
    /// replica counts once for each `ordered`.
    Told {
        /// The number.
        number: u64,
        /// The replica.
        from: ReplicaId,
        /// What the replica told.
        outcome: Outcome,
        /// Whether it was ordered. A fast read that finds no agreement is ordered after all: then
        /// what replicas told before counts no more.
        ordered: bool,
        /// So many equal ones are to be believed.
        needed: usize,
    },
    /// Ask these replicas for the events from this number on.
    Resume {
        /// The replicas that the client asks.
        to: ReplicaSet,
        /// The lowest number that is missing.
        from: u64,
    },
    /// Tell the application what the service told it. By ascending number, each once, and
    /// without a gap that [`Self::EventsLost`] does not name.
    Event {
        /// Its number.
        number: u64,
        /// What the service said.
        body: Bytes,
    },
    /// Tell the application that there are no copies any more of events below this number that
    /// it was not told.
    EventsLost {
        /// The lowest number that may still come.
        upto: u64,
    },
    /// Deliver a `Round` at this time at the latest.
    WakeAt(Millis),
}

/// A client core, as its hosts see it.
pub trait ClientCore: Send {
    /// Consumes one event; effects are appended in order.
    fn step(&mut self, event: Event, out: &mut Vec<Effect>);
    /// Requests and queries that have not completed.
    fn outstanding(&self) -> usize;

    /// Whether the host can judge replies itself ([`Event::SubmitJudged`]): where each is final and
    /// has its whole result in it.
    fn hands_on(&self) -> bool {
        false
    }
}
