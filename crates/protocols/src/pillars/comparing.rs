//! Whether this replica's states are the group's.
//!
//! A pillar compares the state of a row when it is told of it, unless it is past that row by then:
//! where execution is constantly behind, it always is. So the merger compares what pillars say is
//! vouched for with the states that execution comes to, whichever is there first.

use super::merger::{Merger, VOUCHED_MAX};
use super::merging::note;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaSet, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::Effects;

impl Merger {
    /// A quorum vouches for this state after a row.
    pub(super) fn note_vouched(&mut self, row: Slot, theirs: Digest, out: &mut Effects<Self>) {
        if let Some(mine) = self.merge.state(row) {
            self.compare(row, mine, theirs, out);
        } else if row > self.merge.rows.base() {
            self.vouched.insert(row, theirs);
            if self.vouched.len() > VOUCHED_MAX {
                self.vouched.pop_last();
            }
        }
    }

    /// This is the state to which execution came after a row.
    pub(super) fn note_mine(&mut self, row: Slot, mine: Digest, out: &mut Effects<Self>) {
        let later = self.vouched.split_off(&row.next());
        let theirs = core::mem::replace(&mut self.vouched, later).remove(&row);
        if let Some(theirs) = theirs.filter(|_| !mutant!("pillars.late-states-not-compared")) {
            self.compare(row, mine, theirs, out);
        }
    }

    fn compare(&mut self, row: Slot, mine: Digest, theirs: Digest, out: &mut Effects<Self>) {
        if mine == theirs || !self.says_diverged(row, mine, theirs, out) {
            return;
        }
        let mut from: ReplicaSet = self.membership.ids().collect();
        from.remove(self.me);
        note(&mut self.asked, row, theirs);
        out.output(Output::Fetch { slot: self.merge.rows.end(row), state: theirs, from });
    }

    /// Tells the host that this replica's state after a row is not the group's, unless it was told
    /// so of that row or a later one: several may find out.
    pub(super) fn says_diverged(
        &mut self,
        row: Slot,
        mine: Digest,
        theirs: Digest,
        out: &mut Effects<Self>,
    ) -> bool {
        let is_new = self.diverged < row;
        if is_new {
            mark!("pillars/diverged");
            self.diverged = row;
            out.output(Output::Diverged { slot: self.merge.rows.end(row), mine, theirs });
        }
        is_new
    }
}
