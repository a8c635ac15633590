//! The adversary: which replica hears what, leaves, opens, and restarts, and when.

use super::types::{Member, REAL, SLOTS, Set, Slot, VIEWS, View};
use super::world::World;
use crate::Broken;

/// The views in which the adversary acts.
const LAST: View = VIEWS - 16;

/// How an adversary tends to act in a run, in chances of 100.
struct Temper {
    /// That a message arrives at a time.
    hears: u8,
    /// That a step moves the group to its next view.
    moves: u8,
    /// That a replica takes part in a part of a round.
    joins: u8,
    /// That it hears ACCEPTs in a round.
    accepts: u8,
    /// That one replica alone hears votes in a round.
    alone: u8,
    restarts: u8,
    /// The view after which it stops moving.
    last: View,
}

impl World {
    /// The adversary acts for a while.
    pub(super) fn trouble(&mut self) -> Result<(), Broken> {
        if self.scene()? {
            return Ok(());
        }
        let rng = &mut self.rng;
        let temper = Temper {
            hears: [25, 50, 80][rng.usize(..3)],
            moves: [2, 5, 10][rng.usize(..3)],
            joins: [50, 70, 90][rng.usize(..3)],
            accepts: [0, 20, 60][rng.usize(..3)],
            alone: [0, 50, 90][rng.usize(..3)],
            restarts: [0, 0, 3, 10][rng.usize(..4)],
            last: rng.usize(1..=LAST),
        };
        if rng.bool() {
            return (0..=temper.last).try_for_each(|view| self.round(view, &temper));
        }
        let mut front = 0;
        for _ in 0..self.rng.usize(30..=300) {
            if self.chance(temper.moves) && front < temper.last {
                front += 1;
            }
            let me = self.any_of(self.up).expect("a correct replica");
            self.step(me, front, &temper)?;
        }
        Ok(())
    }

    pub(super) fn chance(&mut self, of_hundred: u8) -> bool {
        self.rng.u8(..100) < of_hundred
    }

    /// Some replicas go through a view, each through parts of it, in any order.
    fn round(&mut self, view: View, temper: &Temper) -> Result<(), Broken> {
        let mut order: Vec<Member> = self.up.iter().collect();
        for me in self.up.iter() {
            if self.replicas[me].view < view && self.chance(temper.joins) {
                self.leave(me, view);
            }
        }
        // Often one replica alone hears the votes, so that a lock is at one replica alone.
        let listens = self.any_of(self.up).filter(|_| self.chance(temper.alone));
        // The primary, if it is correct, has to come first at least once.
        for part in [0, 0, 1, 1, 2, 3, 2, 3] {
            if self.chance(temper.restarts) {
                self.up.iter().for_each(|it| self.restart(it));
            }
            self.rng.shuffle(&mut order);
            for &me in &order {
                if self.chance(temper.restarts) {
                    self.restart(me);
                }
                let deaf = part > 1 && listens.is_some_and(|it| it != me);
                if self.replicas[me].view == view && !deaf && self.chance(temper.joins) {
                    self.part(part, me, temper)?;
                }
            }
        }
        Ok(())
    }

    /// A replica's part of a round.
    fn part(&mut self, part: u8, me: Member, temper: &Temper) -> Result<(), Broken> {
        if part == 0 {
            let opens = !self.replicas[me].open;
            return if opens { self.try_to_open(me) } else { Ok(()) };
        }
        if part == 3 && self.chance(30) {
            self.checkpoint(me);
        }
        if part == 3 && self.group.crash() && self.chance(50) {
            self.read(me)?;
        }
        for slot in self.replicas[me].window(&self.group) {
            match part {
                1 => {
                    self.hear_proposal(me, slot);
                    self.fetch_from_any(me, slot);
                }
                2 if !self.group.crash() => self.hear_writes(me, slot, temper),
                _ if self.chance(temper.accepts) => self.hear_accepts(me, slot, temper),
                _ => {}
            }
            self.react(me, slot)?;
        }
        Ok(())
    }

    fn step(&mut self, me: Member, front: View, temper: &Temper) -> Result<(), Broken> {
        let chance = self.rng.u8(..100);
        if self.replicas[me].view < front && chance < 25 {
            let view = self.rng.usize(self.replicas[me].view + 1..=front);
            self.leave(me, view);
            return Ok(());
        }
        if self.chance(temper.restarts) {
            self.restart(me);
            return Ok(());
        }
        if chance > 88 {
            self.checkpoint(me);
            return (1..=SLOTS).try_for_each(|slot| self.react(me, slot));
        }
        if self.group.crash() && chance > 80 {
            return self.read(me);
        }
        if !self.replicas[me].open && self.rng.bool() {
            return self.try_to_open(me);
        }
        let window = self.replicas[me].window(&self.group);
        if window.is_empty() {
            return Ok(());
        }
        let slot = if self.rng.bool() { *window.start() } else { self.rng.usize(window) };
        match self.rng.u8(..10) {
            0..=2 => self.hear_proposal(me, slot),
            3 => self.fetch_from_any(me, slot),
            4..=6 if !self.group.crash() => self.hear_writes(me, slot, temper),
            7 => self.hear_decisions(me, slot, temper),
            _ => self.hear_accepts(me, slot, temper),
        }
        self.react(me, slot)
    }

    /// The primary's proposal reaches the replica, or the primary makes it.
    pub(super) fn hear_proposal(&mut self, me: Member, slot: Slot) {
        let view = self.replicas[me].view;
        let primary = self.primary(view);
        let entry = &self.replicas[me].entries[slot];
        let free = entry.candidate.or(entry.wrote).is_none();
        if !self.replicas[me].takes_fresh(slot, &self.group) || !free || !self.uses(slot) {
            return;
        }
        if primary == me {
            return self.propose(me, slot);
        }
        let batch = if self.liars.has(primary) {
            let batch = self.lie(slot);
            if (1..=REAL).contains(&batch) {
                self.proposed[slot].insert(batch.into());
            }
            Some(usize::from(batch))
        } else {
            self.any_of(self.proposals[view][slot])
        };
        let Some(batch) = batch else { return };
        let brings_body = self.proposed[slot].has(batch) && self.rng.u8(..4) > 0;
        let (crash, signed) = (self.group.crash(), self.signed[view][slot][primary].has(batch));
        let entry = &mut self.replicas[me].entries[slot];
        entry.candidate = Some(batch as u8);
        if brings_body {
            entry.bodies.insert(batch);
        }
        // A PROPOSE is also the primary's vote, with its signature if it needs one.
        if crash {
            entry.accepts.count(primary, batch as u8);
        } else if entry.heard.count(primary, batch as u8) && signed {
            entry.signed.insert(primary);
        }
    }

    /// A batch that the replica may want comes from somebody.
    fn fetch_from_any(&mut self, me: Member, slot: Slot) {
        let Some(batch) = self.any_of(self.proposed[slot]) else { return };
        let held = |it: usize| self.replicas[it].entries[slot].bodies.has(batch);
        if self.up.iter().any(held) || self.liars.len() > 0 {
            self.replicas[me].entries[slot].bodies.insert(batch);
        }
    }

    fn some_of(&mut self, all: Set, temper: &Temper) -> Set {
        let mut some = Set::default();
        for it in all.iter() {
            if self.chance(temper.hears) {
                some.insert(it);
            }
        }
        some
    }

    fn hear_writes(&mut self, me: Member, slot: Slot, temper: &Temper) {
        for author in self.some_of(Set::first(self.group.n), temper).iter() {
            self.hear_write(me, slot, author);
        }
    }

    fn hear_accepts(&mut self, me: Member, slot: Slot, temper: &Temper) {
        for author in self.some_of(Set::first(self.group.n), temper).iter() {
            self.hear_accept(me, slot, author);
        }
    }

    fn hear_decisions(&mut self, me: Member, slot: Slot, temper: &Temper) {
        for author in self.some_of(Set::first(self.group.n), temper).iter() {
            self.hear_decision(me, slot, author);
        }
    }

    /// Whether there was something new to hear; so with the others.
    pub(super) fn hear_write(&mut self, me: Member, slot: Slot, author: Member) -> bool {
        let view = self.replicas[me].view;
        let said = self.writes[view][slot][author];
        let (batch, signed) = if self.liars.has(author) {
            (Some(self.false_vote(me, slot).into()), self.liars_sign)
        } else {
            let batch = self.any_of(said);
            (batch, batch.is_some_and(|it| self.signed[view][slot][author].has(it)))
        };
        let Some(batch) = batch else { return false };
        let entry = &mut self.replicas[me].entries[slot];
        let news = entry.heard.count(author, batch as u8);
        if news && signed {
            entry.signed.insert(author);
        }
        news
    }

    pub(super) fn hear_accept(&mut self, me: Member, slot: Slot, author: Member) -> bool {
        let view = self.replicas[me].view;
        let batch = if self.liars.has(author) {
            Some(self.false_vote(me, slot).into())
        } else {
            self.any_of(self.accepts[view][slot][author])
        };
        let Some(batch) = batch else { return false };
        self.replicas[me].entries[slot].accepts.count(author, batch as u8)
    }

    pub(super) fn hear_decision(&mut self, me: Member, slot: Slot, author: Member) -> bool {
        let batch = if self.liars.has(author) {
            Some(self.lie(slot))
        } else {
            self.replicas[author].entries[slot].decided
        };
        let Some(batch) = batch else { return false };
        self.replicas[me].entries[slot].told.count(author, batch)
    }
}
