//! One simulated client: the core that is under test, and an application that keeps it busy.

use crate::crypto::Crypto;
use crate::factories::{ClientSetup, Factories};
use crate::following::Following;
use crate::packet::{Address, Packet};
use crate::rng::Rng;
use crate::service::{Action, Operation};
use crate::time::Micros;
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, ToClient, ToReplica};
use pentarchy_core::standing::Standing;
use pentarchy_core::wire::Wire;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the applications do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadOptions {
    /// Registers that are used.
    pub keys: u16,
    /// Values that are written again and again; 0 if each is written once.
    pub values: u16,
    /// How many clients write; the others only read. All do if it is 0.
    pub writers: u16,
    /// Of a hundred operations, how many only read.
    pub reads_percent: u32,
    /// Of a hundred reads, how many are queries.
    pub queries_percent: u32,
    /// Of a million operations, how many are so large that they are ordered by digest.
    pub large_ppm: u32,
    /// Of a million numbers, how many are skipped.
    pub skip_ppm: u32,
    /// Of a hundred operations, how many tell a client something unasked.
    pub tells_percent: u32,
    /// Of a million of those, how many tell it more than replicas keep.
    pub floods_ppm: u32,
    /// Of a million moments at which an application thinks, at how many it gives up what waits for
    /// longest.
    pub gives_up_ppm: u32,
    /// Of a hundred operations, of how many the application judges the replies itself, where the
    /// client core lets it.
    pub judged_percent: u32,
    /// Milliseconds between the moment at which every other client hears that the group has changed
    /// and that at which it goes on with it.
    pub follow_late_ms: u64,
}

impl WorkloadOptions {
    /// Reads a register, or writes one of a few values: as a rule not the same twice in a row.
    fn recurring(&self, rng: &mut Rng, number: u64) -> Action {
        if rng.percent(self.reads_percent) {
            return Action::Get;
        }
        let value = |index: u64| Bytes::from(vec![b'A' + (index % u64::from(self.values)) as u8]);
        let new = value(number);
        match rng.percent(10) {
            true => Action::Cas { expected: value(rng.below(u64::from(self.values))), new },
            false => Action::Put(new),
        }
    }
}

/// What a client does.
pub enum ClientAct {
    /// Sends a packet.
    Send {
        /// To whom.
        to: Address,
        /// What.
        packet: Packet,
    },
    /// Wants a round at this time at the latest.
    WakeAt(Millis),
    /// The application was told.
    Completed {
        /// The number of the request.
        number: u64,
        /// When it was submitted.
        since: Micros,
        /// What came of it.
        outcome: Outcome,
    },
    /// The application was told an event.
    Heard {
        /// Its number.
        number: u64,
        /// What.
        body: Bytes,
    },
    /// The application was told that events below this number are missing.
    Missed(u64),
    /// The client has come to another configuration, and begins again with a read.
    ReadsAgain {
        /// Its number.
        number: u64,
        /// The slot behind which that configuration began.
        base: Slot,
    },
    /// It has such a read ordered there, under its number.
    OrdersAgain(u64),
}

/// Of so many replies that the application judges there is no room for one, as other replies of
/// that replica wait.
const NO_ROOM: u64 = 40;

/// What replicas told of a number whose replies the application judges, since it was ordered, or
/// as answers to a fast read.
#[derive(Default)]
struct Told {
    is_ordered: bool,
    outcomes: BTreeMap<ReplicaId, Outcome>,
    /// For whose reply there was no room once.
    unheard: BTreeSet<ReplicaId>,
}

/// A client.
pub struct ClientNode<'a> {
    id: ClientId,
    core: Box<dyn ClientCore>,
    crypto: Arc<Crypto>,
    /// All clients, whom operations tell things.
    clients: Arc<[ClientId]>,
    options: WorkloadOptions,
    rng: Rng,
    /// Chooses what is given up. Of its own, so that nothing else depends on it.
    impatience: Rng,
    next_number: u64,
    /// Operations still to be submitted.
    left: u64,
    /// Chooses what the application judges itself. Of its own, too.
    judging: Rng,
    /// What replicas told of those numbers.
    told: BTreeMap<u64, Told>,
    /// Replies for which there is no room at the moment.
    unheard: Vec<(u64, ReplicaId)>,
    /// Numbers that wait, with the time of their submission.
    outstanding: BTreeMap<u64, Micros>,
    effects: Vec<Effect>,
    /// Where the group may have other members some day.
    following: Option<Following<'a>>,
    /// Reads with which it began again in this configuration and that it has not had ordered there.
    again: BTreeSet<u64>,
}

impl<'a> ClientNode<'a> {
    /// The client with this index, which will submit `requests` operations, from number 1.
    #[must_use]
    pub fn new(
        (clients, index): (Arc<[ClientId]>, usize),
        core: Box<dyn ClientCore>,
        crypto: Arc<Crypto>,
        (mut options, requests): (WorkloadOptions, u64),
        rng: Rng,
    ) -> Self {
        if options.writers > 0 && index >= usize::from(options.writers) {
            options.reads_percent = 100;
        }
        Self {
            id: clients[index],
            core,
            crypto,
            clients,
            options,
            impatience: Rng::new(rng.clone().next_u64()),
            judging: Rng::new(rng.clone().next_u64().rotate_left(29)),
            told: BTreeMap::new(),
            unheard: Vec::new(),
            rng,
            next_number: 1,
            left: requests,
            outstanding: BTreeMap::new(),
            effects: Vec::new(),
            following: None,
            again: BTreeSet::new(),
        }
    }

    /// The client goes on with the group that follows on this one, whoever its members are.
    pub fn follow(
        &mut self,
        first: Arc<Membership>,
        (factories, setup): (Factories<'a>, ClientSetup),
        late_ms: u64,
    ) {
        let following = Following::new(self.crypto.clone(), first, factories, setup);
        self.following = Some(following.late(late_ms));
    }

    /// The number of the configuration to which it was led.
    #[must_use]
    pub fn configuration(&self) -> u64 {
        self.following.as_ref().map_or(0, Following::number)
    }

    /// The group to which it was led; none if it follows nobody.
    #[must_use]
    pub fn membership(&self) -> Option<&Arc<Membership>> {
        self.following.as_ref().map(Following::membership)
    }

    /// Who it is.
    #[must_use]
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// Operations that the application waits for.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The one that waits for longest, and since when.
    #[must_use]
    pub fn oldest(&self) -> Option<(u64, Micros)> {
        self.outstanding.iter().map(|(number, since)| (*number, *since)).min_by_key(|it| it.1)
    }

    /// Operations that are still to be submitted.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The application submits its next operation; gives it back for the history.
    pub fn submit(&mut self, now: Micros, out: &mut Vec<ClientAct>) -> Operation {
        self.left -= 1;
        if self.rng.chance(self.options.skip_ppm) {
            self.next_number += self.rng.range(1, 3);
        }
        let operation = self.next_operation();
        self.next_number += 1;
        self.outstanding.insert(operation.number, now);
        let (number, bytes) = (operation.number, operation.to_bytes());
        let query =
            operation.action == Action::Get && self.rng.percent(self.options.queries_percent);
        let judges = self.core.hands_on() && self.judging.percent(self.options.judged_percent);
        let event = match (judges, query) {
            (true, fast) => {
                self.told.insert(number, Told::default());
                Event::SubmitJudged { number, operation: bytes, fast }
            }
            (false, true) => Event::Query { number, operation: bytes },
            (false, false) => Event::Submit { number, operation: bytes },
        };
        self.step(event, out);
        operation
    }

    /// The application may give up what waits for longest; says which number that is.
    pub fn give_up(&mut self, out: &mut Vec<ClientAct>) -> Option<u64> {
        if !self.impatience.chance(self.options.gives_up_ppm) {
            return None;
        }
        let (number, _) = self.oldest().filter(|(number, _)| !self.told.contains_key(number))?;
        self.step(Event::GiveUp { number }, out);
        Some(number)
    }

    fn next_operation(&mut self) -> Operation {
        let (number, rng) = (self.next_number, &mut self.rng);
        let mut key = rng.below(u64::from(self.options.keys)) as u16;
        let value = Bytes::from([&self.id.0[..2], &number.to_le_bytes()[..3]].concat());
        if self.options.values > 0 {
            let action = self.options.recurring(rng, number);
            return Operation { number, key, action };
        }
        if rng.chance(self.options.large_ppm) {
            let large = Bytes::from(value.repeat(3_400 + rng.below(3_000) as usize));
            return Operation { number, key, action: Action::Put(large) };
        }
        if rng.percent(self.options.tells_percent) {
            let client = *rng.pick(&self.clients);
            let is_flood = rng.chance(self.options.floods_ppm);
            let (count, bytes) = if is_flood { (5, 600 << 10) } else { (rng.range(1, 3) as u8, 0) };
            return Operation { number, key, action: Action::Tell { client, count, bytes } };
        }
        let action = if rng.percent(self.options.reads_percent) {
            Action::Get
        } else {
            match rng.below(8) {
                0..=2 => Action::Put(value),
                3..=5 => Action::Append(value),
                6 => {
                    // Counters have keys of their own.
                    key += self.options.keys;
                    Action::Add(rng.range(1, 9))
                }
                _ => Action::Cas { expected: Bytes::new(), new: value },
            }
        };
        Operation { number, key, action }
    }

    /// A packet came.
    pub fn on_packet(&mut self, from: ReplicaId, packet: &Packet, out: &mut Vec<ClientAct>) {
        let Packet::ToClient(begun, bytes) = packet else { return };
        match (ToClient::from_bytes(bytes), self.replica_at(from)) {
            (Ok(ToClient::Standing(standing)), from) if self.following.is_some() => {
                self.on_standing(from, &standing, out);
            }
            (Ok(_), Some(_)) if self.following.as_ref().is_some_and(|it| it.is_behind(*begun)) => {}
            (Ok(message), Some(from)) => self.step(Event::Message { from, message }, out),
            _ => {}
        }
    }

    /// Which replica is at a place.
    fn replica_at(&self, place: ReplicaId) -> Option<ReplicaId> {
        self.following.as_ref().map_or(Some(place), |it| it.replica_at(place))
    }

    /// A replica says how the group stands. If it has other members now, the client asks these for
    /// all that is outstanding, under the same numbers.
    fn on_standing(&mut self, from: Option<ReplicaId>, bytes: &Bytes, out: &mut Vec<ClientAct>) {
        let Some(following) = &mut self.following else { return };
        let Ok(standing) = Standing::from_bytes(bytes) else { return };
        if !following.defers(from, bytes) {
            self.follow_to(from, &standing, out);
        }
    }

    /// Goes on as a replica said, if it proves that.
    fn follow_to(
        &mut self,
        from: Option<ReplicaId>,
        standing: &Standing,
        out: &mut Vec<ClientAct>,
    ) {
        let Some(following) = &mut self.following else { return };
        let Some(core) = following.follow(&standing.links, self.next_number) else {
            // The replica's proof may begin behind the configuration that this client knows.
            if let Some(from) =
                from.filter(|_| standing.begun().is_some_and(|it| following.is_behind(it)))
            {
                let ask = ToReplica::Standing { from: following.number() };
                self.send([from].into_iter().collect(), &ask, out);
            }
            return;
        };
        self.core = core;
        self.unheard.clear();
        self.again.clear();
        self.told.values_mut().for_each(|told| *told = Told::default());
        let (outstanding, replicas) = (following.outstanding(), following.places().count() as u16);
        let base = following.base();
        self.listen(out);
        for replica in (0..replicas).map(ReplicaId) {
            self.step(Event::Connected(replica), out);
        }
        for event in outstanding {
            if let Event::Query { number, .. } | Event::SubmitJudged { number, fast: true, .. } =
                event
            {
                self.again.insert(number);
                out.push(ClientAct::ReadsAgain { number, base });
            }
            self.step(event, out);
        }
    }

    /// Goes on as replicas said some time ago.
    fn follow_late(&mut self, now: Millis, out: &mut Vec<ClientAct>) {
        let Some(following) = &mut self.following else { return };
        let (heard, again) = following.deferred(now);
        out.extend(again.map(ClientAct::WakeAt));
        for (from, bytes) in heard {
            if let Ok(standing) = Standing::from_bytes(&bytes) {
                self.follow_to(from, &standing, out);
            }
        }
    }

    /// Asks all replicas whether the group has changed, if it is time to.
    fn ask_how_it_stands(&mut self, now: Millis, out: &mut Vec<ClientAct>) {
        let Some(following) = &mut self.following else { return };
        if let Some(again) = following.is_due(now) {
            let bytes = ToReplica::Standing { from: following.number() }.to_bytes();
            out.extend(following.places().map(|place| send(place, bytes.clone())));
            out.push(ClientAct::WakeAt(again));
        }
    }

    /// Sends this to these replicas.
    fn send(&self, to: ReplicaSet, message: &ToReplica, out: &mut Vec<ClientAct>) {
        let bytes = message.to_bytes();
        let place = |id| self.following.as_ref().map_or(Some(id), |it| it.place_of(id));
        out.extend(to.iter().filter_map(place).map(|place| send(place, bytes.clone())));
    }

    /// The application wants to be told events.
    pub fn listen(&mut self, out: &mut Vec<ClientAct>) {
        self.step(Event::Listen, out);
    }

    /// A channel was opened.
    pub fn on_connected(&mut self, replica: ReplicaId, out: &mut Vec<ClientAct>) {
        if let Some(replica) = self.replica_at(replica) {
            self.step(Event::Connected(replica), out);
        }
    }

    /// All that had arrived was delivered.
    pub fn on_round(&mut self, now: Millis, out: &mut Vec<ClientAct>) {
        self.follow_late(now, out);
        self.ask_how_it_stands(now, out);
        self.step(Event::Round { now }, out);
    }

    /// A replica told what came of a number that the application judges. Gives what as many as are
    /// needed agree on.
    fn judge(
        &mut self,
        number: u64,
        (from, outcome): (ReplicaId, Outcome),
        is_ordered: bool,
        needed: usize,
    ) -> Option<Outcome> {
        let told = self.told.get_mut(&number)?;
        if told.is_ordered != is_ordered {
            *told = Told { is_ordered, ..Told::default() };
        }
        if (number + u64::from(from.0)).is_multiple_of(NO_ROOM) && told.unheard.insert(from) {
            self.unheard.push((number, from));
            return None;
        }
        let again = told.outcomes.insert(from, outcome.clone());
        assert!(again.is_none(), "{} hands on what {from} told of {number} once", self.id);
        let equal = told.outcomes.values().filter(|it| **it == outcome).count();
        (equal >= needed).then_some(outcome)
    }

    /// The application was told what came of a number.
    fn complete(&mut self, number: u64, outcome: Outcome, out: &mut Vec<ClientAct>) {
        let since = self.outstanding.remove(&number);
        let since = since.unwrap_or_else(|| panic!("{} completes {number} once", self.id));
        if let Some(following) = &mut self.following {
            following.completed(number);
        }
        out.push(ClientAct::Completed { number, since, outcome });
    }

    /// Whether the application was not told of this event, by this core or by one before.
    const fn is_new(&mut self, number: u64) -> bool {
        match &mut self.following {
            Some(following) => following.is_new(number),
            None => true,
        }
    }

    fn step(&mut self, event: Event, out: &mut Vec<ClientAct>) {
        let mut effects = core::mem::take(&mut self.effects);
        let mut settled = Vec::new();
        if let Some(following) = &mut self.following {
            following.asks(&event);
        }
        self.core.step(event, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Request { to, draft } => {
                    let numbers = draft.requests.iter().map(|request| request.number);
                    let again = numbers.filter(|number| self.again.remove(number));
                    out.extend(again.map(ClientAct::OrdersAgain));
                    let envelope = match &self.following {
                        Some(following) => self.crypto.seal_in(draft, following.membership()),
                        None => self.crypto.seal(draft),
                    };
                    let envelope = Arc::new(envelope);
                    self.send(to, &ToReplica::Request(envelope), out);
                }
                Effect::Query { to, number, operation } => {
                    self.send(to, &ToReplica::Query { number, operation }, out);
                }
                Effect::Completed { number, outcome } => self.complete(number, outcome, out),
                Effect::Told { number, from, outcome, ordered, needed } => {
                    if let Some(outcome) = self.judge(number, (from, outcome), ordered, needed) {
                        self.told.remove(&number);
                        self.complete(number, outcome, out);
                        settled.push(number);
                    }
                }
                Effect::Protocol { to, message } => {
                    self.send(to, &ToReplica::Protocol(message), out);
                }
                Effect::Resume { to, from } => {
                    self.send(to, &ToReplica::Resume { from }, out);
                }
                Effect::Event { number, body } => {
                    if self.is_new(number) {
                        out.push(ClientAct::Heard { number, body });
                    }
                }
                Effect::EventsLost { upto } => {
                    if self.is_new(upto.saturating_sub(1)) {
                        out.push(ClientAct::Missed(upto));
                    }
                }
                Effect::WakeAt(time) => out.push(ClientAct::WakeAt(time)),
            }
        }
        self.effects = effects;
        settled.into_iter().for_each(|number| self.step(Event::Settled { number }, out));
        for (number, from) in core::mem::take(&mut self.unheard) {
            self.step(Event::Unheard { number, from }, out);
        }
    }
}

fn send(to: ReplicaId, bytes: Bytes) -> ClientAct {
    ClientAct::Send { to: Address::Replica(to), packet: Packet::ToReplica(bytes) }
}
