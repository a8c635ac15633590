//! The client's thread: rounds of reading, stepping, writing.

use crate::completion::Completion;
use crate::config::{ClientConfig, ClientEvent, OnEvent};
use crate::convincing::Convincing;
use crate::error::{ConnectError, RequestError};
use crate::fetching::Fetching;
use crate::follows::{Follows, NextGroup};
use crate::inbox::{Answer, Command, Inbox, Question};
use crate::judged::{JudgedOperations, take_held_back};
use crate::judging::result;
use crate::links::{Changes, Links};
use crate::said::Said;
use crate::waiting::Waiting;
use bytes::Bytes;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{Epoch, Millis, Node, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient, ToReplica};
use pentarchy_core::request::FENCE;
use pentarchy_core::standing::Begun;
use pentarchy_crypto::request_auth::ClientSigner;
use pentarchy_io::backoff::Backoff;
use pentarchy_io::channel::Identity;
use pentarchy_io::clock::{Clock, wall_micros};
use pentarchy_io::poll::{Poller, Token};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info};

/// The token of the waker; replicas' tokens are their ids.
const WAKER: Token = Token(usize::MAX);

/// Milliseconds for which the first operations wait for connections. A replica that is connected
/// only after it has executed a request cannot answer it, and the request would be late by a whole
/// retransmission.
const CONNECT_MS: u64 = 100;

/// If a client has had no reason to look for another host of its key for so many milliseconds since
/// it might, its next probes follow each other quickly again.
const PROBE_REST_MS: u64 = 5_000;

/// Milliseconds between two times that proofs of how the group has changed are judged, and that a
/// replica is asked again since it is in a later epoch.
const JUDGE_MS: u64 = 100;

/// How often that time is doubled while the client cannot go where the group is.
const STRAYS_MAX: u32 = 5;

/// The same, while no more replicas say that they are ahead than may be faulty.
const DOUBTS_MAX: u32 = 1;

/// Milliseconds between two questions to all replicas whether it has.
const ASK_MS: u64 = 10_000;

/// Questions to one replica how the group stands that may wait for an answer. Of more, the first
/// fail: whoever follows the group asks all again and again, and a replica that never answers must
/// not take the room of the questions to the others.
const STANDINGS_MAX: usize = 4;

/// The longest sleep in milliseconds; nothing depends on it.
const SLEEP_MS: u64 = 1_000;

/// Everything that the client's thread owns.
pub struct Host {
    inbox: Arc<Inbox>,
    poller: Poller,
    clock: Clock,
    identity: Identity,
    me: Node,
    links: Links,
    /// What leads on when the group changes.
    follows: Option<Box<dyn Follows>>,
    /// The last proofs that each replica sent, until they are judged.
    proofs: BTreeMap<ReplicaId, Vec<Proof>>,
    /// Which replicas are in a later configuration than this client, ...
    begun: Begun,
    /// ... and which speak as members of the one that it knows.
    convincing: Convincing,
    /// How often in a row the client could not go where replicas that are ahead of it are.
    strays: u32,
    /// None are judged before this time: each costs far more to judge than to send.
    judge_at: u64,
    /// When the client asks all replicas again whether the group has changed: it may have missed
    /// what they said of that unasked.
    ask_at: u64,
    commands: Vec<Command>,
    /// Operations that wait for room among the numbers or until those that were given up are
    /// settled, in order, and until when.
    held_back: VecDeque<(Command, Option<u64>)>,
    /// None of these is over before this time.
    held_until: u64,
    /// The callers that wait for what each replica says of itself.
    asked: Vec<Vec<(Question, Completion)>>,
    fetching: Fetching,
    /// Replicas to which a connection was opened or could not be.
    tried: ReplicaSet,
    /// The highest epoch in which each replica said that it is, and until when it does not matter
    /// that it says a higher one.
    epochs: Vec<(Epoch, u64)>,
    /// A connection was closed since the last probe, and this host has had something ordered:
    /// another one may have taken its place.
    doubts: bool,
    /// No probe is sent before this time. The first ones follow each other quickly: one that the
    /// replicas ordered before the other host's first request tells nothing, and until one tells,
    /// the two hosts throw each other out. Each waits longer, for a replica that closes its
    /// connections again and again must not have the group order many.
    probe_at: u64,
    probes: Backoff,
    desk: Desk,
}

/// The core, and what its effects change.
struct Desk {
    core: Box<dyn ClientCore>,
    signer: ClientSigner,
    waiting: Waiting,
    judged: JudgedOperations,
    /// The replicas serve another host of this key.
    overtaken: bool,
    /// Something was to be ordered. One that only looks takes no other host's place: its first
    /// ordered request would.
    has_submitted: bool,
    effects: Vec<Effect>,
    wake_at: Option<Millis>,
    /// Completed in this round.
    completed: usize,
    outgoing: Vec<(ReplicaSet, ToReplica)>,
    on_event: Option<OnEvent>,
    /// Another core may have to be asked again what this one was asked.
    notes: bool,
    /// The application was told all events up to this number, or that they are lost: another core
    /// begins with the first that replicas have.
    told: u64,
}

impl Host {
    pub fn new(config: ClientConfig) -> Result<(Self, Arc<Inbox>), ConnectError> {
        let ClientConfig { membership, addresses, keys, signer, core, .. } = config;
        let (outstanding_max, on_event) = (config.outstanding_max, config.on_event);
        let follows = config.follows;
        let (members, given) = (membership.n(), addresses.len());
        if members != given {
            return Err(ConnectError::Addresses { members, addresses: given });
        }
        if signer.client_id() != keys.client_id() {
            return Err(ConnectError::Signer);
        }
        let poller = Poller::new()?;
        let inbox = Arc::new(Inbox::new(poller.waker(WAKER)?, outstanding_max, membership.clone()));
        let identity = Identity::new(*keys.channel_secret(), &membership.group_domain());
        let me = Node::Client(keys.client_id());
        let links = links_to(&membership, addresses, &identity, me)?;
        let listens = on_event.is_some();
        let mut desk = Desk {
            core,
            signer,
            waiting: Waiting::new(wall_micros()),
            judged: JudgedOperations::default(),
            overtaken: false,
            has_submitted: false,
            effects: Vec::new(),
            wake_at: None,
            completed: 0,
            outgoing: Vec::new(),
            on_event,
            notes: follows.is_some(),
            told: 0,
        };
        if listens {
            desk.step(Event::Listen);
        }
        let host = Self {
            inbox: inbox.clone(),
            poller,
            clock: Clock::default(),
            identity,
            me,
            links,
            follows,
            proofs: BTreeMap::new(),
            judge_at: 0,
            ask_at: ASK_MS,
            commands: Vec::new(),
            held_back: VecDeque::new(),
            held_until: u64::MAX,
            asked: (0..members).map(|_| Vec::new()).collect(),
            fetching: Fetching::default(),
            tried: ReplicaSet::EMPTY,
            begun: Begun::new(members),
            convincing: Convincing::new(membership.clone()),
            strays: 0,
            epochs: vec![(Epoch(0), 0); members],
            doubts: false,
            probe_at: 0,
            probes: Backoff::default(),
            desk,
        };
        Ok((host, inbox))
    }

    /// Runs until the last handle is gone.
    pub fn run(mut self) {
        // Whatever ends this thread, nobody waits for it afterwards.
        let _end = EndGuard(self.inbox.clone());
        loop {
            let rest = if self.desk.overtaken { Self::idle } else { Self::round };
            match rest(&mut self) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    error!(%error, "the client cannot wait for its sockets and ends");
                    return;
                }
            }
        }
    }

    fn round(&mut self) -> std::io::Result<bool> {
        let timeout = self.timeout();
        for event in self.poller.wait(timeout)? {
            self.links.on_event(event);
        }
        let mut changes = Changes::default();
        let now_ms = self.clock.elapsed_ms();
        self.links.dial(&self.poller, now_ms, &mut changes);
        let Heard { arrived, mut early } = self.receive(now_ms, &mut changes);
        if self.desk.overtaken {
            self.on_overtaken();
            return Ok(true);
        }
        for replica in changes.opened.iter().chain(arrived.iter()) {
            self.desk.step(Event::Connected(replica));
        }
        if self.follow(changes.opened, now_ms) {
            return Ok(true);
        }
        let number = self.follows.as_ref().map_or(0, |follows| follows.number());
        early.retain(|(from, _)| !self.begun.is_ahead(*from, number) && self.convincing.has(*from));
        for (from, message) in early {
            self.desk.step(Event::Message { from, message });
        }
        self.commands.clear();
        if !self.inbox.take(&mut self.commands) {
            return Ok(false);
        }
        self.tried = ReplicaSet(self.tried.0 | changes.opened.0 | changes.lost.0);
        // The client first gives up what takes too long: commands that come now wait for that.
        self.on_time(now_ms);
        self.on_commands(changes.opened, now_ms);
        self.probe(now_ms);
        self.desk.wake_at = None;
        self.desk.step(Event::Round { now: Millis(now_ms) });
        for (to, message) in self.desk.outgoing.drain(..) {
            for replica in to.iter() {
                self.links.send(replica, &message);
            }
        }
        self.links.flush(now_ms, &mut changes);
        self.doubts |= changes.closed && self.desk.has_submitted;
        self.fail_asked(changes.lost);
        changes.lost.iter().for_each(|replica| self.convincing.lose(replica));
        self.inbox.release(std::mem::take(&mut self.desk.completed), 0);
        if self.desk.overtaken {
            self.on_overtaken();
        }
        Ok(true)
    }

    /// Takes what replicas sent.
    fn receive(&mut self, now_ms: u64, changes: &mut Changes) -> Heard {
        let (desk, asked, inbox) = (&mut self.desk, &mut self.asked, &self.inbox);
        let fetching = &mut self.fetching;
        let mut proofs = self.follows.is_some().then_some(&mut self.proofs);
        let number = self.follows.as_ref().map(|follows| follows.number());
        let (epochs, begun) = (&mut self.epochs, &mut self.begun);
        let convincing = &mut self.convincing;
        let Heard { mut arrived, mut early } = Heard::default();
        self.links.receive(now_ms, changes, |from, channel, bytes| {
            let place = usize::from(from.0);
            let is_ahead = number.is_some_and(|number| begun.is_ahead(from, number));
            let Some(said) = Said::read(from, &bytes) else { return };
            let (answer, bytes) = match said {
                Said::ToCore(message) if is_ahead => return early.push((from, message)),
                Said::ToCore(message) if convincing.has(from) => {
                    return desk.step(Event::Message { from, message });
                }
                Said::ToCore(_) => return,
                Said::Begun(welcome) => {
                    convincing.hear(from, welcome, channel);
                    return begun.heard(from, welcome.number);
                }
                Said::Status(json) => (Answer::Status, json),
                Said::State(part) => return fetching.came(from, part),
                Said::Standing(standing, bytes) => {
                    if is_later(standing.epoch, &mut epochs[place], now_ms) {
                        arrived.insert(from);
                    }
                    let leads_to = standing.begun();
                    leads_to.into_iter().for_each(|number| begun.heard(from, number));
                    if let (Some(proofs), false) = (&mut proofs, standing.links.is_empty()) {
                        proofs.insert(from, standing.links);
                    }
                    (Answer::Standing(leads_to), bytes)
                }
            };
            // One answer is for all who wait for one.
            let is_answered = |(it, _): &mut (Question, Completion)| it.is_answered_by(answer);
            let answered = asked[place].extract_if(.., is_answered);
            let answered: Vec<_> = answered.collect();
            // A caller that has its answer may ask again at once.
            inbox.release(0, answered.len());
            answered.into_iter().for_each(|(_, done)| done.complete(Ok(bytes.clone())));
        });
        Heard { arrived, early }
    }

    /// Nobody waits any longer for what these replicas say of themselves.
    fn fail_asked(&mut self, lost: ReplicaSet) {
        for replica in lost.iter() {
            let waiting = std::mem::take(&mut self.asked[usize::from(replica.0)]);
            self.inbox.release(0, waiting.len());
            let fail = |(_, done): (_, Completion)| done.complete(Err(RequestError::Unreachable));
            waiting.into_iter().for_each(fail);
        }
    }

    /// Asks replicas to which this client has a new connection, and now and then all, whether the
    /// group has changed. If their proofs lead to other replicas, goes on with these, and says so.
    fn follow(&mut self, opened: ReplicaSet, now_ms: u64) -> bool {
        let Some(follows) = &mut self.follows else { return false };
        let (from, mut asked) = (follows.number(), opened);
        if now_ms >= self.ask_at {
            self.ask_at = now_ms + ASK_MS;
            asked = (0..self.asked.len() as u16).map(ReplicaId).collect();
        }
        if now_ms >= self.judge_at && !self.proofs.is_empty() {
            self.judge_at = now_ms + JUDGE_MS;
            for (_, links) in std::mem::take(&mut self.proofs) {
                match follows.follow(&links, self.desk.waiting.lowest()) {
                    Some(next) if self.links.lead_to(&next.membership, &next.addresses) => {
                        let number = next.membership.number();
                        info!(
                            configuration = number,
                            "the group has changed, and its members stay"
                        );
                        self.convincing.begin(next.membership.clone());
                        self.inbox.follow(next.membership);
                        // Replies so far count only in the configuration that has ended.
                        self.desk.begin(next.core, next.signer);
                    }
                    Some(next) => {
                        self.go_on_with(next);
                        return true;
                    }
                    None => {}
                }
            }
            // The replicas' proofs may begin behind the configuration that this client knows, or
            // the client cannot find the next members yet.
            let number = follows.number();
            self.begun.ahead(number).for_each(|replica| _ = asked.insert(replica));
            let ahead = self.begun.ahead(number).count();
            self.strays = if number == from && ahead > 0 { self.strays + 1 } else { 0 };
            // So few may all be lying.
            let is_doubtful = ahead <= follows.membership().f;
            let doublings_max = if is_doubtful { DOUBTS_MAX } else { STRAYS_MAX };
            self.judge_at = now_ms + (JUDGE_MS << self.strays.min(doublings_max));
        }
        for replica in asked.iter() {
            self.links.send(replica, &ToReplica::Standing { from: follows.number() });
        }
        false
    }

    /// Asks the next group for all that is outstanding, under the numbers that it has: by these,
    /// the replicas know what they have executed already.
    fn go_on_with(&mut self, next: NextGroup) {
        let NextGroup { membership, addresses, signer, core } = next;
        match links_to(&membership, addresses, &self.identity, self.me) {
            Ok(links) => self.links = links,
            Err(error) => return error!(%error, "cannot follow the group"),
        }
        info!(members = membership.n(), epoch = %membership.epoch, "the group has changed");
        let nobody = || (0..membership.n()).map(|_| Vec::new()).collect();
        for (_, done) in std::mem::replace(&mut self.asked, nobody()).into_iter().flatten() {
            self.inbox.release(0, 1);
            done.complete(Err(RequestError::Unreachable));
        }
        self.tried = ReplicaSet::EMPTY;
        self.epochs = vec![(Epoch(0), 0); membership.n()];
        self.begun = Begun::new(membership.n());
        self.inbox.follow(membership.clone());
        self.convincing = Convincing::new(membership);
        self.fetching = Fetching::default();
        self.proofs.clear();
        self.desk.begin(core, signer);
    }

    /// The replicas serve another host of this key. Whatever this one sent it never sends again,
    /// and it asks for nothing new: two that took turns would both be of no use.
    fn on_overtaken(&mut self) {
        error!(
            "another process uses this client's key, or this host's clock is behind that of the \
             last process that used it: the replicas serve that process, and this client sends no \
             more requests; give each process a key of its own, or set the clock right, and start \
             this process again"
        );
        self.inbox.overtaken();
        self.links.close();
        let held_back = self.held_back.drain(..).map(|(command, _)| command);
        let unanswered = self.asked.iter_mut().flat_map(std::mem::take);
        let (mut operations, mut questions) = (std::mem::take(&mut self.desk.completed), 0);
        for done in self.desk.waiting.take_all() {
            operations += 1;
            done.complete(Err(RequestError::Overtaken));
        }
        for command in held_back {
            operations += 1;
            command.fail(RequestError::Overtaken);
        }
        for (_, done) in unanswered {
            questions += 1;
            done.complete(Err(RequestError::Overtaken));
        }
        self.inbox.release(operations, questions);
    }

    /// Ends a client that was overtaken: it refuses the requests that came in between.
    fn idle(&mut self) -> std::io::Result<bool> {
        self.commands.clear();
        let goes_on = self.inbox.take(&mut self.commands);
        for command in self.commands.drain(..) {
            let (operations, questions) = command.counts();
            command.fail(RequestError::Overtaken);
            self.inbox.release(operations, questions);
        }
        if goes_on && self.inbox.may_sleep() {
            for _ in self.poller.wait(Duration::from_millis(SLEEP_MS))? {}
        }
        Ok(goes_on)
    }

    /// Gives up what takes too long.
    fn on_time(&mut self, now_ms: u64) {
        if self.held_until <= now_ms {
            let is_over = |until: &Option<u64>| until.is_some_and(|until| until <= now_ms);
            let (over, rest): (Vec<_>, Vec<_>) =
                self.held_back.drain(..).partition(|(_, until)| is_over(until));
            self.held_back = rest.into();
            let left = self.held_back.iter().filter_map(|(_, until)| *until).min();
            self.held_until = left.unwrap_or(u64::MAX);
            self.desk.completed += over.len();
            over.into_iter().for_each(|(command, _)| command.fail(RequestError::GivenUp));
        }
        for number in self.desk.waiting.start_giving_up(now_ms) {
            self.desk.step(Event::GiveUp { number });
        }
        for done in self.desk.waiting.take_expired(now_ms) {
            self.desk.completed += 1;
            done.complete(Err(RequestError::TimedOut));
        }
    }

    /// Learns whether another host has taken this one's place, if connections were closed and
    /// nothing is under way that would tell: by an ordered request that does nothing.
    fn probe(&mut self, now_ms: u64) {
        if self.doubts && now_ms >= self.probe_at && self.desk.waiting.is_empty() {
            self.doubts = false;
            if now_ms >= self.probe_at + PROBE_REST_MS {
                self.probes.reset();
            }
            self.probe_at = now_ms + self.probes.delay_ms();
            let number = self.desk.waiting.give(None, None);
            let operation = Bytes::from_static(FENCE);
            self.desk.ask(number, Event::Submit { number, operation });
        }
    }

    /// Whether operations may be sent; see [`CONNECT_MS`].
    const fn is_ready(&self, now_ms: u64) -> bool {
        self.tried.len() == self.asked.len() || now_ms >= CONNECT_MS
    }

    fn timeout(&mut self) -> Duration {
        let now_ms = self.clock.elapsed_ms();
        let is_held_back = !self.held_back.is_empty() && self.desk.may_send();
        let can_submit = is_held_back && self.is_ready(now_ms);
        if can_submit || self.links.is_readable() || !self.inbox.may_sleep() {
            return Duration::ZERO;
        }
        let due_ms = self.links.next_ms().map(|at| at.saturating_sub(now_ms));
        let wake_ms = self.desk.wake_at.map(|at| at.0.saturating_sub(now_ms));
        let ready_ms = is_held_back.then_some(CONNECT_MS.saturating_sub(now_ms));
        let held = (!self.held_back.is_empty()).then_some(self.held_until);
        let probe = (self.doubts && self.desk.waiting.is_empty()).then_some(self.probe_at);
        let judge = (!self.proofs.is_empty()).then_some(self.judge_at);
        let over = [held, self.desk.waiting.next_ms(), probe, judge].into_iter().flatten().min();
        let over_ms = over.map(|at| at.saturating_sub(now_ms));
        let wait_ms = [due_ms, wake_ms, ready_ms, over_ms].into_iter().flatten().min();
        Duration::from_millis(wait_ms.unwrap_or(SLEEP_MS).min(SLEEP_MS))
    }

    /// Gives numbers to what was submitted, as far as the window allows, and asks replicas.
    fn on_commands(&mut self, opened: ReplicaSet, now_ms: u64) {
        for replica in opened.iter() {
            let asked = self.asked[usize::from(replica.0)].iter();
            for message in asked.filter_map(|(question, _)| question.message()) {
                self.links.send(replica, &message);
            }
        }
        for command in self.commands.drain(..) {
            match command {
                Command::Ask(replica, question, done) => {
                    let Some(waiting) = self.asked.get_mut(usize::from(replica.0)) else {
                        done.complete(Err(RequestError::Unreachable));
                        self.inbox.release(0, 1);
                        continue;
                    };
                    let is_under_way = waiting.iter().any(|(it, _)| *it == question);
                    let message = question.message().filter(|_| !is_under_way);
                    if message.is_some_and(|message| !self.links.send(replica, &message)) {
                        done.complete(Err(RequestError::Full));
                        self.inbox.release(0, 1);
                        continue;
                    }
                    waiting.push((question, done));
                    let is_one = |(it, _): &(Question, _)| matches!(it, Question::Standing(_));
                    if waiting.iter().filter(|it| is_one(it)).count() > STANDINGS_MAX
                        && let Some(first) = waiting.iter().position(is_one)
                    {
                        waiting.remove(first).1.complete(Err(RequestError::TimedOut));
                        self.inbox.release(0, 1);
                    }
                }
                Command::Fetch(replica, question, completions) => {
                    // The caller asks again if the link loses the question.
                    self.links.send(replica, &ToReplica::State(question));
                    self.fetching.asked(replica, completions);
                }
                Command::Cancel(id) => {
                    if let Some(done) = take_held_back(&mut self.held_back, id) {
                        self.desk.completed += 1;
                        done.complete(Err(RequestError::Cancelled));
                    } else {
                        self.desk.cancel(id);
                    }
                }
                operation => {
                    let limit_ms = operation.limit().map(|limit| limit.as_millis() as u64);
                    // By a clock read after the operation came, and rounded up: the client gives
                    // no operation up before its limit.
                    let came_ms = || self.clock.elapsed_ms() + 1;
                    let until = limit_ms.map(|limit_ms| came_ms().saturating_add(limit_ms));
                    self.held_until = self.held_until.min(until.unwrap_or(u64::MAX));
                    self.held_back.push_back((operation, until));
                }
            }
        }
        while self.is_ready(now_ms)
            && self.desk.may_send()
            && let Some((command, until)) = self.held_back.pop_front()
        {
            self.desk.on_command(command, until);
        }
    }
}

/// Whether a replica is in a later epoch than it said before, so that the client has to ask it
/// again: with the epoch before, the replica forgot what it was asked, or it refused that there.
fn is_later(epoch: Epoch, (known, until_ms): &mut (Epoch, u64), now_ms: u64) -> bool {
    let is_later = epoch > *known && *until_ms <= now_ms;
    if is_later {
        (*known, *until_ms) = (epoch, now_ms + JUDGE_MS);
    }
    is_later
}

/// Links to all members, none of which is dialled yet.
fn links_to(
    membership: &Membership,
    addresses: Vec<SocketAddr>,
    identity: &Identity,
    me: Node,
) -> Result<Links, ConnectError> {
    let members = membership.members.iter();
    let at = addresses.into_iter().zip(members).map(|(at, it)| (at, it.id, it.identity));
    Links::new(identity.clone(), me, 0, at)
}

/// What replicas sent in a round and the client has not given to its core.
#[derive(Default)]
struct Heard {
    /// Replicas that have come to a later epoch.
    arrived: ReplicaSet,
    /// From replicas in a configuration to which the client has not come: answers of two do not
    /// count together, and each may take another number of them.
    early: Vec<(ReplicaId, ToClient)>,
}

impl Desk {
    /// Whether the next operation may be sent. None is while it is open what comes of one that was
    /// given up: whoever was told so and looks what has become of it must not look too early.
    fn may_send(&self) -> bool {
        self.waiting.has_room() && !self.waiting.is_giving_up()
    }

    fn on_command(&mut self, command: Command, until: Option<u64>) {
        let (number, event) = match command {
            Command::Submit(operation, _, done) => {
                self.has_submitted = true;
                let number = self.waiting.give(Some(done), until);
                (number, Event::Submit { number, operation })
            }
            Command::Query(operation, done) => {
                let number = self.waiting.give(Some(done), until);
                (number, Event::Query { number, operation })
            }
            Command::Judged { operation, fast, tally, id, done } => {
                if !self.core.hands_on() {
                    return self.on_unjudged(operation, fast, (id, tally.is_plain()), done);
                }
                self.has_submitted |= !fast;
                let number = self.waiting.give(Some(done), until);
                self.judged.begin(number, id, Some(tally));
                (number, Event::SubmitJudged { number, operation, fast })
            }
            Command::Cancel(_) => return,
            Command::Ask(_, _, done) => return done.complete(Err(RequestError::Refused)),
            Command::Fetch(..) => return,
        };
        self.ask(number, event);
    }

    /// Asks the core for the outcome of a number.
    fn ask(&mut self, number: u64, event: Event) {
        if self.notes {
            self.waiting.note(number, event.clone());
        }
        self.step(event);
    }

    /// Goes on with another core, which is asked all that is outstanding.
    fn begin(&mut self, core: Box<dyn ClientCore>, signer: ClientSigner) {
        (self.core, self.signer, self.wake_at) = (core, signer, None);
        self.outgoing.clear();
        self.judged.begin_again();
        if self.on_event.is_some() {
            self.step(Event::Listen);
        }
        let number = |event: &Event| match event {
            Event::Submit { number, .. }
            | Event::Query { number, .. }
            | Event::SubmitJudged { number, .. } => Some(*number),
            _ => None,
        };
        let asked = self.waiting.asked();
        if let Some(last) = asked.iter().filter_map(|(event, _)| number(event)).max() {
            self.step(Event::Resumed { below: last + 1 });
        }
        for (event, is_given_up) in asked {
            let Some(number) = number(&event) else { continue };
            self.step(event);
            if is_given_up {
                self.step(Event::GiveUp { number });
            }
        }
    }

    /// Only the protocol's client can judge replies: it does, if that is by equal bytes.
    fn on_unjudged(
        &mut self,
        operation: Bytes,
        fast: bool,
        (id, is_plain): (u64, bool),
        done: Completion,
    ) {
        if !is_plain {
            self.completed += 1;
            return done.complete(Err(RequestError::JudgedByProtocol));
        }
        self.has_submitted |= !fast;
        let number = self.waiting.give(Some(done), None);
        self.judged.begin(number, id, None);
        self.ask(
            number,
            match fast {
                true => Event::Query { number, operation },
                false => Event::Submit { number, operation },
            },
        );
    }

    /// Nobody waits any longer for a judged operation. If the protocol's client judges it, that has
    /// replicas settle it as soon as they can.
    fn cancel(&mut self, id: u64) {
        let Some(number) = self.judged.find(id) else { return };
        if self.core.hands_on() {
            return self.end_judged(number, Err(RequestError::Cancelled));
        }
        self.judged.end(number);
        if let Some(done) = self.waiting.dismiss(number) {
            self.completed += 1;
            done.complete(Err(RequestError::Cancelled));
        }
        self.step(Event::GiveUp { number });
    }

    /// No more replies to a judged operation are needed.
    fn end_judged(&mut self, number: u64, outcome: Result<Bytes, RequestError>) {
        self.judged.end(number);
        self.step(Event::Settled { number });
        self.overtaken |= outcome == Err(RequestError::Overtaken);
        if let Some(done) = self.waiting.settle(number) {
            self.completed += 1;
            done.complete(outcome);
        }
    }

    /// One event, and its effects.
    fn step(&mut self, event: Event) {
        self.core.step(event, &mut self.effects);
        let (mut judged, mut unheard) = (Vec::new(), Vec::new());
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Request { to, draft } => {
                    let envelope = Arc::new(self.signer.seal(draft));
                    self.outgoing.push((to, ToReplica::Request(envelope)));
                }
                Effect::Query { to, number, operation } => {
                    self.outgoing.push((to, ToReplica::Query { number, operation }));
                }
                Effect::Completed { number, outcome } => {
                    self.overtaken |= outcome == Outcome::Overtaken;
                    self.judged.end(number);
                    let Some(done) = self.waiting.settle(number) else { continue };
                    self.completed += 1;
                    done.complete(result(outcome));
                }
                Effect::Told { number, from, outcome, ordered, needed } => {
                    let told = self.judged.told(number, from, outcome, (ordered, needed));
                    judged.extend(told.map(|outcome| (number, outcome)));
                    unheard.extend(self.judged.make_room(from).map(|number| (number, from)));
                }
                Effect::Protocol { to, message } => {
                    self.outgoing.push((to, ToReplica::Protocol(message)));
                }
                Effect::Resume { to, from } => {
                    self.outgoing.push((to, ToReplica::Resume { from }));
                }
                Effect::Event { number, body } if number > self.told => {
                    self.told = number;
                    if let Some(on_event) = &mut self.on_event {
                        on_event(ClientEvent::Event(body));
                    }
                }
                Effect::EventsLost { upto } if upto > self.told + 1 => {
                    self.told = upto - 1;
                    if let Some(on_event) = &mut self.on_event {
                        on_event(ClientEvent::Lost);
                    }
                }
                Effect::Event { .. } | Effect::EventsLost { .. } => {}
                Effect::WakeAt(at) => {
                    self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
                }
            }
        }
        judged.into_iter().for_each(|(number, outcome)| self.end_judged(number, outcome));
        for (number, from) in unheard {
            self.step(Event::Unheard { number, from });
        }
    }
}

struct EndGuard(Arc<Inbox>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_asked_again_once_for_each_epoch_and_not_too_often() {
        let mut known = (Epoch(0), 0);
        let mut hear = |epoch, now_ms| is_later(Epoch(epoch), &mut known, now_ms);
        assert!(!hear(0, 10) && hear(1, 10) && !hear(1, 500));
        assert!(hear(2, 500) && !hear(3, 500 + JUDGE_MS - 1) && hear(3, 500 + JUDGE_MS));
    }
}
