//! The ingress between typed cores and hosts that are compiled once. A message is decoded, checked
//! and validated here exactly once, and travels on as a value.
//!
//! On the wire a message is `author, tag, body`. The body is the canonical encoding; the tag covers
//! [`Message::statement`].

use crate::auth::{Auth, AuthTag, Checksum, Signature, Verified, Verifier};
use crate::authored;
use crate::ballot::{Ballot, Justification, Shown};
use crate::counter::Ui;
use crate::digest::{Digest, Domain};
use crate::ids::{ClientId, ReplicaId, Slot, View};
use crate::membership::Membership;
use crate::mutant;
use crate::ports::client::Place;
use crate::ports::replica::{Input, Output};
use crate::protocol::{
    BadRecord, Delay, Effect, Effects, Event, Evidence, Memory, Message, Protocol, Reject, Rules,
    Setup, Status, TimerKey, TimerName, To, Topic,
};
use crate::wire::Wire;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::any::Any;
use core::hash::Hasher;

/// A verified message whose type only its core knows.
#[derive(Clone)]
pub struct Incoming {
    verified: Arc<dyn Any + Send + Sync>,
    kind: &'static str,
    certified: Option<(ReplicaId, Digest, Ui)>,
}

impl Incoming {
    /// Whose device certified it, what, and how; none if it convinces in another way.
    #[must_use]
    pub const fn certified(&self) -> Option<&(ReplicaId, Digest, Ui)> {
        self.certified.as_ref()
    }

    /// See [`Message::kind`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        self.kind
    }
}

impl<M: Message> Verified<M> {
    /// What a core reads in its own log that it had said, with the tag that was made for it.
    pub fn recalled(author: ReplicaId, tag: AuthTag, domain: &Domain, message: M) -> Self {
        let (digest, wire) = (message.statement(domain), authored::encode(author, &tag, &message));
        let message = Arc::new(message);
        Self { author, tag, digest, message, wire, is_direct: true }
    }
}

/// A message that waits for its authentication.
#[derive(Clone)]
pub struct Outgoing {
    /// What to make.
    pub auth: Auth,
    /// What it covers.
    pub digest: Digest,
    /// The encoding.
    pub body: Bytes,
    /// See [`Message::kind`].
    pub kind: &'static str,
    message: Arc<dyn Any + Send + Sync>,
}

fn outgoing<M: Message>(message: M, domain: &Domain) -> Outgoing {
    Outgoing {
        auth: message.auth(),
        digest: message.statement(domain),
        body: message.to_bytes(),
        kind: message.kind(),
        message: Arc::new(Arc::new(message)),
    }
}

/// [`Event`] without its type.
#[derive(Clone)]
pub enum CoreEvent {
    /// See [`Event::Message`].
    Message(Incoming),
    /// See [`Event::Client`].
    Client(ClientId, Incoming),
    /// See [`Event::Timeout`].
    Timeout(TimerKey),
    /// See [`Event::Input`].
    Input(Input),
}

/// [`Effect`] without its type.
pub enum CoreEffect {
    /// See [`Effect::Send`].
    Send {
        /// Who gets it.
        to: To,
        /// What to authenticate and send.
        outgoing: Outgoing,
    },
    /// See [`Effect::Relay`].
    Relay {
        /// Who gets it.
        to: To,
        /// The bytes to pass on.
        wire: Bytes,
        /// See [`Message::kind`].
        kind: &'static str,
    },
    /// See [`Effect::Persist`].
    Persist(Bytes),
    /// See [`Effect::Arm`].
    Arm {
        /// Which timer.
        timer: TimerKey,
        /// How long.
        after: Delay,
    },
    /// See [`Effect::Disarm`].
    Disarm(TimerKey),
    /// See [`Effect::Output`].
    Output(Output),
    /// See [`Effect::Report`].
    Report(Evidence),
}

/// A replica core as hosts see it.
pub trait ReplicaCore: Send {
    /// The protocol's rules.
    fn rules(&self) -> Rules;

    /// Decodes, authenticates and validates a message that `peer` sent, whatever the core's state.
    /// What this replica said itself it takes from itself only: a core counts on hearing each of
    /// its messages as often as it said it.
    ///
    /// # Errors
    /// The reason for which it is refused.
    fn open(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Incoming, Reject>;

    /// The same for a message that is delivered now; none if it was not checked, because it [is
    /// redundant](Protocol::is_redundant).
    ///
    /// # Errors
    /// The reason for which it is refused.
    fn open_new(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Option<Incoming>, Reject>;

    /// Decodes and validates a message of the protocol that a client sent: its body alone, as only
    /// the client's channel says whose it is.
    ///
    /// # Errors
    /// The reason for which it is refused.
    fn open_client(&self, verifier: &dyn Verifier, wire: &Bytes) -> Result<Incoming, Reject>;

    /// Joins an outgoing message with the tag made for it: the bytes to send, and the message as
    /// it comes back to its sender.
    fn seal(&self, outgoing: &Outgoing, tag: AuthTag) -> (Bytes, Incoming);

    /// See [`Protocol::step`]. Effects are appended.
    fn step(&mut self, event: CoreEvent, out: &mut Vec<CoreEffect>);

    /// See [`Protocol::assert_invariants`].
    fn assert_invariants(&self);

    /// See [`Protocol::status`].
    fn status(&self) -> Status;

    /// See [`Protocol::statuses`].
    fn statuses(&self) -> Vec<Status> {
        Vec::new()
    }

    /// See [`Protocol::confirms`].
    fn confirms(&self) -> Vec<Place> {
        Vec::new()
    }

    /// See [`Protocol::reads_from`].
    fn reads_from(&self) -> Slot {
        Slot(0)
    }

    /// See [`Protocol::is_witness`].
    fn is_witness(&self) -> bool {
        false
    }

    /// See [`Protocol::hint`].
    fn hint(&self, client: &ClientId) -> View {
        let _ = client;
        View(u64::from(self.status().primary.0))
    }

    /// What a member says to have this replica leave its views, under that member's signature; see
    /// [`Protocol::asks_to_leave`].
    fn asks_to_leave(
        &self,
        by: ReplicaId,
        sign: &dyn Fn(ReplicaId, &Digest) -> Signature,
    ) -> Vec<Incoming> {
        let _ = (by, sign);
        Vec::new()
    }

    /// The message in these bytes, ready to be authenticated; none if they are no message of this
    /// protocol. Only the simulator calls it, to have a faulty replica say what its core does not.
    fn compose(&self, body: &Bytes) -> Option<Outgoing> {
        let _ = body;
        None
    }

    /// Adds the whole state to a hash.
    fn fingerprint(&self, hasher: &mut dyn Hasher);

    /// A copy in the same state.
    fn boxed_clone(&self) -> Box<dyn ReplicaCore>;

    /// What a message speaks of, and the digest of what it says about that; see
    /// [`Message::topic`].
    fn topic(&self, incoming: &Incoming) -> Option<(Topic, Digest)>;

    /// See [`Message::ballots`].
    fn ballots(&self, incoming: &Incoming) -> Vec<Ballot> {
        let _ = incoming;
        Vec::new()
    }

    /// See [`Message::shows`].
    fn shows(&self, incoming: &Incoming) -> Option<Shown> {
        let _ = incoming;
        None
    }

    /// See [`Protocol::JUSTIFICATION`].
    fn justification(&self) -> Justification {
        Justification::NONE
    }

    /// One line for traces: author, authentication and content of a message. Of one that another
    /// protocol's core has said, as in the step in which a group switches, its kind alone.
    fn describe(&self, incoming: &Incoming) -> alloc::string::String;
}

/// A typed core behind the ingress.
pub struct Erased<P: Protocol> {
    core: P,
    me: ReplicaId,
    membership: Arc<Membership>,
    domain: Domain,
    /// Whether records are kept.
    persists: bool,
    effects: Effects<P>,
}

impl<P: Protocol<Input = Input, Output = Output>> Erased<P> {
    /// Whether these are records that such a core wrote.
    ///
    /// # Errors
    /// [`BadRecord`] names the first that is not.
    pub fn check_records(records: &[Bytes]) -> Result<(), BadRecord> {
        let bad = records.iter().position(|record| P::Record::from_bytes(record).is_err());
        bad.map_or(Ok(()), |index| Err(BadRecord { index }))
    }

    /// Starts a core behind the ingress; its first effects are appended to `out`.
    ///
    /// # Panics
    /// If its memory holds what such a core did not write; see [`Self::check_records`].
    pub fn start(mut setup: Setup, out: &mut Vec<CoreEffect>) -> Self {
        let records = match &mut setup.memory {
            Memory::Volatile => Vec::new(),
            Memory::Durable { records, .. } => core::mem::take(records),
        };
        let mut log = records.iter().map(|record| {
            P::Record::from_bytes(record).expect("a host checks its log before it starts a core")
        });
        let mut effects = Effects::default();
        let me = setup.me;
        let membership = setup.membership.clone();
        let domain = P::domain(&membership);
        let persists = setup.memory != Memory::Volatile;
        let core = P::start(setup, &mut log, &mut effects);
        let mut erased = Self { core, me, membership, domain, persists, effects };
        erased.drain(out);
        erased
    }

    /// The typed core, for tests.
    pub const fn core(&self) -> &P {
        &self.core
    }

    fn decode(
        &self,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<(ReplicaId, AuthTag, P::Message), Reject> {
        let malformed = |_| Reject::Malformed;
        let (author, tag, mut reader) = authored::divide(wire).map_err(malformed)?;
        let echo = author == self.me && peer != self.me;
        if echo || !self.membership.contains(author) {
            return Err(Reject::WrongAuthor);
        }
        let message = P::Message::decode(&mut reader).map_err(malformed)?;
        reader.finish().map_err(malformed)?;
        Ok((author, tag, message))
    }

    fn check(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
        (author, tag, message): (ReplicaId, AuthTag, P::Message),
    ) -> Result<Incoming, Reject> {
        let digest = message.statement(&self.domain);
        check_tag::<P>(verifier, peer, author, message.auth(), &tag, &digest)?;
        P::validate(&self.membership, verifier, author, &tag, &message)?;
        let message = Arc::new(message);
        let (wire, is_direct) = (wire.clone(), author == peer);
        Ok(Self::incoming(Verified { author, tag, digest, message, wire, is_direct }))
    }

    fn drain(&mut self, out: &mut Vec<CoreEffect>) {
        for effect in self.effects.drain() {
            out.push(match effect {
                Effect::Persist(_) if !self.persists => continue,
                Effect::Send { to, message } => {
                    CoreEffect::Send { to, outgoing: outgoing(message, &self.domain) }
                }
                Effect::Relay { to, message } => {
                    let kind = message.message.kind();
                    CoreEffect::Relay { to, wire: message.wire, kind }
                }
                Effect::Persist(record) => CoreEffect::Persist(record.to_bytes()),
                Effect::Arm { timer, after } => CoreEffect::Arm { timer: timer.to_key(), after },
                Effect::Disarm(timer) => CoreEffect::Disarm(timer.to_key()),
                Effect::Output(output) => CoreEffect::Output(output),
                Effect::Report(evidence) => CoreEffect::Report(evidence),
            });
        }
    }

    fn incoming(verified: Verified<P::Message>) -> Incoming {
        let kind = verified.message.kind();
        let certified = verified.tag.ui().map(|ui| (verified.author, verified.digest, *ui));
        Incoming { kind, verified: Arc::new(verified), certified }
    }

    fn verified(incoming: &Incoming) -> &Verified<P::Message> {
        incoming
            .verified
            .downcast_ref()
            .expect("a host delivers a core's messages to that core's protocol")
    }
}

fn check_tag<P: Protocol>(
    verifier: &dyn Verifier,
    peer: ReplicaId,
    author: ReplicaId,
    auth: Auth,
    tag: &AuthTag,
    digest: &Digest,
) -> Result<(), Reject> {
    let good = match (auth, tag) {
        (Auth::Channel, AuthTag::Channel) if author != peer => return Err(Reject::WrongAuthor),
        (Auth::Channel, AuthTag::Channel) => true,
        // Where the faulty lie, anyone makes one.
        (Auth::Checksum, AuthTag::Checksum(sum)) if !P::RULES.fault_model.lies() => {
            *sum == Checksum::of(digest)
        }
        (Auth::Signature, AuthTag::Signature(signature)) => {
            verifier.signature(author, digest, signature)
        }
        (Auth::Usig(instance, position), AuthTag::Usig(ui)) if ui.is_at(instance, position) => {
            verifier.usig(author, digest, ui)
        }
        (Auth::Mac(instance), AuthTag::Mac(mac)) => {
            let unchecked = mutant!("ingress.mac-not-checked");
            unchecked || verifier.mac((author, instance), digest, mac)
        }
        (Auth::Vector, AuthTag::Vector(macs)) => verifier.vector(author, digest, macs),
        _ => return Err(Reject::WrongTag),
    };
    if good { Ok(()) } else { Err(Reject::BadAuth) }
}

impl<P: Protocol<Input = Input, Output = Output>> ReplicaCore for Erased<P> {
    fn rules(&self) -> Rules {
        P::RULES
    }

    fn open(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Incoming, Reject> {
        let decoded = self.decode(peer, wire)?;
        self.check(verifier, peer, wire, decoded)
    }

    fn open_new(
        &self,
        verifier: &dyn Verifier,
        peer: ReplicaId,
        wire: &Bytes,
    ) -> Result<Option<Incoming>, Reject> {
        let decoded = self.decode(peer, wire)?;
        if self.core.is_redundant(decoded.0, &decoded.2) {
            return Ok(None);
        }
        self.check(verifier, peer, wire, decoded).map(Some)
    }

    fn open_client(&self, verifier: &dyn Verifier, wire: &Bytes) -> Result<Incoming, Reject> {
        let message = P::Message::from_bytes(wire).map_err(|_| Reject::Malformed)?;
        P::validate_client(&self.membership, verifier, &message)?;
        let kind = message.kind();
        Ok(Incoming { kind, verified: Arc::new(Arc::new(message)), certified: None })
    }

    fn seal(&self, outgoing: &Outgoing, tag: AuthTag) -> (Bytes, Incoming) {
        let wire = authored::join(self.me, &tag, &outgoing.body);
        let message: &Arc<P::Message> =
            outgoing.message.downcast_ref().expect("sealed by the core that sent it");
        let verified = Verified {
            author: self.me,
            tag,
            digest: outgoing.digest,
            message: message.clone(),
            wire: wire.clone(),
            is_direct: true,
        };
        (wire, Self::incoming(verified))
    }

    fn step(&mut self, event: CoreEvent, out: &mut Vec<CoreEffect>) {
        let event = match event {
            CoreEvent::Message(incoming) => Event::Message(Self::verified(&incoming).clone()),
            CoreEvent::Client(client, incoming) => {
                let message: &Arc<P::Message> =
                    incoming.verified.downcast_ref().expect("opened by the core that gets it");
                Event::Client(client, message.clone())
            }
            CoreEvent::Timeout(key) => Event::Timeout(P::Timer::from_key(key)),
            CoreEvent::Input(input) => Event::Input(input),
        };
        self.core.step(event, &mut self.effects);
        self.drain(out);
    }

    fn assert_invariants(&self) {
        self.core.assert_invariants();
    }

    fn status(&self) -> Status {
        self.core.status()
    }

    fn statuses(&self) -> Vec<Status> {
        self.core.statuses()
    }

    fn confirms(&self) -> Vec<Place> {
        self.core.confirms()
    }

    fn reads_from(&self) -> Slot {
        self.core.reads_from()
    }

    fn is_witness(&self) -> bool {
        self.core.is_witness()
    }

    fn hint(&self, client: &ClientId) -> View {
        self.core.hint(client)
    }

    fn asks_to_leave(
        &self,
        by: ReplicaId,
        sign: &dyn Fn(ReplicaId, &Digest) -> Signature,
    ) -> Vec<Incoming> {
        let said = |message: P::Message| {
            let tag = AuthTag::Signature(sign(by, &message.statement(&self.domain)).0);
            Self::incoming(Verified::recalled(by, tag, &self.domain, message))
        };
        self.core.asks_to_leave().into_iter().map(said).collect()
    }

    fn compose(&self, body: &Bytes) -> Option<Outgoing> {
        P::Message::from_bytes(body).ok().map(|message| outgoing(message, &self.domain))
    }

    fn fingerprint(&self, mut hasher: &mut dyn Hasher) {
        self.core.hash(&mut hasher);
    }

    fn boxed_clone(&self) -> Box<dyn ReplicaCore> {
        Box::new(Self {
            core: self.core.clone(),
            me: self.me,
            membership: self.membership.clone(),
            domain: self.domain,
            persists: self.persists,
            effects: Effects::default(),
        })
    }

    fn topic(&self, incoming: &Incoming) -> Option<(Topic, Digest)> {
        let verified = Self::verified(incoming);
        let topic = verified.message.topic()?;
        // What only the channel vouches for has no statement: its bytes say what it says.
        let by_channel = verified.message.auth() == Auth::Channel;
        let digest = if by_channel { Digest::of(&verified.wire) } else { verified.digest };
        Some((topic, digest))
    }

    fn ballots(&self, incoming: &Incoming) -> Vec<Ballot> {
        let verified = Self::verified(incoming);
        let mut ballots = Vec::new();
        verified.message.ballots(&verified.digest, &mut |ballot| ballots.push(ballot));
        ballots
    }

    fn shows(&self, incoming: &Incoming) -> Option<Shown> {
        Self::verified(incoming).message.shows()
    }

    fn justification(&self) -> Justification {
        P::JUSTIFICATION
    }

    fn describe(&self, incoming: &Incoming) -> alloc::string::String {
        match incoming.verified.downcast_ref::<Verified<P::Message>>() {
            Some(verified) => alloc::format!("{verified:?}"),
            None => incoming.kind.into(),
        }
    }
}
