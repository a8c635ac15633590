//! From which states correct replicas answer queries, by the rules of `docs/reads.md`:
//!
//! - none may be taken back, and none is older than the first state of its epoch;
//! - none is older than what the replica had told clients before, also after a crash from which it
//!   goes on. When a replica enters another view, that view has decided which of the slots remain
//!   that the replica had executed and could still take back. Where replicas execute before
//!   agreement, a slot that one calls final may be on the disks of others only when it crashes;
//!   those answer no query from before the slot;
//! - where the answers of a quorum are enough for a client, none is older than what the replica had
//!   voted to commit when the query came, in any pillar. Zyzzyva has no such votes: there the first
//!   rule keeps answers from what is not final.
//!
//! One answer that breaks a rule does no harm as long as the client gets no other that is equal.
//! This names the first.

use super::{Broken, Verdict};
use pentarchy_core::ballot::Ballot;
use pentarchy_core::ids::{ClientId, Epoch, ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::Rules;
use pentarchy_core::quorum::ReadRule;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the property.
pub const PROPERTY: &str = "reads";

/// What each replica has said that its answers must not miss.
pub struct Reads {
    /// The votes after which a slot counts, by epoch; none if all replicas answer a query.
    kinds: BTreeMap<Epoch, &'static str>,
    /// Epochs in which replicas execute before agreement.
    speculative: BTreeSet<Epoch>,
    pillars: u64,
    bases: BTreeMap<Epoch, Slot>,
    said: BTreeMap<ReplicaId, Said>,
}

#[derive(Default)]
struct Said {
    epoch: Epoch,
    /// The highest slot of which it told a client what is final, or on which its epoch rests.
    told: Slot,
    /// The view that it entered last, as far as it was seen.
    view: View,
    /// The highest slot of which it told a client a result that it may still take back, in the
    /// highest view.
    told_open: (View, Slot),
    /// The highest slot that it voted to commit.
    voted: Slot,
    /// What that was when a query came which waits for its answer.
    asked: BTreeMap<(ClientId, u64), Slot>,
}

impl Reads {
    /// Nobody has said anything yet.
    #[must_use]
    pub fn new(first: &Membership) -> Self {
        Self {
            kinds: BTreeMap::new(),
            speculative: BTreeSet::new(),
            pillars: u64::from(first.lane.pillars.max(1)),
            bases: BTreeMap::from([(first.epoch, first.base.slot)]),
            said: BTreeMap::new(),
        }
    }

    /// Takes from the protocol of an epoch which votes commit, how many answer a query, and whether
    /// it executes before agreement.
    pub fn judge_by(&mut self, epoch: Epoch, kind: Option<&'static str>, rules: &Rules) {
        let kind = kind.filter(|_| rules.reads != ReadRule::All);
        self.kinds.extend(kind.map(|kind| (epoch, kind)));
        self.speculative.extend(rules.speculative.then_some(epoch));
    }

    /// A correct replica sent a message.
    pub fn said(&mut self, replica: ReplicaId, ballots: &[Ballot]) {
        let said = self.said.entry(replica).or_default();
        let Some(kind) = self.kinds.get(&said.epoch).copied() else { return };
        let Some(base) = self.bases.get(&said.epoch) else { return };
        for ballot in ballots.iter().filter(|ballot| ballot.kind == kind) {
            let slot = slot_of(*base, self.pillars, (ballot.pillar, ballot.slot));
            said.voted = said.voted.max(slot.unwrap_or_default());
        }
    }

    /// A message left a correct replica that tells a client what came of this slot, which stands in
    /// a place if it may be taken back. It may have waited for the disk since an earlier view.
    pub fn told(&mut self, replica: ReplicaId, slot: Slot, place: Option<Place>) {
        let said = self.said.entry(replica).or_default();
        match place {
            None => said.told = said.told.max(slot),
            Some(place) => said.told_open = said.told_open.max((place.view, place.slot)),
        }
    }

    /// A correct replica entered a view.
    pub fn entered(&mut self, replica: ReplicaId, view: View) {
        let said = self.said.entry(replica).or_default();
        said.view = said.view.max(view);
    }

    /// A query came to a correct replica.
    pub fn asked(&mut self, replica: ReplicaId, client: ClientId, number: u64) {
        let said = self.said.entry(replica).or_default();
        said.asked.entry((client, number)).or_insert(said.voted);
    }

    /// A correct replica answers a query from the state of this slot; with `is_open` from one that
    /// may be taken back.
    ///
    /// # Errors
    /// If that state may miss what a client knows.
    pub fn answered(
        &mut self,
        replica: ReplicaId,
        (client, number): (ClientId, u64),
        (state, is_open): (Slot, bool),
    ) -> Verdict {
        let said = self.said.entry(replica).or_default();
        let voted = said.asked.remove(&(client, number)).unwrap_or_default();
        let (view, open) = said.told_open;
        let told = if view < said.view { said.told } else { said.told.max(open) };
        let missed = [(told, "told clients of"), (voted, "voted to commit")];
        let missed = missed.into_iter().find(|(slot, _)| *slot > state);
        let why = match missed {
            Some((slot, what)) => format!("though it had {what} {slot}"),
            None if is_open => "which may be taken back".to_owned(),
            None => return Ok(()),
        };
        let detail = format!("{replica} answers {client}#{number} from {state}, {why}");
        Err(Broken::new(PROPERTY, detail))
    }

    /// A replica is in another epoch. Its first state has all that clients could rely on.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) {
        let base = membership.base.slot;
        self.bases.insert(membership.epoch, base);
        let said = self.said.entry(replica).or_default();
        if said.epoch != membership.epoch {
            *said = Said { epoch: membership.epoch, told: base, ..Said::default() };
        }
    }

    /// A replica goes on from its disk, in this epoch, and in this view or on its way there. What
    /// it told clients was on the disk before; not so each vote, nor queries.
    pub fn resumed(&mut self, replica: ReplicaId, epoch: Epoch, view: View) {
        let said = self.said.entry(replica).or_default();
        let base = self.bases.get(&epoch).copied().unwrap_or_default();
        let told = if self.speculative.contains(&epoch) { base } else { said.told };
        *said = match said.epoch == epoch {
            true => Said { epoch, told, view, told_open: said.told_open, ..Said::default() },
            false => Said { epoch, told: base, view, ..Said::default() },
        };
    }

    /// A replica goes on without its memory, as somebody else.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.said.remove(&replica);
    }
}

/// The place in the whole order of a slot of a pillar, in an epoch that begins behind this base;
/// none of a slot before that.
fn slot_of(base: Slot, pillars: u64, (pillar, row): (u8, Slot)) -> Option<Slot> {
    let rows = row.0.checked_sub(base.0.div_ceil(pillars) + 1)?;
    Some(Slot(base.0 + 1 + rows * pillars + u64::from(pillar)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::naive::{CORRECT, Naive};
    use crate::world::membership;
    use pentarchy_core::digest::Digest;
    use pentarchy_core::protocol::Protocol as _;

    const ME: ReplicaId = ReplicaId(1);
    const CLIENT: ClientId = ClientId([7; 32]);

    fn checker(n: usize, pillars: u8) -> Reads {
        let mut first = membership(1, n, 1);
        first.lane.pillars = pillars;
        let mut checker = Reads::new(&first);
        let reads = if n > 3 { ReadRule::AllButFaulty } else { ReadRule::All };
        checker.judge_by(Epoch(0), Some("commit"), &Rules { reads, ..Naive::<CORRECT>::RULES });
        checker
    }

    fn commit(pillar: u8, slot: u64) -> [Ballot; 2] {
        let ballot = Ballot::of_slot("commit", View(0), Slot(slot), Digest::default());
        [Ballot { pillar, ..ballot }, Ballot { kind: "prepare", slot: Slot(99), ..ballot }]
    }

    fn answers(checker: &mut Reads, number: u64, state: u64) -> Verdict {
        checker.answered(ME, (CLIENT, number), (Slot(state), false))
    }

    #[test]
    fn no_answer_is_from_what_may_be_taken_back() {
        let broken = checker(3, 1).answered(ME, (CLIENT, 1), (Slot(9), true)).unwrap_err();
        assert!(broken.detail.contains("may be taken back"), "{broken}");
    }

    #[test]
    fn no_answer_is_older_than_what_clients_were_told() {
        let mut checker = checker(3, 1);
        checker.told(ME, Slot(5), None);
        checker.told(ME, Slot(4), None);
        checker.said(ME, &commit(0, 9));
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 5).unwrap();
        let broken = answers(&mut checker, 2, 4).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("told clients"), "{broken}");
        checker.resumed(ME, Epoch(0), View(0));
        answers(&mut checker, 3, 4).unwrap_err();
        checker.restarted(ME);
        answers(&mut checker, 4, 4).unwrap();
    }

    #[test]
    fn where_a_quorum_answers_votes_count_that_were_cast_before_the_query_came() {
        let mut checker = checker(4, 1);
        checker.said(ME, &commit(0, 6));
        checker.asked(ME, CLIENT, 1);
        checker.said(ME, &commit(0, 8));
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 6).unwrap();
        checker.asked(ME, CLIENT, 2);
        let broken = answers(&mut checker, 2, 7).unwrap_err();
        assert!(broken.detail.contains("voted to commit"), "{broken}");
    }

    #[test]
    fn what_may_be_taken_back_binds_until_another_view_is_entered() {
        let mut checker = checker(3, 1);
        let open = |view, slot| {
            Some(Place { view: View(view), slot: Slot(slot), history: Digest::default() })
        };
        checker.told(ME, Slot(3), None);
        checker.told(ME, Slot(6), open(0, 6));
        answers(&mut checker, 1, 5).unwrap_err();
        checker.told(ME, Slot(4), open(1, 4));
        checker.entered(ME, View(1));
        answers(&mut checker, 2, 3).unwrap_err();
        checker.entered(ME, View(2));
        answers(&mut checker, 3, 3).unwrap();
        checker.told(ME, Slot(9), open(1, 9));
        answers(&mut checker, 4, 3).unwrap();
        answers(&mut checker, 5, 2).unwrap_err();
    }

    #[test]
    fn a_final_slot_may_be_on_the_disks_of_others_when_a_replica_crashes() {
        let mut checker = checker(3, 1);
        let rules = Rules { speculative: true, reads: ReadRule::All, ..Naive::<CORRECT>::RULES };
        checker.judge_by(Epoch(0), Some("commit"), &rules);
        let place = Place { view: View(2), slot: Slot(6), history: Digest::default() };
        checker.told(ME, Slot(8), None);
        checker.told(ME, Slot(6), Some(place));
        checker.resumed(ME, Epoch(0), View(2));
        answers(&mut checker, 1, 5).unwrap_err();
        answers(&mut checker, 2, 6).unwrap();
        checker.resumed(ME, Epoch(0), View(3));
        answers(&mut checker, 3, 5).unwrap();
    }

    #[test]
    fn an_epoch_begins_with_all_that_clients_could_rely_on() {
        let mut checker = checker(4, 1);
        checker.told(ME, Slot(5), None);
        checker.said(ME, &commit(0, 9));
        let next = Membership { epoch: Epoch(1), ..membership(1, 4, 1) };
        checker.began(
            ME,
            &Membership {
                base: pentarchy_core::membership::Base { slot: Slot(7), ..next.base },
                ..next
            },
        );
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 7).unwrap();
        answers(&mut checker, 2, 6).unwrap_err();
    }

    #[test]
    fn slots_of_pillars_are_slots_of_the_order() {
        assert_eq!(slot_of(Slot(0), 1, (0, Slot(5))), Some(Slot(5)));
        assert_eq!(slot_of(Slot(0), 3, (2, Slot(2))), Some(Slot(6)));
        assert_eq!(slot_of(Slot(7), 3, (0, Slot(4))), Some(Slot(8)));
        assert_eq!(slot_of(Slot(7), 3, (0, Slot(3))), None);
        let mut checker = checker(4, 3);
        checker.said(ME, &commit(2, 2));
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 5).unwrap_err();
    }
}
