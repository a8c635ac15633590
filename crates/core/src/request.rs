//! What clients ask: requests, signed together in envelopes.
//!
//! An envelope holds all the requests that a client had waiting at one moment, under one
//! authentication. It is the atomic unit of dissemination and ordering; at-most-once execution is
//! per request.

use crate::digest::{Digest, Hasher};
use crate::ids::ClientId;
use crate::limits::{ENVELOPE_BYTES_MAX, ENVELOPE_INLINE_BYTES, ENVELOPE_REQUESTS_MAX};
use crate::limits::{OPERATION_BYTES_MAX, REPLICAS_MAX};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher as StdHasher};

/// The operation of a *fence*: a client sends it under a number that it has used for something else
/// and gives up. Whichever of the two is ordered first settles the number. If that is the fence,
/// the other one will never run; if it is the other one, the client learns what came of it. The
/// service is never shown it.
pub const FENCE: &[u8; 16] = b"pentarchy/fence\0";

/// One operation of one client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// Chosen by the client; never used for another operation but a [`FENCE`]. Numbers may skip.
    pub number: u64,
    /// What the service is to do; only the service can read it.
    pub operation: Bytes,
}

impl Request {
    /// Whether it gives its number up; see [`FENCE`].
    #[must_use]
    pub fn is_fence(&self) -> bool {
        self.operation == FENCE[..]
    }
}

impl Wire for Request {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.number);
        to.bytes(&self.operation);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { number: from.u64()?, operation: from.bytes(OPERATION_BYTES_MAX)? })
    }
}

/// Proof that a client made an envelope.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum RequestAuth {
    /// Ed25519 under the client's key: convinces everyone alike.
    Signature([u8; 64]),
    /// One 16-byte MAC for each replica, in order. Convinces each replica of its own entry only, so
    /// this is for accidental faults (the big-MAC attack, Clement et al., NSDI 2009).
    Macs(Bytes),
    /// A tag under a key that only the client and the group's trusted devices have. Convinces every
    /// replica alike, as long as no such device betrays the key.
    Session([u8; Self::SESSION_BYTES]),
}

impl RequestAuth {
    /// Bytes of one entry of [`RequestAuth::Macs`].
    pub const MAC_BYTES: usize = crate::mac_vector::MAC_BYTES;
    /// Bytes of a [`RequestAuth::Session`]. Each guess has to be put to a device, so nobody comes
    /// near the 2^127 guesses that 16 bytes ask for.
    pub const SESSION_BYTES: usize = 16;
    /// The most bytes that an authentication takes on the wire.
    pub const BYTES_MAX: usize = 1 + 4 + Self::MAC_BYTES * REPLICAS_MAX;
}

impl fmt::Debug for RequestAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature(_) => "signature",
            Self::Macs(_) => "macs",
            Self::Session(_) => "session",
        })
    }
}

/// What a client authenticates, before it has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Draft {
    /// Whose requests these are.
    pub client: ClientId,
    /// The client has the result of every number below this one, or has given it up.
    pub floor: u64,
    /// The client was given, or has given up, every event below this number: replicas need not keep
    /// them. None if it does not listen: nothing that there is so far need be kept.
    pub events: Option<u64>,
    /// In the order in which they are to run: by ascending number. Never empty.
    pub requests: Vec<Request>,
}

impl Draft {
    /// Authenticated bytes of an envelope beside its requests: header and count.
    #[must_use]
    pub const fn header_bytes(events: Option<u64>) -> usize {
        32 + 8 + if events.is_some() { 9 } else { 1 } + 4
    }
    /// Bytes of a request beside its operation.
    pub const REQUEST_HEADER_BYTES: usize = 12;

    /// The bytes that are authenticated.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let mut to = Writer::default();
        self.client.encode(&mut to);
        to.u64(self.floor);
        encode_events(self.events, &mut to);
        to.sequence(&self.requests);
        to.into_bytes()
    }

    /// Names the authenticated bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest_of(&self.body())
    }

    /// The finished envelope.
    #[must_use]
    pub fn seal(self, auth: RequestAuth) -> Envelope {
        self.seal_with(|_| auth)
    }

    /// The finished envelope, whose authentication is made of its digest.
    #[must_use]
    pub fn seal_with(self, authenticate: impl FnOnce(&Digest) -> RequestAuth) -> Envelope {
        let body = self.body();
        let digest = digest_of(&body);
        let auth = authenticate(&digest);
        let mut to = Writer::default();
        to.array(&body);
        encode_auth(&auth, &mut to);
        let Self { client, floor, events, requests } = self;
        let (body_bytes, wire) = (body.len(), to.into_bytes());
        Envelope { client, floor, events, requests, auth, digest, body_bytes, wire }
    }
}

fn digest_of(body: &[u8]) -> Digest {
    Hasher::new("envelope").bytes(body).finish()
}

fn encode_events(events: Option<u64>, to: &mut Writer) {
    to.u8(u8::from(events.is_some()));
    if let Some(number) = events {
        to.u64(number);
    }
}

fn decode_events(from: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    match from.u8()? {
        0 => Ok(None),
        1 => from.u64().map(Some),
        _ => Err(Malformed),
    }
}

fn encode_auth(auth: &RequestAuth, to: &mut Writer) {
    match auth {
        RequestAuth::Signature(signature) => {
            to.u8(0);
            to.array(signature);
        }
        RequestAuth::Macs(macs) => {
            to.u8(1);
            to.bytes(macs);
        }
        RequestAuth::Session(tag) => {
            to.u8(2);
            to.array(tag);
        }
    }
}

/// A client's requests with their authentication, and the bytes they came in.
#[derive(Clone)]
pub struct Envelope {
    /// Whose requests these are.
    pub client: ClientId,
    /// See [`Draft::floor`].
    pub floor: u64,
    /// See [`Draft::events`].
    pub events: Option<u64>,
    /// In the order in which they run.
    pub requests: Vec<Request>,
    /// The client's authentication of [`Self::digest`].
    pub auth: RequestAuth,
    /// Names the authenticated bytes: everything but `auth`.
    pub digest: Digest,
    body_bytes: usize,
    wire: Bytes,
}

impl Envelope {
    /// Authenticated bytes, which is what all limits count: they are the same whatever
    /// authenticates them.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.body_bytes
    }

    /// Never; an envelope holds at least one request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether it is ordered by digest and sent to all replicas by its client.
    #[must_use]
    pub const fn is_large(&self) -> bool {
        self.body_bytes > ENVELOPE_INLINE_BYTES
    }

    /// The lowest and the highest number in it.
    #[must_use]
    pub fn range(&self) -> (u64, u64) {
        let number = |request: Option<&Request>| request.map_or(0, |request| request.number);
        (number(self.requests.first()), number(self.requests.last()))
    }

    /// Whether it asks for this number.
    #[must_use]
    pub fn asks(&self, number: u64) -> bool {
        self.requests.binary_search_by_key(&number, |request| request.number).is_ok()
    }
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire
    }
}

impl Eq for Envelope {}

impl Hash for Envelope {
    fn hash<H: StdHasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#", self.client)?;
        let mut numbers = self.requests.iter().map(|request| request.number);
        if let Some(first) = numbers.next() {
            write!(f, "{first}")?;
        }
        if let Some(last) = numbers.next_back() {
            write!(f, "-{last}")?;
        }
        Ok(())
    }
}

impl Wire for Envelope {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.wire);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = from.position();
        let client = ClientId::decode(from)?;
        let floor = from.u64()?;
        let events = decode_events(from)?;
        let requests = from.sequence(ENVELOPE_REQUESTS_MAX)?;
        let body = from.since(start);
        let ascending = requests.is_sorted_by(|a: &Request, b| a.number < b.number);
        if requests.is_empty() || !ascending || body.len() > ENVELOPE_BYTES_MAX {
            return Err(Malformed);
        }
        let auth = match from.u8()? {
            0 => RequestAuth::Signature(from.array()?),
            1 => RequestAuth::Macs(from.bytes(RequestAuth::MAC_BYTES * REPLICAS_MAX)?),
            2 => RequestAuth::Session(from.array()?),
            _ => return Err(Malformed),
        };
        let (digest, body_bytes, wire) = (digest_of(&body), body.len(), from.since(start));
        Ok(Self { client, floor, events, requests, auth, digest, body_bytes, wire })
    }
}
