//! Administrators, who change the group's configuration while it runs.

use super::{Address, Happening, World};
use crate::administration::{ADMINISTRATORS, add, ask, ordered_by, renew_secret};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::swarm::AS_IT_SHOULD_BE;
use crate::time::Micros;
use pentarchy_core::change::{Change, Petition, Withdrawal};
use pentarchy_core::configuration::{Access, Configuration, MemberEntry};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::Rules;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire as _;
use std::sync::Arc;

pub(super) use crate::administration::{administrators, stated};

/// Between two times that an administrator sends a request.
const AGAIN: Micros = 400_000;

/// How often it does.
const TIMES: u32 = 12;

/// What an administrator wants.
pub(super) struct Wish {
    envelope: Arc<Envelope>,
    left: u32,
}

impl World<'_> {
    /// Administrators want all members to have new keys.
    pub(super) fn refresh(&mut self, way: u64) {
        self.change(way, |_| {});
    }

    /// Administrators want another machine in the place of a member: most often of one that is gone
    /// for good, if there is one. All members may have other places then.
    pub(super) fn replace(&mut self, way: u64) {
        let mut rng = Rng::new(way.rotate_left(17));
        let machines = self.options.machines().count();
        let is_gone: Vec<bool> = self.replicas.iter().map(|it| it.crashed && !it.returns).collect();
        let mut joins = None;
        self.change(way, |next| {
            if next.next_member.0 as usize >= machines {
                return;
            }
            let gone = |it: &MemberEntry| is_gone.get(it.id.0 as usize).copied() == Some(true);
            let gone = next.members.iter().position(gone).filter(|_| rng.percent(70));
            let leaver = gone.unwrap_or(rng.below(next.members.len() as u64) as usize);
            next.members.remove(leaver);
            let at = match rng.percent(40) {
                true => leaver,
                false => rng.below(next.members.len() as u64 + 1) as usize,
            };
            joins = Some(add(next, at));
        });
        if let Some(place) = joins {
            self.invite(place, &mut rng);
        }
    }

    /// A machine is to join, and does unless it is one that never comes.
    fn invite(&mut self, place: usize, rng: &mut Rng) {
        if !rng.chance(self.options.joins_badly_ppm / 2) {
            self.schedule(self.now + rng.below(400_000), Happening::Join(place));
        }
    }

    /// Administrators want the group to grow by a machine, perhaps so that it tolerates one fault
    /// more, or to shrink by a member, or a member elsewhere, or another number of them to agree.
    pub(super) fn reshape(&mut self, way: u64) {
        let mut rng = Rng::new(way.rotate_left(23) ^ self.seed);
        let machines = self.options.machines().count();
        let mut joins = None;
        self.change(way, |next| {
            let has_machine = (next.next_member.0 as usize) < machines;
            let mut altered = next.clone();
            match rng.below(6) {
                0..3 if has_machine => {
                    let at = rng.below(next.members.len() as u64 + 1) as usize;
                    joins = Some(add(&mut altered, at));
                }
                3..5 => _ = altered.members.remove(rng.below(next.members.len() as u64) as usize),
                _ => {
                    let at = rng.below(next.members.len() as u64) as usize;
                    altered.members[at].address.push('0');
                    altered.administrators.threshold = rng.range(1, ADMINISTRATORS as u64) as u8;
                }
            }
            let more = Configuration { f: altered.f + 1, ..altered.clone() };
            if more.check().is_ok() && rng.percent(70) {
                altered = more;
            }
            if altered.check().is_ok() {
                *next = altered;
            }
        });
        if let Some(place) = joins {
            self.invite(place, &mut rng);
        }
    }

    /// Administrators want another of the protocols that this group could have.
    pub(super) fn switch(&mut self, way: u64) {
        let mut rng = Rng::new(way.rotate_left(29) ^ self.seed ^ self.now);
        let all = self.factories.all().map(|it| it.rules);
        // Administrators know whether they have to trust all members not to lie.
        let lies = !self.options.byzantine.is_empty();
        let all: Vec<Rules> = all.filter(|it| it.fault_model.lies() || !lies).collect();
        self.change(way, |next| {
            let others = all.iter().filter(|rules| rules.name != next.protocol);
            let others = others.map(|rules| ordered_by(next, rules));
            let others: Vec<_> = others.filter(|it| it.check().is_ok()).collect();
            if !others.is_empty() {
                *next = rng.pick(&others).clone();
            }
        });
    }

    /// Administrators want another configuration. Now and then too few of them do, or they think
    /// better of it, or give it so little time that it may expire.
    fn change(&mut self, way: u64, alter: impl FnOnce(&mut Configuration)) {
        let mut rng = Rng::new(way);
        let newest = self.correct().max_by_key(|(_, replica)| replica.node.epoch());
        let Some((_, replica)) = newest else { return };
        let executor = replica.node.executor();
        let (membership, attempt) = (replica.node.membership(), executor.withdrawn_changes());
        let Some(current) = membership.stated.clone() else { return };
        let mut next = (*current).clone();
        next.number += 1;
        alter(&mut next);
        self.alter_access(&mut next, &mut Rng::new(way.rotate_left(41) ^ self.seed));
        let secret = Digest::of(&rng.next_u64().wrapping_add(next.number).to_le_bytes());
        let goes_wrong = |rng: &mut Rng, percent| way != AS_IT_SHOULD_BE && rng.percent(percent);
        // An administrator who forgets to make one.
        if !goes_wrong(&mut rng, 15) {
            renew_secret(&mut next, secret);
        }
        let lasts = if goes_wrong(&mut rng, 25) { rng.range(1, 3_000) } else { 15_000 };
        // Agreed time may be far behind the clocks, as in a group that nobody asks for anything.
        let now = executor.time().0.max(replica.clock.read(self.now).0);
        let ids = next.members.iter().map(|member| member.id);
        let needed = if goes_wrong(&mut rng, 30) { ids.collect() } else { Vec::new() };
        let expects = current.digest();
        let change = Change { expects, attempt, expires: Millis(now + lasts), next, needed };
        let proposes = if goes_wrong(&mut rng, 15) { 1 } else { rng.range(2, 3) as usize };
        let first = rng.below(ADMINISTRATORS as u64) as usize;
        let petition = Petition::Propose(Arc::new(change));
        for step in 0..proposes {
            self.wish((first + step) % ADMINISTRATORS, &petition, rng.below(50_000));
        }
        if goes_wrong(&mut rng, 20) {
            let withdrawal = Petition::Withdraw(Withdrawal { expects, attempt });
            for who in 0..2 {
                self.wish(who, &withdrawal, rng.below(2_000_000));
            }
        }
    }

    /// By most changes, administrators let in some of the hostile clients only, if there are any,
    /// or again anyone.
    fn alter_access(&self, next: &mut Configuration, rng: &mut Rng) {
        let (correct, others) = self.ids.split_at(self.options.clients);
        let hostile = &others[..self.options.hostile.len()];
        if hostile.is_empty() || rng.percent(30) {
            return;
        }
        let let_in = hostile.iter().filter(|_| rng.percent(30)).copied();
        let listed = Access::only(correct.iter().copied().chain(let_in));
        next.access = if rng.percent(80) { listed } else { Access::Open };
    }

    fn wish(&mut self, who: usize, petition: &Petition, after: Micros) {
        let client = administrators(self.seed)[who];
        let envelope = self.petition(client, self.wishes.len() as u64 + 1, petition);
        self.wishes.push(Wish { envelope, left: TIMES });
        self.schedule(self.now + after, Happening::Administer(self.wishes.len() - 1));
    }

    /// A request to the group itself, of which the checkers learn.
    pub(super) fn petition(
        &mut self,
        client: ClientId,
        number: u64,
        petition: &Petition,
    ) -> Arc<Envelope> {
        let operation = petition.to_bytes();
        self.oracle.asked(client, number, &operation);
        ask(&self.crypto, client, number, operation)
    }

    /// A client sends its request to all replicas.
    pub(super) fn ask_all(&mut self, envelope: Arc<Envelope>) {
        let from = self.ids.iter().position(|id| *id == envelope.client);
        let from = Address::Client(from.expect("a client of this world") as u16);
        let bytes = ToReplica::Request(envelope).to_bytes();
        for replica in 0..self.replicas.len() as u16 {
            let to = Address::Replica(ReplicaId(replica));
            self.transmit(from, to, Packet::ToReplica(bytes.clone()));
        }
    }

    /// An administrator sends its request to all replicas, some of which may not hear it.
    pub(super) fn administer(&mut self, index: usize) {
        let Wish { envelope, left } = &mut self.wishes[index];
        *left -= 1;
        let (envelope, again) = (envelope.clone(), *left > 0);
        self.ask_all(envelope);
        if again && self.now < self.options.heal_at + AGAIN * u64::from(TIMES) {
            self.schedule(self.now + AGAIN, Happening::Administer(index));
        }
    }

    /// Whether a change is pending at a correct member: it takes effect, or expires, in time.
    pub(super) fn is_changing(&self) -> bool {
        let mut members = self.correct().filter(|(_, replica)| !replica.has_left);
        members.any(|(_, replica)| replica.node.executor().pending_change().is_some())
    }
}
