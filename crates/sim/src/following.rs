//! How a client goes on when its group has changed: as production's does, which has no part here as
//! it is made of sockets and threads.

use crate::crypto::{Crypto, Keys};
use crate::factories::{ClientSetup, StartClient};
use crate::packet::{member_at, place_of};
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{Millis, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{ClientCore, Event};
use pentarchy_core::standing::{Begun, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Milliseconds between two questions to all replicas whether the group has changed.
const ASK_MS: u64 = 1_000;

/// What leads a client from one configuration to the next.
pub struct Following<'a> {
    crypto: Arc<Crypto>,
    membership: Arc<Membership>,
    start: &'a StartClient<'a>,
    setup: ClientSetup,
    /// What the core was asked and has not answered, by number.
    asked: BTreeMap<u64, Event>,
    given_up: BTreeSet<u64>,
    /// The application was told all events up to this number, or that they are lost.
    told: u64,
    ask_at: Millis,
    begun: Begun,
}

impl<'a> Following<'a> {
    /// From the group as it begins.
    pub fn new(
        crypto: Arc<Crypto>,
        membership: Arc<Membership>,
        start: &'a StartClient<'a>,
        setup: ClientSetup,
    ) -> Self {
        let (asked, given_up) = (BTreeMap::new(), BTreeSet::new());
        let begun = Begun::new(membership.n());
        let (told, ask_at) = (0, Millis(0));
        Self { crypto, membership, start, setup, asked, given_up, told, ask_at, begun }
    }

    /// A replica says how the group stands.
    pub fn heard(&mut self, from: ReplicaId, standing: &Standing) {
        self.begun.heard(from, standing);
    }

    /// Whether a replica is in a configuration to which the client has not come.
    pub fn is_ahead(&self, replica: ReplicaId) -> bool {
        self.begun.is_ahead(replica, self.number())
    }

    /// The number of the configuration.
    pub fn number(&self) -> u64 {
        self.membership.stated.as_ref().map_or(0, |stated| stated.number)
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
    /// none if they prove nothing new, or lead to the same replicas. `next` is the lowest number
    /// that the client has not given out.
    pub fn follow(&mut self, links: &[Proof], next: u64) -> Option<Box<dyn ClientCore>> {
        let mut led = self.membership.clone();
        for link in links {
            let number = led.stated.as_ref().map_or(0, |stated| stated.number);
            if link.next.as_ref().is_none_or(|next| next.number <= number) {
                continue;
            }
            let (crypto, me) = (self.crypto.clone(), ReplicaId(0));
            if !link.is_valid(&led, &Keys { crypto, me, membership: led.clone() }) {
                break;
            }
            led = Arc::new(link.successor(&led));
        }
        let ids = |it: &Membership| it.members.iter().map(|member| member.id).collect::<Vec<_>>();
        let are_others = ids(&led) != ids(&self.membership);
        self.membership = led;
        are_others.then(|| {
            self.begun = Begun::new(self.membership.n());
            let lowest = self.asked.keys().next().copied();
            let start_floor = lowest.unwrap_or(next);
            let (n, f) = (self.membership.n(), self.membership.f);
            (self.start)(ClientSetup { n, f, start_floor, ..self.setup })
        })
    }
}
