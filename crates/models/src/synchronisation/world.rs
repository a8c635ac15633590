//! All replicas of a run, everything that correct ones said, and the properties of safety.
//!
//! What a correct replica says once can reach anybody at any later time, or never: so the model
//! keeps what was said, and its adversary draws who hears it. Liars say to each whatever they like.

use super::outcome::{Outcome, Outcomes};
use super::reads::Clients;
use super::replica::Replica;
use super::rules::{Fault, Group, Mode};
use super::types::{
    BATCHES, Batch, Checkpoint, MEMBERS, Member, PHANTOM, REAL, SLOTS, Set, Slot, VIEWS, View,
    ViewChange,
};
use crate::Broken;
use fastrand::Rng;

/// Batches that a member said in a view and slot: one, if it keeps the rules.
type Said = [[[Set; MEMBERS]; SLOTS + 1]; VIEWS];

/// A run.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) group: Group,
    pub(super) liars: Set,
    /// The members that still run, without liars.
    pub(super) up: Set,
    pub(super) replicas: [Replica; MEMBERS],
    /// What correct primaries proposed in a view and slot.
    pub(super) proposals: [[Set; SLOTS + 1]; VIEWS],
    pub(super) writes: Box<Said>,
    /// Those of the writes that are signed.
    pub(super) signed: Box<Said>,
    /// The same, in the order in which they came.
    pub(super) signatures: Vec<(Slot, View, Batch)>,
    pub(super) accepts: Box<Said>,
    /// Whom a checkpoint is signed by.
    pub(super) checkpoints: [Set; SLOTS + 1],
    /// The proofs of checkpoints that somebody holds.
    pub(super) proofs: Vec<Checkpoint>,
    pub(super) changes: Vec<ViewChange>,
    /// The NEW-VIEWs of correct primaries, and of others that a correct replica accepted.
    pub(super) new_views: Vec<(View, Vec<ViewChange>)>,
    /// The batches of a slot that exist, because a primary proposed them.
    pub(super) proposed: [Set; SLOTS + 1],
    /// Whether liars sign WRITEs and checkpoints.
    pub(super) liars_sign: bool,
    /// The last slot that primaries use before the quiet end.
    used: Slot,
    /// Whether the adversary has stopped.
    pub(super) quiet: bool,
    clients: Clients,
    /// What may be decided: enough correct ACCEPTs that liars can complete the quorum.
    /// With the first view in which it may be so.
    pub(super) fate: [Option<(Batch, View)>; SLOTS + 1],
}

impl World {
    pub(super) fn draw(mut rng: Rng, mode: Mode, without: Option<&str>) -> Self {
        let group = Group::draw(&mut rng, mode, without);
        let mut liars = Set::default();
        while mode != Mode::Crash && liars.len() < group.f {
            liars.insert(rng.usize(..group.n));
        }
        let used = [1, 1, 2, SLOTS][rng.usize(..4)];
        let none = || Box::new([[[Set::default(); MEMBERS]; SLOTS + 1]; VIEWS]);
        Self {
            liars,
            up: Set::first(group.n).without(liars),
            replicas: std::array::from_fn(|me| Replica::new(me, &group)),
            proposals: [[Set::default(); SLOTS + 1]; VIEWS],
            writes: none(),
            signed: none(),
            signatures: Vec::new(),
            accepts: none(),
            checkpoints: [Set::default(); SLOTS + 1],
            proofs: vec![Checkpoint::default()],
            changes: Vec::new(),
            new_views: Vec::new(),
            proposed: [Set::default(); SLOTS + 1],
            liars_sign: rng.bool(),
            used,
            quiet: false,
            clients: Clients::default(),
            fate: [None; SLOTS + 1],
            group,
            rng,
        }
    }

    pub(super) fn primary(&self, view: View) -> Member {
        view % self.group.n
    }

    /// Whether primaries propose in the slot.
    pub(super) fn uses(&self, slot: Slot) -> bool {
        self.quiet || slot <= self.used
    }

    pub(super) fn any_of(&mut self, set: Set) -> Option<usize> {
        let nth = self.rng.usize(..set.len().max(1));
        set.iter().nth(nth)
    }

    /// A digest that a liar speaks of: often one of few, so that lies meet.
    pub(super) fn lie(&mut self, slot: Slot) -> Batch {
        match self.rng.u8(..8) {
            0 => PHANTOM,
            1 => self.rng.u8(..BATCHES as u8),
            2 | 3 => self.rng.u8(1..=2),
            _ => self.any_of(self.proposed[slot]).map_or(0, |batch| batch as Batch),
        }
    }

    /// What a liar votes for: often what the replica waits for votes for.
    pub(super) fn false_vote(&mut self, me: Member, slot: Slot) -> Batch {
        let entry = &self.replicas[me].entries[slot];
        let wanted = entry.accepts.with(1).or(entry.wrote).or(entry.candidate);
        match wanted {
            Some(batch) if self.rng.u8(..10) < 6 => batch,
            _ => self.lie(slot),
        }
    }

    /// The correct primary of its view, `me`, proposes a batch, unless it did.
    pub(super) fn propose(&mut self, me: Member, slot: Slot) {
        let batch = self.rng.u8(1..=REAL);
        let entry = &mut self.replicas[me].entries[slot];
        if entry.candidate.or(entry.wrote).is_some() {
            return;
        }
        entry.candidate = Some(batch);
        entry.bodies.insert(batch.into());
        self.proposed[slot].insert(batch.into());
        self.proposals[self.replicas[me].view][slot].insert(batch.into());
    }

    /// A replica writes, locks, accepts and decides in a slot what it can.
    pub(super) fn react(&mut self, me: Member, slot: Slot) -> Result<(), Broken> {
        if self.replicas[me].votes_in(slot, &self.group) {
            if self.group.crash() {
                self.accept_candidate(me, slot)?;
            } else {
                self.write_candidate(me, slot)?;
                self.lock_written(me, slot)?;
            }
        }
        self.decide(me, slot)
    }

    fn write_candidate(&mut self, me: Member, slot: Slot) -> Result<(), Broken> {
        let group = self.group;
        let replica = &mut self.replicas[me];
        let entry = &mut replica.entries[slot];
        let again = group.lacks(Fault::WritesTwice);
        if entry.wrote.is_some() && !again {
            return Ok(());
        }
        if !group.lacks(Fault::NoEcho)
            && let Some(batch) = entry.heard.with(group.f + 1).or(entry.accepts.with(group.quorum))
        {
            entry.candidate = Some(batch);
        }
        let Some(batch) = entry.candidate else { return Ok(()) };
        let held = entry.holds(batch) || group.lacks(Fault::WritesWithoutBody);
        if !held || entry.wrote == Some(batch) {
            return Ok(());
        }
        let signs = replica.write(slot, batch, &group);
        let (view, kept) = (replica.view, replica.entries[slot].writes.len());
        self.writes[view][slot][me].insert(batch.into());
        if signs {
            self.signed[view][slot][me].insert(batch.into());
            self.signatures.push((slot, view, batch));
        }
        if group.mode == Mode::Byzantine && kept > group.cap {
            return broken("bounded tables", format!("{me} keeps {kept} writes of slot {slot}"));
        }
        Ok(())
    }

    fn lock_written(&mut self, me: Member, slot: Slot) -> Result<(), Broken> {
        let group = self.group;
        let replica = &mut self.replicas[me];
        let entry = &replica.entries[slot];
        let Some(batch) = entry.heard.with(group.quorum) else { return Ok(()) };
        let held = entry.holds(batch) || group.lacks(Fault::WritesWithoutBody);
        // Who signs its WRITEs because of the base makes a lock of signed WRITEs only.
        let signs = group.lacks(Fault::SignsByBase) && entry.signed.has(me);
        let proved = !signs || entry.heard.of(batch).and(entry.signed).len() >= group.quorum;
        if !held || !proved || self.accepted(me, slot) {
            return Ok(());
        }
        self.replicas[me].lock(slot, batch, &group);
        self.say_accept(me, slot, batch)
    }

    /// Whether the replica accepted in its view.
    fn accepted(&self, me: Member, slot: Slot) -> bool {
        let replica = &self.replicas[me];
        let accepts = &replica.entries[slot].accepts;
        (0..BATCHES as Batch).any(|batch| accepts.of(batch).has(me))
    }

    fn accept_candidate(&mut self, me: Member, slot: Slot) -> Result<(), Broken> {
        let group = self.group;
        if self.accepted(me, slot) {
            return Ok(());
        }
        let entry = &self.replicas[me].entries[slot];
        let Some(batch) = entry.candidate.or(entry.accepts.with(1)) else { return Ok(()) };
        if !entry.holds(batch) && !group.lacks(Fault::WritesWithoutBody) {
            return Ok(());
        }
        self.replicas[me].lock(slot, batch, &group);
        self.say_accept(me, slot, batch)
    }

    fn say_accept(&mut self, me: Member, slot: Slot, batch: Batch) -> Result<(), Broken> {
        let view = self.replicas[me].view;
        self.accepts[view][slot][me].insert(batch.into());
        let said = &self.accepts[view][slot];
        let so = (0..self.group.n).filter(|it| said[*it].has(batch.into())).count();
        if so + self.liars.len() < self.group.quorum {
            return Ok(());
        }
        self.fix(slot, batch, view)
    }

    fn decide(&mut self, me: Member, slot: Slot) -> Result<(), Broken> {
        let group = self.group;
        let entry = &mut self.replicas[me].entries[slot];
        let enough = group.quorum - usize::from(group.lacks(Fault::DecidesBelowQuorum));
        let tellers = if group.crash() { 1 } else { group.f + 1 };
        let told = entry.told.with(tellers).filter(|_| !group.lacks(Fault::DecidedNotTold));
        let accepted = entry.accepts.with(enough);
        let Some(batch) = accepted.or(told) else { return Ok(()) };
        if entry.decided.is_some() || !entry.holds(batch) {
            return Ok(());
        }
        entry.decided = Some(batch);
        // Who is told of a decision does not know its view.
        let view = if accepted.is_some() { self.replicas[me].view } else { VIEWS };
        self.replicas[me].execute();
        self.reply(me);
        self.fix(slot, batch, view)
    }

    fn reply(&mut self, me: Member) {
        self.clients.reply(me, self.replicas[me].executed, self.group.f + 1);
    }

    /// The replica answers a read, unless it voted for a slot that it has not executed.
    pub(super) fn read(&mut self, me: Member) -> Result<(), Broken> {
        let replica = &self.replicas[me];
        let executed = replica.executed;
        let voted = replica.entries[executed + 1..].iter().any(|entry| entry.lock.ts > 0);
        if voted && !self.group.lacks(Fault::DoesNotHoldQueries) {
            return Ok(());
        }
        self.clients.answer(me, executed, self.group.n - self.group.f)
    }

    /// The batch is or may be decided in the slot: the only one, and a real one.
    fn fix(&mut self, slot: Slot, batch: Batch, view: View) -> Result<(), Broken> {
        let (fate, first) = self.fate[slot].get_or_insert((batch, view));
        let fate = *fate;
        *first = view.min(*first);
        if fate != batch {
            return broken("agreement", format!("slot {slot}: {fate} and {batch}"));
        }
        if batch != 0 && !self.proposed[slot].has(batch.into()) {
            return broken("validity", format!("slot {slot}: nobody proposed {batch}"));
        }
        Ok(())
    }

    pub(super) fn restart(&mut self, me: Member) {
        let group = self.group;
        self.replicas[me].restart(&group);
    }

    pub(super) fn leave(&mut self, me: Member, view: View) {
        let group = self.group;
        let change = self.replicas[me].leave(view, &group);
        // A restart may have made it forget an earlier one.
        self.changes.push(change);
    }

    /// A replica opens its view with these VIEW-CHANGEs, if they suffice.
    pub(super) fn open(&mut self, me: Member, changes: &[ViewChange]) -> Result<bool, Broken> {
        let group = self.group;
        let outcomes = Outcomes::of(changes, &group);
        if changes.len() < group.n - group.f || !outcomes.complete() {
            return Ok(false);
        }
        let view = self.replicas[me].view;
        for slot in outcomes.base.slot + 1..=SLOTS {
            let Some((fate, _)) = self.fate[slot].filter(|it| it.1 < view) else { continue };
            let outcome = outcomes.get(slot).map(Outcome::batch);
            if outcome != Some(fate) {
                let how = format!("view {view} slot {slot}: {outcome:?}, and {fate} is decided");
                return broken("no decided slot is lost", how);
            }
        }
        self.replicas[me].open(changes, outcomes, &group);
        // It may leave or lose power before it has written.
        if self.quiet || self.rng.bool() {
            for slot in 1..=SLOTS {
                self.react(me, slot)?;
            }
        }
        Ok(true)
    }
}

pub(super) fn broken<T>(property: &'static str, how: String) -> Result<T, Broken> {
    Err(Broken { property, how })
}
