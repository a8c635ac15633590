//! The quiet end of a run: correct replicas hear each other, and the properties of liveness.

use super::outcome::{Outcome, Outcomes};
use super::types::{BATCHES, Batch, Lock, Member, SLOTS, Set, Slot, ViewChange};
use super::world::{World, broken};
use crate::Broken;

/// What a replica did in a slot, to see whether it did more.
type Done = (Option<Batch>, Lock, Option<Batch>, usize);

impl World {
    /// The adversary stops; liars may go on.
    pub(super) fn quiet_end(&mut self) -> Result<(), Broken> {
        self.quiet = true;
        if self.group.crash() {
            let mut dead = Set::default();
            for _ in 0..self.rng.usize(0..=self.group.f) {
                dead.insert(self.rng.usize(..self.group.n));
            }
            self.up = self.up.without(dead);
        } else if self.same_view()? {
            self.exchange(false)?;
            self.no_needless_view()?;
            self.nobody_left_behind()?;
        }
        self.next_view()
    }

    /// Leads all to the highest view that somebody has opened. Whether it is the highest of all.
    fn same_view(&mut self) -> Result<bool, Broken> {
        let view = self.up.iter().map(|it| self.replicas[it].view).max().unwrap_or(0);
        for me in self.up.iter() {
            if self.replicas[me].view < view {
                self.leave(me, view);
            }
            if self.replicas[me].open {
                continue;
            }
            let said: Vec<_> = self.new_views.iter().filter(|(it, _)| *it == view).collect();
            if said.is_empty() {
                return Ok(false);
            }
            let changes = said[self.rng.usize(..said.len())].1.clone();
            self.open(me, &changes)?;
        }
        Ok(true)
    }

    /// All hear all that correct replicas said in their view, until there is nothing new.
    fn exchange(&mut self, fresh: bool) -> Result<(), Broken> {
        if self.rng.bool() {
            for me in self.up.iter() {
                self.hear_liars(me);
            }
        }
        loop {
            let mut news = false;
            for me in self.up.iter() {
                news |= self.checkpoint(me);
                for slot in 1..=SLOTS {
                    news |= self.hear_all(me, slot, fresh)?;
                }
            }
            if !news {
                return Ok(());
            }
        }
    }

    fn hear_liars(&mut self, me: Member) {
        for liar in self.liars.iter() {
            for slot in 1..=SLOTS {
                self.hear_write(me, slot, liar);
                self.hear_accept(me, slot, liar);
                self.hear_decision(me, slot, liar);
            }
        }
    }

    fn hear_all(&mut self, me: Member, slot: Slot, fresh: bool) -> Result<bool, Broken> {
        let before = self.done(me, slot);
        let mut news = false;
        let primary = self.primary(self.replicas[me].view);
        if self.up.has(primary) && (fresh || primary != me) {
            self.hear_proposal(me, slot);
        }
        for author in self.up.iter() {
            if !self.group.crash() {
                news |= self.hear_write(me, slot, author);
            }
            news |= self.hear_accept(me, slot, author);
            news |= self.hear_decision(me, slot, author);
        }
        let (entry, group) = (self.replicas[me].entries[slot], self.group);
        let wanted = [
            entry.candidate,
            entry.heard.with(group.f + 1),
            entry.heard.with(group.quorum),
            entry.accepts.with(if group.crash() { 1 } else { group.quorum }),
            entry.told.with(if group.crash() { 1 } else { group.f + 1 }),
        ];
        for batch in wanted.into_iter().flatten() {
            self.fetch(me, slot, batch);
        }
        self.react(me, slot)?;
        Ok(news || before != self.done(me, slot))
    }

    fn done(&self, me: Member, slot: Slot) -> Done {
        let entry = &self.replicas[me].entries[slot];
        (entry.wrote, entry.lock, entry.decided, self.replicas[me].executed)
    }

    /// If f + 1 correct replicas wrote a batch in their view, and none another, then it is decided
    /// without another view.
    fn no_needless_view(&self) -> Result<(), Broken> {
        for slot in 1..=SLOTS {
            let mut wrote = [0; BATCHES];
            for it in self.up.iter() {
                if let Some(batch) = self.replicas[it].entries[slot].wrote {
                    wrote[usize::from(batch)] += 1;
                }
            }
            let (most, all) = (wrote.iter().max().copied().unwrap_or(0), wrote.iter().sum());
            let undecided = self.up.iter().find(|it| {
                let replica = &self.replicas[*it];
                replica.executed < slot && replica.entries[slot].decided.is_none()
            });
            if let (true, true, Some(it)) = (most > self.group.f, most == all, undecided) {
                let how = format!("{it} does not decide slot {slot}, which {most} wrote alike");
                return broken("no needless view change", how);
            }
        }
        Ok(())
    }

    /// Fewer than f + 1 replicas get no new view: so the others must have told them all.
    fn nobody_left_behind(&self) -> Result<(), Broken> {
        let executed = |it: usize| self.replicas[it].executed;
        let most = self.up.iter().map(executed).max().unwrap_or(0);
        let behind = self.up.iter().filter(|it| executed(*it) < most).count();
        let waits = |it: usize| {
            let entries = &self.replicas[it].entries[most + 1..];
            entries.iter().any(|entry| entry.candidate.or(entry.wrote).is_some())
        };
        let others_wait = self.up.iter().any(|it| executed(it) == most && waits(it));
        if (1..=self.group.f).contains(&behind) && !others_wait {
            return broken("nobody left behind", format!("{behind} have not reached slot {most}"));
        }
        Ok(())
    }

    /// The next view of a correct primary takes all slots over, and all get decided.
    fn next_view(&mut self) -> Result<(), Broken> {
        let last = self.up.iter().map(|it| self.replicas[it].view).max().unwrap_or(0);
        let correct = |view: &usize| self.up.has(self.primary(*view));
        let view = (last + 1..).find(correct).expect("a correct member");
        let primary = self.primary(view);
        for me in self.up.iter() {
            self.leave(me, view);
        }
        let mut all: Vec<_> = self.changes.iter().filter(|it| it.view == view).copied().collect();
        for liar in self.liars.iter() {
            if self.rng.u8(..4) > 0 {
                let change = self.false_change(liar, view);
                all.push(change);
            }
        }
        self.rng.shuffle(&mut all);
        for count in self.group.n - self.group.f..=all.len() {
            if !self.replicas[primary].open {
                self.assemble(primary, &all[..count])?;
            }
        }
        let Some((_, changes)) = self.new_views.iter().find(|(it, _)| *it == view).cloned() else {
            return broken("a correct primary opens its view", self.no_outcome(&all));
        };
        for me in self.up.iter() {
            if !self.replicas[me].open {
                self.open(me, &changes)?;
            }
        }
        self.exchange(true)?;
        match self.up.iter().find(|it| self.replicas[*it].executed < SLOTS) {
            None => Ok(()),
            Some(it) => {
                let how = format!("{it} stays at slot {}", self.replicas[it].executed);
                broken("all slots get decided", how)
            }
        }
    }

    fn no_outcome(&self, all: &[ViewChange]) -> String {
        let outcomes = Outcomes::of(all, &self.group);
        let taken = outcomes.taken();
        let slots: Vec<_> = taken.map(|slot| outcomes.get(slot).map(Outcome::batch)).collect();
        format!("{slots:?} above slot {} are the outcomes", outcomes.base.slot)
    }
}
