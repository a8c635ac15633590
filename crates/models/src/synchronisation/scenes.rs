//! Beginnings that an adversary seldom draws: four members, of whom the liar is the primary of
//! all views that matter. What correct replicas do in them follows the rules as everywhere.

use super::rules::Mode;
use super::types::{Batch, EMPTY, Member, SLOTS, Shown, Slot, View, ViewChange};
use super::world::World;
use crate::Broken;

/// The slot that scenes are about.
const SLOT: Slot = 1;

/// Who is who.
#[derive(Clone, Copy)]
struct Cast {
    a: Member,
    b: Member,
    c: Member,
    liar: Member,
}

impl Cast {
    /// The first, second, ... view of the liar after view 0.
    fn view(&self, nth: usize) -> View {
        self.liar + 4 * nth
    }
}

impl World {
    /// Whether this run begins with a scene; plays it if so.
    pub(super) fn scene(&mut self) -> Result<bool, Broken> {
        if self.group.n != 4 || self.group.mode == Mode::Crash || self.rng.u8(..4) > 0 {
            return Ok(false);
        }
        let mut correct: Vec<Member> = self.up.iter().collect();
        self.rng.shuffle(&mut correct);
        let liar = self.liars.iter().next().expect("a liar");
        let cast = Cast { a: correct[0], b: correct[1], c: correct[2], liar };
        match self.rng.u8(..5) {
            0 => self.lock_of_signed_writes(cast)?,
            1 => self.signed_write_alone(cast)?,
            2 => self.written_again(cast)?,
            3 => self.heard_before_opening(cast)?,
            _ => self.decided_and_restarted(cast)?,
        }
        Ok(true)
    }

    /// Of the empty batch, A signs its WRITE, C keeps its own, and C alone locks. A NEW-VIEW of
    /// the others follows.
    fn lock_of_signed_writes(&mut self, cast: Cast) -> Result<(), Broken> {
        self.fill_table(cast)?;
        self.begin(cast, cast.view(2), &[cast.a, cast.b], &[cast.a, cast.c])?;
        self.react(cast.a, SLOT)?;
        self.hear(cast, cast.c, &[cast.a], EMPTY)?;
        self.begin(cast, cast.view(3), &[cast.a, cast.b], &[cast.c])?;
        self.leave(cast.b, cast.view(3) + 1);
        Ok(())
    }

    /// C hears two WRITEs before it has opened the view, and A locks if C writes, too.
    fn heard_before_opening(&mut self, cast: Cast) -> Result<(), Broken> {
        let view = cast.view(1);
        self.begin(cast, view, &[cast.b, cast.c], &[cast.a])?;
        self.offer(cast.a, 2)?;
        self.replicas[cast.c].entries[SLOT].bodies.insert(2);
        self.hear(cast, cast.c, &[cast.a], 2)?;
        self.hear(cast, cast.a, &[cast.c], 2)?;
        let changes = self.new_views.iter().find(|(it, _)| *it == view).expect("begun").1.clone();
        self.open(cast.c, &changes)?;
        self.leave(cast.b, view + 1);
        Ok(())
    }

    /// A signs a WRITE that nobody else heard of but the liar.
    fn signed_write_alone(&mut self, cast: Cast) -> Result<(), Broken> {
        self.fill_table(cast)?;
        self.begin(cast, cast.view(2), &[cast.b, cast.c], &[cast.a])?;
        self.offer(cast.a, 2)?;
        self.leave(cast.a, cast.view(2) + 1);
        Ok(())
    }

    /// A, whose table takes one batch, writes one.
    fn fill_table(&mut self, cast: Cast) -> Result<(), Broken> {
        self.group.cap = 1;
        self.begin(cast, cast.view(1), &[cast.b, cast.c], &[cast.a])?;
        self.offer(cast.a, 1)
    }

    /// C alone locks what A and C wrote; A writes it again, which a third NEW-VIEW shows.
    fn written_again(&mut self, cast: Cast) -> Result<(), Broken> {
        self.begin(cast, cast.view(1), &[cast.b, cast.c], &[cast.a, cast.c])?;
        self.offer(cast.a, 2)?;
        self.offer(cast.c, 2)?;
        self.hear(cast, cast.c, &[cast.a], 2)?;
        let second = cast.view(2);
        self.up.iter().for_each(|it| self.leave(it, second));
        let mut changes = self.changes_of(&[cast.a, cast.b], second);
        let mut lie = self.changes_of(&[cast.c], second);
        lie[0].from = cast.liar;
        changes.append(&mut lie);
        self.open(cast.a, &changes)?;
        self.react(cast.a, SLOT)?;
        self.begin(cast, cast.view(3), &[cast.a, cast.b], &[cast.c])?;
        self.leave(cast.b, cast.view(3) + 1);
        Ok(())
    }

    /// A and B decide, and perhaps sign a checkpoint and lose power; C wrote something else.
    fn decided_and_restarted(&mut self, cast: Cast) -> Result<(), Broken> {
        self.group.every = self.rng.usize(1..=2);
        self.liars_sign = false;
        self.begin(cast, cast.view(1), &[cast.a, cast.b], &[cast.a, cast.b, cast.c])?;
        self.offer(cast.c, 2)?;
        self.offer(cast.a, 1)?;
        self.offer(cast.b, 1)?;
        self.hear(cast, cast.a, &[cast.b], 1)?;
        self.hear(cast, cast.b, &[cast.a], 1)?;
        self.hear(cast, cast.a, &[cast.b], 1)?;
        if self.group.every == 1 {
            [cast.a, cast.b].into_iter().for_each(|it| _ = self.checkpoint(it));
            [cast.a, cast.b].into_iter().for_each(|it| self.restart(it));
        }
        Ok(())
    }

    /// All correct replicas leave for a view; some open it with the VIEW-CHANGEs of some, and with
    /// one of the liar, which shows nothing.
    fn begin(
        &mut self,
        cast: Cast,
        view: View,
        shown: &[Member],
        opens: &[Member],
    ) -> Result<(), Broken> {
        self.up.iter().for_each(|it| self.leave(it, view));
        let mut changes = self.changes_of(shown, view);
        let nothing =
            ViewChange { from: cast.liar, slots: [Shown::NOTHING; SLOTS + 1], ..changes[0] };
        changes.push(nothing);
        self.new_views.push((view, changes.clone()));
        opens.iter().try_for_each(|it| self.open(*it, &changes).map(|_| ()))
    }

    fn changes_of(&self, authors: &[Member], view: View) -> Vec<ViewChange> {
        let of = |it: &&ViewChange| it.view == view && authors.contains(&it.from);
        self.changes.iter().filter(of).copied().collect()
    }

    /// The liar proposes.
    fn offer(&mut self, me: Member, batch: Batch) -> Result<(), Broken> {
        self.proposed[SLOT].insert(batch.into());
        let entry = &mut self.replicas[me].entries[SLOT];
        entry.candidate = Some(batch);
        entry.bodies.insert(batch.into());
        self.react(me, SLOT)
    }

    /// A replica hears the votes of some, and the liar's, which has no signature.
    fn hear(
        &mut self,
        cast: Cast,
        me: Member,
        authors: &[Member],
        batch: Batch,
    ) -> Result<(), Broken> {
        for author in authors {
            self.hear_write(me, SLOT, *author);
            self.hear_accept(me, SLOT, *author);
        }
        self.replicas[me].entries[SLOT].heard.count(cast.liar, batch);
        self.react(me, SLOT)?;
        self.replicas[me].entries[SLOT].accepts.count(cast.liar, batch);
        self.react(me, SLOT)
    }
}
