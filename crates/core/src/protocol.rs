//! Read this page first: what a protocol core is.

pub use crate::rules::{Authority, FaultModel, Rules, Tuning};

use crate::auth::{Auth, AuthTag, Verified, Verifier};
use crate::ballot::{Ballot, Justification, Shown};
use crate::digest::{Digest, Domain};
use crate::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot, View};
use crate::membership::{Base, Membership};
use crate::ports::client::Place;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt::Debug;
use core::hash::Hash;

pub use crate::status::Status;

/// Plain data. A lock, a socket, a channel, a closure or a float is not a `Value`, and neither is
/// anything that holds one.
pub trait Value: Clone + Eq + Hash + Debug + Send + Sync + 'static {}
impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Value for T {}

/// What one node says to another.
pub trait Message: Wire + Value {
    /// How it must convince. The sender's host makes this, the receiver's host insists on it.
    fn auth(&self) -> Auth;

    /// The digest that the authentication covers: everything the message claims, bound to the
    /// domain. Large parts may enter by their own digest, so that a header convinces alone.
    fn statement(&self, domain: &Domain) -> Digest;

    /// The name under which hosts count it: one word, or a few joined by `_`.
    fn kind(&self) -> &'static str {
        "message"
    }

    /// What the message speaks of, if a correct replica says one thing about that in all its life.
    /// A replica that says two things is faulty, and two different statements under signatures of
    /// one replica are evidence. None for what binds nobody, and for what a counter certifies,
    /// which goes by positions.
    fn topic(&self) -> Option<Topic> {
        None
    }

    /// Hands out each ballot that this message casts for its author; `digest` is that of its
    /// [statement](Self::statement). Hosts do not need it: the simulator looks whether decisions
    /// are [justified](Protocol::JUSTIFICATION).
    fn ballots(&self, digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        let _ = (digest, cast);
    }

    /// What a replica shows of its ballots when it leaves a view by this message; none for other
    /// messages. The simulator looks whether [anything is missing](Justification::to_be_shown);
    /// hosts do not call it.
    fn shows(&self) -> Option<Shown> {
        None
    }
}

/// Something about which a correct replica makes one statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Topic {
    /// Of which kind the statement is.
    pub kind: &'static str,
    /// The pillar of which it speaks; 0 if there is one.
    pub pillar: u8,
    /// The view of which it speaks; 0 if of none.
    pub view: View,
    /// The slot of which it speaks; 0 if of none.
    pub slot: Slot,
}

impl Topic {
    /// About a slot in a view.
    #[must_use]
    pub const fn of_slot(kind: &'static str, view: View, slot: Slot) -> Option<Self> {
        Some(Self { kind, pillar: 0, view, slot })
    }

    /// About a view.
    #[must_use]
    pub const fn of_view(kind: &'static str, view: View) -> Option<Self> {
        Some(Self { kind, pillar: 0, view, slot: Slot(0) })
    }
}

/// The name of a timer. Carries what it is about, so that a stale timeout shows.
pub trait TimerName: Value + Copy {
    /// As two numbers, for hosts that serve every protocol.
    fn to_key(self) -> TimerKey;
    /// Back from [`Self::to_key`].
    fn from_key(key: TimerKey) -> Self;
}

/// A timer's name as hosts know it: kind and subject.
pub type TimerKey = (u8, u64);

/// A message or a record of a core that has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nothing {}

impl Wire for Nothing {
    fn encode(&self, _to: &mut Writer) {
        match *self {}
    }
    fn decode(_from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Err(Malformed)
    }
}

impl Message for Nothing {
    fn auth(&self) -> Auth {
        match *self {}
    }
    fn statement(&self, _domain: &Domain) -> Digest {
        match *self {}
    }
}

/// The timer of a core that waits for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NoTimer;

impl TimerName for NoTimer {
    fn to_key(self) -> TimerKey {
        (0, 0)
    }
    fn from_key(_key: TimerKey) -> Self {
        Self
    }
}

/// A protocol core: one deterministic state machine, for one replica, for one epoch. Equal state
/// and equal event give equal next state and equal effects, on every machine.
pub trait Protocol: Value {
    /// What it says to other replicas.
    type Message: Message;
    /// What it waits for.
    type Timer: TimerName;
    /// What it must remember across a crash.
    type Record: Wire + Value;
    /// What its host tells it; see [`crate::ports`].
    type Input: Value;
    /// What it asks of its host; see [`crate::ports`].
    type Output: Value;

    /// Fault model, group size and quorums, as data.
    const RULES: Rules;

    /// What replicas must have sent before one of them decides something.
    const JUSTIFICATION: Justification = Justification::NONE;

    /// What everything that its replicas say is bound to.
    #[must_use]
    fn domain(membership: &Membership) -> Domain {
        membership.domain()
    }

    /// All checks that need no protocol state: shape, bounds, the author's role, the authentication
    /// of embedded messages. The message's own `tag` was checked already; it is here for what it
    /// says. Any thread. A message that fails never reaches [`Self::step`].
    ///
    /// # Errors
    /// The reason for which the message is refused.
    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Self::Message,
    ) -> Result<(), Reject>;

    /// The same for a message that a client sent. It comes over the client's own channel and is not
    /// signed. A protocol whose clients only ask has none.
    ///
    /// # Errors
    /// The reason for which the message is refused.
    fn validate_client(
        membership: &Membership,
        verifier: &dyn Verifier,
        message: &Self::Message,
    ) -> Result<(), Reject> {
        let _ = (membership, verifier, message);
        Err(Reject::WrongRole)
    }

    /// Brings up the core for one epoch. `log` yields what it persisted in this epoch, oldest
    /// first; it is empty the first time. It may begin with what the core persisted when a
    /// checkpoint became stable ([`crate::ports::replica::Output::Stable`]), or with anything
    /// before, so the same may be told twice. The core says again what it had said behind the last
    /// stable checkpoint: its host has the same certificates for that.
    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Self::Record>,
        out: &mut Effects<Self>,
    ) -> Self;

    /// Consumes one event. Runs to completion: it cannot fail, block, wait or call out.
    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>);

    /// Whether nothing would follow from this message of another replica, even if it were genuine:
    /// neither progress nor proof of a fault. It is then dropped without the cost of checking it.
    /// Nothing else may be done about it, as anyone may have made it.
    fn is_redundant(&self, author: ReplicaId, message: &Self::Message) -> bool {
        let _ = (author, message);
        false
    }

    /// Asserts what holds between events. Called after every step by the simulator, the explorer
    /// and debug builds.
    fn assert_invariants(&self);

    /// View, role and progress: for one line of trace, for metrics, for leader hints.
    fn status(&self) -> Status;

    /// The same of each core of which this one consists; none if it is one.
    fn statuses(&self) -> Vec<Status> {
        Vec::new()
    }

    /// The places that this replica would confirm to a client that asks now
    /// ([`ToClient::Committed`](crate::ports::client::ToClient::Committed)), in the order of their
    /// slots. Hosts do not need it: the simulator compares it with the order that becomes final.
    fn confirms(&self) -> Vec<Place> {
        Vec::new()
    }

    /// What another replica says to have this one leave its view for the next, or each of its views
    /// if it consists of several cores; nothing where there are no views. Nobody sends these: the
    /// simulator has a copy of a core hear them, to see what it would show if it had to leave now.
    fn asks_to_leave(&self) -> Vec<Self::Message> {
        Vec::new()
    }

    /// The slot up to which a replica must have executed before it answers a query that arrives
    /// now: what it executed so far may be older than what clients were told. Where a query takes
    /// the answers of all replicas nothing is needed, as whoever executed most is among them.
    fn reads_from(&self) -> Slot {
        Slot(0)
    }

    /// Whether this replica only orders, and has nothing executed: whoever compares how far
    /// replicas have executed leaves it out.
    fn is_witness(&self) -> bool {
        false
    }

    /// A hint for a client to who is primary for it: its id, as a number modulo the group's size.
    fn hint(&self, client: &ClientId) -> View {
        let _ = client;
        View(u64::from(self.status().primary.0))
    }
}

/// What happens to a core.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event<P: Protocol> {
    /// Authentic and valid, which is not to say true. Includes this replica's own messages.
    Message(Verified<P::Message>),
    /// A client sent a message of the protocol, which is valid.
    Client(ClientId, Arc<P::Message>),
    /// A timer ran out. It is no longer armed. It may be stale.
    Timeout(P::Timer),
    /// The host: a request, an answer to an output, the end of a round.
    Input(P::Input),
}

/// What a core asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Effect<P: Protocol> {
    /// Authenticate as the message asks, then deliver. Leaves only when every earlier `Persist` is
    /// durable.
    Send {
        /// Who gets it.
        to: To,
        /// What it says.
        message: P::Message,
    },
    /// Pass on, byte for byte, what a replica authenticated.
    Relay {
        /// Who gets it.
        to: To,
        /// What was authenticated.
        message: Verified<P::Message>,
    },
    /// Remember this across a crash.
    Persist(P::Record),
    /// Arm, replacing an armed timer of the same name. Delays are symbolic; hosts own the numbers.
    Arm {
        /// Which timer.
        timer: P::Timer,
        /// How long.
        after: Delay,
    },
    /// Stop a timer. It may still fire if it was about to.
    Disarm(P::Timer),
    /// Ask the host for something, in order.
    Output(P::Output),
    /// A provable lie or a refusal, for operators and tests. Changes nothing by itself.
    Report(Evidence),
}

/// Who gets a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum To {
    /// One replica; itself by loopback.
    One(ReplicaId),
    /// All others.
    Others,
    /// All, including the sender, by loopback.
    All,
    /// These; the sender by loopback.
    Set(ReplicaSet),
}

/// A list of effects, reused from step to step so that a step in the steady state allocates
/// nothing for it.
#[derive(Debug)]
pub struct Effects<P: Protocol>(Vec<Effect<P>>);

impl<P: Protocol> Default for Effects<P> {
    fn default() -> Self {
        Self(Vec::with_capacity(64))
    }
}

impl<P: Protocol> Effects<P> {
    /// Asks for a message to be authenticated and sent.
    pub fn send(&mut self, to: To, message: P::Message) {
        self.0.push(Effect::Send { to, message });
    }
    /// Asks for a message to be passed on.
    pub fn relay(&mut self, to: To, message: &Verified<P::Message>) {
        self.0.push(Effect::Relay { to, message: message.clone() });
    }
    /// Asks for a record to be kept.
    pub fn persist(&mut self, record: P::Record) {
        self.0.push(Effect::Persist(record));
    }
    /// Asks for a timer.
    pub fn arm(&mut self, timer: P::Timer, after: Delay) {
        self.0.push(Effect::Arm { timer, after });
    }
    /// Asks for no timer.
    pub fn disarm(&mut self, timer: P::Timer) {
        self.0.push(Effect::Disarm(timer));
    }
    /// Asks the host for something.
    pub fn output(&mut self, output: impl Into<P::Output>) {
        self.0.push(Effect::Output(output.into()));
    }
    /// Tells operators.
    pub fn report(&mut self, author: ReplicaId, finding: Finding) {
        self.0.push(Effect::Report(Evidence { author, finding }));
    }
    /// Takes all effects out, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<P>> + '_ {
        self.0.drain(..)
    }
    /// The effects so far.
    #[must_use]
    pub fn as_slice(&self) -> &[Effect<P>] {
        &self.0
    }
}

/// How long to wait. Each doubling stands for one failed view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Delay {
    /// For a request that a client had to send to everyone.
    Request {
        /// Times the base is doubled.
        doublings: u8,
    },
    /// For a new primary to open its view.
    ViewChange {
        /// Times the base is doubled.
        doublings: u8,
    },
    /// Between two reports of what is missing.
    Resend,
    /// So many times as long.
    Resends {
        /// How many times.
        times: u8,
    },
    /// A number of milliseconds that the protocol computed from agreed time.
    Millis(u32),
}

/// The numbers behind [`Delay`], in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timeouts {
    /// Base of [`Delay::Request`].
    pub request_ms: u64,
    /// Base of [`Delay::ViewChange`].
    pub view_change_ms: u64,
    /// [`Delay::Resend`].
    pub resend_ms: u64,
    /// After which a client sends a request to everyone.
    pub client_retry_ms: u64,
}

impl Default for Timeouts {
    /// Together under a second from a primary's death to the next completed request: client retry
    /// 200 + request 400 + a view change of a few round trips; and each outlasts a stall of the
    /// disk or the scheduler of a good 300 ms between retry and suspicion.
    fn default() -> Self {
        Self { request_ms: 400, view_change_ms: 400, resend_ms: 50, client_retry_ms: 200 }
    }
}

impl Timeouts {
    /// The longest that doubling makes a delay: ten minutes.
    pub const DELAY_MAX_MS: u64 = 600_000;

    /// The delay in milliseconds.
    #[must_use]
    pub fn millis(&self, delay: Delay) -> u64 {
        let doubled = |base: u64, doublings: u8| {
            base.saturating_mul(1u64 << doublings.min(32)).min(Self::DELAY_MAX_MS)
        };
        match delay {
            Delay::Request { doublings } => doubled(self.request_ms, doublings),
            Delay::ViewChange { doublings } => doubled(self.view_change_ms, doublings),
            Delay::Resend => self.resend_ms,
            Delay::Resends { times } => self.resend_ms.saturating_mul(u64::from(times)),
            Delay::Millis(millis) => u64::from(millis),
        }
    }
}

/// What a core is started with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Setup {
    /// Which replica this is.
    pub me: ReplicaId,
    /// The group.
    pub membership: Arc<Membership>,
    /// Whether execution has reached the state with which the epoch begins. If not, these vouch
    /// for it, and the core begins by fetching it, or a later one that its records tell of.
    pub fetch: Option<ReplicaSet>,
    /// What outlived the process.
    pub memory: Memory,
    /// Sizes that change speed and memory, never meaning. Equal in all replicas of a group.
    pub tuning: Tuning,
}

/// What a replica knows of its past in this epoch when it starts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Memory {
    /// Nothing, and nothing will be kept: whoever stops comes back as somebody else. Records that
    /// the core asks to be kept are dropped by the ingress.
    #[default]
    Volatile,
    /// All that was durable when it stopped. It goes on as whom it was.
    Durable {
        /// The slot whose state the executor has, and that state; the epoch's base if the epoch
        /// just begins. Means nothing if [`Setup::fetch`] says that no state of the epoch is there.
        executed: Base,
        /// What the core had kept, oldest first; nothing if the epoch just begins.
        records: Vec<Bytes>,
    },
}

/// A record that this core never wrote: the log is another version's or another protocol's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRecord {
    /// Which one, from 0.
    pub index: usize,
}

impl core::fmt::Display for BadRecord {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "record {} of the log is none of this protocol in this version", self.index)
    }
}

impl core::error::Error for BadRecord {}

/// Why a peer's message is refused. Counted per reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reject {
    /// Not an encoding of any message.
    Malformed,
    /// The author is not a member, or not the peer who must say this itself.
    WrongAuthor,
    /// The tag is not of the kind that the message asks for.
    WrongTag,
    /// Signature, MAC or counter certificate is wrong.
    BadAuth,
    /// Only another role may say this.
    WrongRole,
    /// A client did not make one of the requests.
    BadRequest,
    /// A number is outside what any correct replica would say.
    OutOfBounds,
    /// An embedded certificate does not prove what it is there for.
    BadCertificate,
}

impl Reject {
    /// All reasons, for tables.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::WrongAuthor,
        Self::WrongTag,
        Self::BadAuth,
        Self::WrongRole,
        Self::BadRequest,
        Self::OutOfBounds,
        Self::BadCertificate,
    ];

    /// For metrics and `status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::WrongAuthor => "wrong_author",
            Self::WrongTag => "wrong_tag",
            Self::BadAuth => "bad_auth",
            Self::WrongRole => "wrong_role",
            Self::BadRequest => "bad_request",
            Self::OutOfBounds => "out_of_bounds",
            Self::BadCertificate => "bad_certificate",
        }
    }
}

/// Something that an operator should know about a replica.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Evidence {
    /// Whose doing it is.
    pub author: ReplicaId,
    /// What was found.
    pub finding: Finding,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Finding {
    /// It signed two different states for one slot.
    TwoCheckpoints {
        /// The slot.
        slot: Slot,
    },
    /// Its state at a slot differs from the one that a quorum has.
    DivergedState {
        /// The slot.
        slot: Slot,
    },
    /// It ordered something that commits differ on.
    MismatchedCommit {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
    },
    /// It voted for two batches in one slot.
    TwoVotes {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
    },
    /// It proposed two batches for one slot.
    TwoProposals {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
    },
    /// Its clock is ahead of ours by more than is allowed.
    FutureTime {
        /// The slot.
        slot: Slot,
        /// The proposed time.
        time: Millis,
    },
    /// It proposed a batch beyond the limits.
    OversizeBatch {
        /// The slot.
        slot: Slot,
    },
}

impl Finding {
    /// The same, told in other numbers of slots.
    #[must_use]
    pub fn elsewhere(mut self, to: impl Fn(Slot) -> Slot) -> Self {
        match &mut self {
            Self::TwoCheckpoints { slot }
            | Self::DivergedState { slot }
            | Self::MismatchedCommit { slot, .. }
            | Self::TwoVotes { slot, .. }
            | Self::TwoProposals { slot, .. }
            | Self::FutureTime { slot, .. }
            | Self::OversizeBatch { slot } => *slot = to(*slot),
        }
        self
    }
}
