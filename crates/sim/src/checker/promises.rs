//! What a correct replica committed to, it shows whenever it leaves a view, until the slot is
//! stable: otherwise a later view may order something else where its commitment helped to decide.
//! This holds after a crash too, if the replica goes on from its disk.
//!
//! One replica that forgets does no harm as long as a quorum remembers. This names the first that
//! says less than it had said. What a protocol's messages show is in
//! [`pentarchy_core::ballot::Shown`].
//!
//! This checker does not compare commitments of views before the one of which a replica shows all,
//! which that view may have dropped; the commitment by which a replica enters a view; and, where a
//! commitment to a slot is one to all slots before it, those. In Zyzzyva the answers to clients are
//! such commitments, and what a stable checkpoint contradicts is void.

use super::{Broken, Verdict};
use pentarchy_core::ballot::{ANSWER, Ballot, Shown};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId, Slot, View};
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "promises";

/// To what a replica committed last: of each slot of each pillar.
type Made = BTreeMap<(u8, Slot), (View, Digest)>;

/// What each correct replica has promised in its present life, in one epoch.
#[derive(Default)]
pub struct Promises {
    /// Which ballots are promises in each epoch.
    kinds: BTreeMap<Epoch, &'static str>,
    made: BTreeMap<ReplicaId, (Epoch, Made)>,
}

impl Promises {
    /// Takes from the protocol of an epoch which ballots have to be shown.
    pub fn judge_by(&mut self, epoch: Epoch, kind: Option<&'static str>) {
        self.kinds.extend(kind.map(|kind| (epoch, kind)));
    }

    /// A correct replica sent a message.
    ///
    /// # Errors
    /// If it leaves a view by it, and does not show what it had committed to.
    pub fn said(
        &mut self,
        replica: ReplicaId,
        ballots: &[Ballot],
        shows: Option<&Shown>,
    ) -> Verdict {
        let (epoch, made) = self.made.entry(replica).or_default();
        let Some(kind) = self.kinds.get(epoch).copied() else { return Ok(()) };
        if let Some(shown) = shows {
            if kind == ANSWER {
                forget_void(made, shown);
            }
            made.retain(|(pillar, slot), _| *pillar != shown.pillar || *slot > shown.stable);
            for ((_, slot), promise) in made.range(of_pillar(shown.pillar)) {
                if promise.0 < shown.view && !keeps(shown, *slot, *promise) {
                    let (view, content) = promise;
                    let detail = format!(
                        "{replica} leaves for {} and does not show its {kind} of {view} {slot} \
                         ({content}): {shown:?}",
                        shown.view
                    );
                    return Err(Broken::new(PROPERTY, detail));
                }
            }
        }
        for ballot in ballots.iter().filter(|ballot| ballot.kind == kind) {
            let Ballot { pillar, view, slot, content, .. } = *ballot;
            let last = made.entry((pillar, slot)).or_insert((view, content));
            if view > last.0 {
                *last = (view, content);
            }
        }
        Ok(())
    }

    /// A replica is in an epoch: what the replica promised in other epochs does not bind it here.
    pub fn in_epoch(&mut self, replica: ReplicaId, epoch: Epoch) {
        let (known, made) = self.made.entry(replica).or_default();
        if *known != epoch {
            (*known, *made) = (epoch, Made::new());
        }
    }

    /// A replica goes on without its memory, as somebody else.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.made.remove(&replica);
    }
}

/// The places of all slots of a pillar.
fn of_pillar(pillar: u8) -> core::ops::RangeInclusive<(u8, Slot)> {
    (pillar, Slot(0))..=(pillar, Slot(u64::MAX))
}

/// Forgets the answers of the view in which the replica had told of another history up to its
/// stable checkpoint than the checkpoint has: they rest on that one, and no client can have relied
/// on them (`docs/decisions/0008-contradicted-views.md`).
fn forget_void(made: &mut Made, shown: &Shown) {
    let at_stable = shown.slots.iter().find(|(slot, ..)| *slot == shown.stable);
    let promise = made.get(&(shown.pillar, shown.stable)).copied();
    let (Some((.., history)), Some((view, told))) = (at_stable, promise) else { return };
    if told != *history {
        made.retain(|(pillar, slot), (of, _)| {
            *pillar != shown.pillar || *slot <= shown.stable || *of != view
        });
    }
}

/// Whether a replica keeps a promise: it shows the same, or something of a later view; or it shows
/// all of a later view, and that view began without it.
fn keeps(shown: &Shown, slot: Slot, (view, content): (View, Digest)) -> bool {
    let is_kept = |(of, later, what): &(Slot, View, Digest)| {
        *of == slot && (*later > view || (*later == view && *what == content))
    };
    shown.slots.iter().any(is_kept) || view < shown.since
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);
    const ME: ReplicaId = ReplicaId(1);

    fn commit(view: u64, slot: u64, content: Digest) -> Ballot {
        Ballot::of_slot("commit", View(view), Slot(slot), content)
    }

    fn leaving(since: u64, stable: u64, slots: &[(u64, u64, Digest)]) -> Shown {
        let slots = slots.iter().map(|(slot, view, what)| (Slot(*slot), View(*view), *what));
        let (since, stable) = (View(since), Slot(stable));
        Shown { pillar: 0, view: View(9), since, stable, slots: slots.collect() }
    }

    fn committed(ballots: &[Ballot]) -> Promises {
        let mut checker = Promises::default();
        checker.judge_by(Epoch(0), Some("commit"));
        checker.said(ME, ballots, None).unwrap();
        checker
    }

    #[test]
    fn a_replica_shows_what_it_committed_to() {
        let mut checker = committed(&[commit(1, 5, A), commit(3, 6, B), commit(2, 6, A)]);
        let mut leaves = |since, stable, slots: &[_]| {
            checker.said(ME, &[], Some(&leaving(since, stable, slots)))
        };
        leaves(0, 4, &[(5, 1, A), (6, 3, B)]).unwrap();
        leaves(0, 4, &[(5, 2, B), (6, 4, A)]).unwrap();
        let broken = leaves(0, 4, &[(5, 1, B), (6, 3, B)]).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("commit of"), "{broken}");
        leaves(0, 4, &[(5, 1, A)]).unwrap_err();
        leaves(0, 4, &[(5, 0, A), (6, 3, B)]).unwrap_err();
        leaves(3, 4, &[(6, 3, B)]).unwrap();
        leaves(3, 4, &[]).unwrap_err();
        leaves(0, 5, &[(6, 3, B)]).unwrap();
        leaves(0, 6, &[]).unwrap();
    }

    #[test]
    fn an_answer_that_rests_on_what_a_checkpoint_contradicts_is_void() {
        let answered = |slots: &[(u64, u64, Digest)]| {
            let mut checker = Promises::default();
            checker.judge_by(Epoch(0), Some(ANSWER));
            for (view, slot, history) in slots {
                let ballot = Ballot::of_slot(ANSWER, View(*view), Slot(*slot), *history);
                checker.said(ME, &[ballot], None).unwrap();
            }
            checker
        };
        let leaves = |mut checker: Promises, history| {
            checker.said(ME, &[], Some(&leaving(0, 6, &[(6, 1, history)])))
        };
        leaves(answered(&[(1, 6, A), (1, 7, A)]), B).unwrap();
        leaves(answered(&[(1, 6, A), (1, 7, A)]), A).unwrap_err();
        leaves(answered(&[(1, 6, A), (2, 7, A)]), B).unwrap_err();
        leaves(answered(&[(1, 7, A)]), B).unwrap_err();
    }

    #[test]
    fn each_replica_and_pillar_promises_for_itself() {
        let mut checker = committed(&[commit(1, 5, A)]);
        checker.said(ReplicaId(2), &[], Some(&leaving(0, 4, &[]))).unwrap();
        let other = Shown { pillar: 1, ..leaving(0, 9, &[]) };
        checker.said(ME, &[], Some(&other)).unwrap();
        checker.said(ME, &[], Some(&leaving(0, 4, &[]))).unwrap_err();
    }

    #[test]
    fn who_goes_on_from_a_disk_is_bound_and_who_lost_everything_is_not() {
        let mut checker = committed(&[commit(1, 5, A)]);
        checker.in_epoch(ME, Epoch(0));
        checker.said(ME, &[], Some(&leaving(0, 4, &[]))).unwrap_err();
        checker.in_epoch(ME, Epoch(1));
        checker.said(ME, &[], Some(&leaving(0, 4, &[]))).unwrap();
        checker.said(ME, &[commit(1, 5, A)], None).unwrap();
        checker.restarted(ME);
        checker.said(ME, &[], Some(&leaving(0, 4, &[]))).unwrap();
    }
}
