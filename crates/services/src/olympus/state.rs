//! What Olympus remembers, and what the agreed time does to it.

use super::answer::{Accusation, Notice, Stage, Status};
use super::choice::Key;
use super::link::{Link, Links, Proposal};
use super::pool::Pool;
use super::reports::Reported;
use super::terms::{HALVE_MILLIS, PAUSE_MILLIS, PAUSE_MILLIS_MAX, Terms};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::service::Event;
use pentarchy_core::wire::Wire as _;

/// See the [module](self).
pub struct State {
    pub terms: Terms,
    /// The epoch that was begun last. It states its configuration.
    pub membership: Membership,
    /// The batches behind its base with which it began.
    pub inherits: Vec<Digest>,
    /// Agreed time.
    pub clock: Millis,
    /// When scores were halved last.
    pub halved: Millis,
    /// When the last wedge began, if there was one.
    pub wedged: Option<Millis>,
    /// How many configurations in a row certified nothing of their own.
    pub fruitless: u32,
    /// Until then the tail may read.
    pub lease: Millis,
    /// Candidates beside the members that administrators want.
    pub spares: u16,
    /// What each administrator asked for last, by digest, until enough ask for the same.
    pub votes: BTreeMap<ClientId, Digest>,
    pub pool: Pool,
    /// Members that lost what they ordered in this epoch.
    pub failed: ReplicaSet,
    /// Members that are known to have signed contradictions in this epoch.
    pub convicted: ReplicaSet,
    /// Why the epoch is being ended.
    pub accusation: Option<Accusation>,
    pub phase: Phase,
    /// What members had ordered when they stopped.
    pub reports: BTreeMap<ReplicaId, Reported>,
    pub links: Links,
    /// Sections that may have changed, beside the one that always does.
    pub changed: BTreeSet<u32>,
    pub events: Vec<Event>,
}

/// Where it is with the epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    Active,
    /// It ends at this time.
    Accused(Millis),
    Wedging(Box<Wedge>),
}

/// The end of an epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wedge {
    /// When it began.
    pub since: Millis,
    /// Whether members that did not report were blamed for it.
    pub has_blamed: bool,
    /// The number of the next attempt.
    pub attempt: u32,
    /// How often each choice failed, of those that did.
    pub failures: BTreeMap<Key, u32>,
    pub preparing: Option<Preparing>,
}

/// An attempt under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preparing {
    pub proposal: Proposal,
    /// The choice that is proposed.
    pub choice: Key,
    /// When it is given up.
    pub deadline: Millis,
    /// Which of the proposed members hold it all.
    pub holds: ReplicaSet,
    /// Which of them cannot get a batch, and the first such.
    pub lacks: BTreeMap<ReplicaId, Slot>,
}

impl State {
    pub fn new(membership: Membership, configuration: &Configuration, terms: Terms) -> Self {
        Self {
            terms,
            pool: Pool::of(&membership, configuration),
            membership,
            inherits: Vec::new(),
            clock: Millis(0),
            halved: Millis(0),
            wedged: None,
            fruitless: 0,
            lease: Millis(0),
            spares: 0,
            votes: BTreeMap::new(),
            failed: ReplicaSet::EMPTY,
            convicted: ReplicaSet::EMPTY,
            accusation: None,
            phase: Phase::Active,
            reports: BTreeMap::new(),
            links: Links::default(),
            changed: BTreeSet::new(),
            events: Vec::new(),
        }
    }

    pub fn configuration(&self) -> Arc<Configuration> {
        self.membership.stated.clone().expect("Olympus serves a group that states itself")
    }

    pub fn n(&self) -> usize {
        self.membership.n()
    }

    /// The last slot before those that the epoch orders.
    pub fn began_at(&self) -> Slot {
        Slot(self.membership.base.slot.0 + self.inherits.len() as u64)
    }

    /// Who a replica of this epoch is in all of them.
    pub fn member_at(&self, index: ReplicaId) -> Option<MemberId> {
        self.membership.members.get(usize::from(index.0)).map(|member| member.id)
    }

    pub fn wedge(&self) -> Option<&Wedge> {
        match &self.phase {
            Phase::Wedging(wedge) => Some(wedge),
            _ => None,
        }
    }

    pub fn wedge_mut(&mut self) -> Option<&mut Wedge> {
        match &mut self.phase {
            Phase::Wedging(wedge) => Some(wedge),
            _ => None,
        }
    }

    pub fn preparing_mut(&mut self) -> Option<&mut Preparing> {
        self.wedge_mut()?.preparing.as_mut()
    }

    /// Agreed time is so far now.
    pub fn advance(&mut self, now: Millis) {
        self.clock = self.clock.max(now);
        let halvings = (self.clock.0 - self.halved.0) / HALVE_MILLIS;
        if halvings > 0 {
            let times = u32::try_from(halvings).unwrap_or(u32::MAX);
            self.pool.halve(times);
            self.fruitless = self.fruitless.checked_shr(times).unwrap_or(0);
            self.halved.0 += halvings * HALVE_MILLIS;
        }
        if matches!(self.phase, Phase::Accused(due) if due <= self.clock) {
            self.begin_wedge();
        }
    }

    /// Has the epoch ended, as soon as wedges may follow each other so fast. Not if it is being
    /// ended already.
    pub fn end(&mut self, accusation: Accusation) {
        if self.phase != Phase::Active {
            return;
        }
        let pause = PAUSE_MILLIS.checked_shl(self.fruitless.min(32)).unwrap_or(PAUSE_MILLIS_MAX);
        let pause = pause.min(PAUSE_MILLIS_MAX);
        let due = self.wedged.map_or(self.clock, |before| Millis(before.0.saturating_add(pause)));
        self.accusation = Some(accusation);
        self.phase = Phase::Accused(due);
    }

    fn begin_wedge(&mut self) {
        self.wedged = Some(self.clock);
        self.phase = Phase::Wedging(Box::new(Wedge {
            since: self.clock,
            has_blamed: false,
            attempt: 0,
            failures: BTreeMap::new(),
            preparing: None,
        }));
        let members: Vec<_> = self.membership.members.iter().map(|it| it.identity).collect();
        self.tell(&members, &Notice::Wedge(self.membership.epoch));
    }

    /// Tells these members something.
    pub fn tell(&mut self, identities: &[[u8; 32]], notice: &Notice) {
        let body = notice.to_bytes();
        let event = |identity: &[u8; 32]| Event { client: ClientId(*identity), body: body.clone() };
        self.events.extend(identities.iter().map(event));
    }

    /// What is going on, for who is in this epoch.
    pub fn status(&self, epoch: Epoch) -> Status {
        let stage = match &self.phase {
            Phase::Active => Stage::Active,
            Phase::Accused(due) => Stage::Accused(*due),
            Phase::Wedging(wedge) => {
                let reported = self.reports.keys().copied().collect();
                Stage::Wedging { since: wedge.since, reported }
            }
        };
        let preparing = self.wedge().and_then(|wedge| wedge.preparing.as_ref());
        Status {
            time: self.clock,
            epoch: self.membership.epoch,
            stage,
            accusation: self.accusation.clone(),
            proposal: preparing.map(|it| it.proposal.clone()),
            link: self.last_link().filter(|_| epoch < self.membership.epoch).cloned(),
            pool: self.pool.standings(),
            spares: self.spares,
        }
    }

    /// How the epoch began; none of the first one.
    fn last_link(&self) -> Option<&Link> {
        self.links.of(Epoch(self.membership.epoch.0.checked_sub(1)?))
    }
}
