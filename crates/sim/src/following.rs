//! How a client goes on when its group has changed: as production's does, which has no part here as
//! it is made of sockets and threads.

use crate::crypto::{Crypto, Keys};
use crate::factories::{ClientSetup, Factories};
use crate::packet::{member_at, place_of};
use pentarchy_core::Bytes;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{ClientCore, Event};
use pentarchy_core::standing::is_behind;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Milliseconds between two questions to all replicas whether the group has changed.
const ASK_MS: u64 = 1_000;

/// What leads a client from one configuration to the next.
pub struct Following<'a> {
    crypto: Arc<Crypto>,
    membership: Arc<Membership>,
    factories: Factories<'a>,
    setup: ClientSetup,
    /// What the core was asked and has not answered, by number.
    asked: BTreeMap<u64, Event>,
    given_up: BTreeSet<u64>,
    /// The application was told all events up to this number, or that they are lost.
    told: u64,
    ask_at: Millis,
    /// How much later than it hears that the group has changed the client goes on with it.
    late_ms: u64,
    /// What replicas said meanwhile, and until when the client goes on as before.
    heard: Vec<(Option<ReplicaId>, Bytes)>,
    until: Option<Millis>,
}

impl<'a> Following<'a> {
    /// From the group as it begins.
    pub fn new(
        crypto: Arc<Crypto>,
        membership: Arc<Membership>,
        factories: Factories<'a>,
        setup: ClientSetup,
    ) -> Self {
        let (asked, given_up) = (BTreeMap::new(), BTreeSet::new());
        let (told, ask_at, late_ms, heard, until) = (0, Millis(0), 0, Vec::new(), None);
        Self {
            crypto,
            membership,
            factories,
            setup,
            asked,
            given_up,
            told,
            ask_at,
            late_ms,
            heard,
            until,
        }
    }

    /// The same, so much later.
    #[must_use]
    pub fn late(self, late_ms: u64) -> Self {
        Self { late_ms, ..self }
    }

    /// A replica says how the group stands. Whether the client acts on it later, and not now.
    pub fn defers(&mut self, from: Option<ReplicaId>, standing: &Bytes) -> bool {
        if self.late_ms > 0 {
            self.heard.push((from, standing.clone()));
        }
        self.late_ms > 0
    }

    /// What replicas said that the client deferred until now; or when the client has to ask again.
    pub fn deferred(&mut self, now: Millis) -> (Vec<(Option<ReplicaId>, Bytes)>, Option<Millis>) {
        if self.heard.is_empty() {
            return (Vec::new(), None);
        }
        let until = *self.until.get_or_insert(Millis(now.0 + self.late_ms));
        if now < until {
            return (Vec::new(), Some(until));
        }
        self.until = None;
        (std::mem::take(&mut self.heard), None)
    }

    /// Whether a configuration has begun to which the client has not come. What replicas say in it
    /// is not for this client yet.
    pub fn is_behind(&self, begun: u64) -> bool {
        is_behind(self.number(), begun)
    }

    /// The number of the configuration.
    pub fn number(&self) -> u64 {
        self.membership.number()
    }

    /// The group as it is, as far as the client was led.
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// The slot behind which the configuration began.
    pub fn base(&self) -> Slot {
        self.membership.base.slot
    }

    /// Where the replicas are.
    pub fn places(&self) -> impl Iterator<Item = ReplicaId> {
        self.membership.ids().filter_map(|id| place_of(&self.membership, id))
    }

    /// Where a replica is.
    pub fn place_of(&self, replica: ReplicaId) -> Option<ReplicaId> {
        place_of(&self.membership, replica)
    }

    /// Which replica is there; none if that is no member.
    pub fn replica_at(&self, place: ReplicaId) -> Option<ReplicaId> {
        self.membership.index_of(member_at(place))
    }

    /// The core is asked this.
    pub fn asks(&mut self, event: &Event) {
        match event {
            Event::Submit { number, .. }
            | Event::Query { number, .. }
            | Event::SubmitJudged { number, .. } => {
                self.asked.insert(*number, event.clone());
            }
            Event::GiveUp { number } => {
                self.given_up.insert(*number);
            }
            _ => {}
        }
    }

    /// A number is completed.
    pub fn completed(&mut self, number: u64) {
        self.asked.remove(&number);
        self.given_up.remove(&number);
    }

    /// What another core has to be asked.
    pub fn outstanding(&self) -> Vec<Event> {
        let last = self.asked.keys().last();
        let mut all: Vec<Event> =
            last.map(|last| Event::Resumed { below: last + 1 }).into_iter().collect();
        for (number, event) in &self.asked {
            all.push(event.clone());
            if self.given_up.contains(number) {
                all.push(Event::GiveUp { number: *number });
            }
        }
        all
    }

    /// Whether the application was not told of an event of this number.
    pub const fn is_new(&mut self, number: u64) -> bool {
        let is_new = number > self.told;
        if is_new {
            self.told = number;
        }
        is_new
    }

    /// Whether it is time to ask again; if so, when the next time is.
    pub fn is_due(&mut self, now: Millis) -> Option<Millis> {
        if now < self.ask_at {
            return None;
        }
        self.ask_at = Millis(now.0 + ASK_MS);
        Some(self.ask_at)
    }

    /// Follows proofs of how configurations ended. Gives a core for the group to which they lead;
    /// none if they prove nothing new. `next` is the lowest number that the client has not given
    /// out.
    pub fn follow(&mut self, links: &[Proof], next: u64) -> Option<Box<dyn ClientCore>> {
        let mut led = self.membership.clone();
        for link in links {
            let number = led.number();
            if link.next.as_ref().is_none_or(|next| next.number <= number) {
                continue;
            }
            let (crypto, me, membership) = (self.crypto.clone(), ReplicaId(0), led.clone());
            if !link.is_valid(&led, &Keys { crypto, me, membership, lets_anyone_in: false }) {
                break;
            }
            led = Arc::new(link.successor(&led));
        }
        let is_other = led.configuration != self.membership.configuration;
        self.membership = led;
        is_other.then(|| {
            let lowest = self.asked.keys().next().copied();
            let start_floor = lowest.unwrap_or(next);
            let (n, f) = (self.membership.n(), self.membership.f);
            (self.factories.of(&self.membership).client)(ClientSetup {
                n,
                f,
                start_floor,
                ..self.setup
            })
        })
    }
}
