//! From which states correct replicas answer queries, by the rules of `docs/reads.md`:
//!
//! - none may be taken back, and none is older than the first state of its epoch;
//! - none is older than what the replica had told clients before, also after a crash from which it
//!   goes on, and after a rollback. Once it enters another view it is known which of what might be
//!   taken back counts;
//! - where the answers of a quorum are enough for a client, none is older than what the replica had
//!   voted to commit when the query came, in any pillar.
//!
//! One answer that breaks a rule does no harm as long as the client gets no other that is equal.
//! This names the first.

use super::{Broken, Verdict};
use pentarchy_core::ballot::Ballot;
use pentarchy_core::ids::{ClientId, Epoch, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "reads";

/// What each replica has said that its answers must not miss.
pub struct Reads {
    /// The votes after which a slot counts; none if all replicas answer a query.
    kind: Option<&'static str>,
    /// A quorum, and not all replicas, answer a query.
    by_quorum: bool,
    pillars: u64,
    bases: BTreeMap<Epoch, Slot>,
    said: BTreeMap<ReplicaId, Said>,
}

#[derive(Default)]
struct Said {
    epoch: Epoch,
    /// The highest slot of which it told a client what is final, or on which its epoch rests.
    told: Slot,
    /// The same of what may be taken back, in its view.
    told_open: Slot,
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
            kind: None,
            by_quorum: first.members.len() > 2 * first.f + 1,
            pillars: u64::from(first.lane.pillars.max(1)),
            bases: BTreeMap::from([(first.epoch, first.base.slot)]),
            said: BTreeMap::new(),
        }
    }

    /// Takes from the protocol which votes commit.
    pub const fn judge_by(&mut self, kind: Option<&'static str>) {
        self.kind = if self.by_quorum { kind } else { None };
    }

    /// A correct replica sent a message.
    pub fn said(&mut self, replica: ReplicaId, ballots: &[Ballot]) {
        let Some(kind) = self.kind else { return };
        let said = self.said.entry(replica).or_default();
        let Some(base) = self.bases.get(&said.epoch) else { return };
        for ballot in ballots.iter().filter(|ballot| ballot.kind == kind) {
            let slot = slot_of(*base, self.pillars, (ballot.pillar, ballot.slot));
            said.voted = said.voted.max(slot);
        }
    }

    /// A message left a correct replica that tells a client what came of this slot.
    pub fn told(&mut self, replica: ReplicaId, slot: Slot, is_final: bool) {
        let said = self.said.entry(replica).or_default();
        let told = if is_final { &mut said.told } else { &mut said.told_open };
        *told = slot.max(*told);
    }

    /// A correct replica entered a view.
    pub fn entered(&mut self, replica: ReplicaId) {
        self.said.entry(replica).or_default().told_open = Slot(0);
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
        let told = said.told.max(said.told_open);
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

    /// A replica goes on from its disk, in this epoch. What it told clients was on the disk before;
    /// not so each vote, nor queries.
    pub fn resumed(&mut self, replica: ReplicaId, epoch: Epoch) {
        let said = self.said.entry(replica).or_default();
        let base = self.bases.get(&epoch).copied().unwrap_or_default();
        *said = match said.epoch == epoch {
            true => Said { epoch, told: said.told, told_open: said.told_open, ..Said::default() },
            false => Said { epoch, told: base, ..Said::default() },
        };
    }

    /// A replica goes on without its memory, as somebody else.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.said.remove(&replica);
    }
}

/// The place in the whole order of a slot of a pillar, in an epoch that begins behind this base.
fn slot_of(base: Slot, pillars: u64, (pillar, row): (u8, Slot)) -> Slot {
    let rows = row.0.saturating_sub(base.0.div_ceil(pillars) + 1);
    Slot(base.0 + 1 + rows * pillars + u64::from(pillar))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::membership;
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::View;

    const ME: ReplicaId = ReplicaId(1);
    const CLIENT: ClientId = ClientId([7; 32]);

    fn checker(n: usize, pillars: u8) -> Reads {
        let mut first = membership(1, n, 1);
        first.lane.pillars = pillars;
        let mut checker = Reads::new(&first);
        checker.judge_by(Some("commit"));
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
        checker.told(ME, Slot(5), true);
        checker.told(ME, Slot(4), true);
        checker.said(ME, &commit(0, 9));
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 5).unwrap();
        let broken = answers(&mut checker, 2, 4).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("told clients"), "{broken}");
        checker.resumed(ME, Epoch(0));
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
        checker.told(ME, Slot(3), true);
        checker.told(ME, Slot(6), false);
        answers(&mut checker, 1, 5).unwrap_err();
        checker.resumed(ME, Epoch(0));
        answers(&mut checker, 2, 5).unwrap_err();
        checker.entered(ME);
        answers(&mut checker, 3, 3).unwrap();
        answers(&mut checker, 4, 2).unwrap_err();
    }

    #[test]
    fn an_epoch_begins_with_all_that_clients_could_rely_on() {
        let mut checker = checker(4, 1);
        checker.told(ME, Slot(5), true);
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
        assert_eq!(slot_of(Slot(0), 1, (0, Slot(5))), Slot(5));
        assert_eq!(slot_of(Slot(0), 3, (2, Slot(2))), Slot(6));
        assert_eq!(slot_of(Slot(7), 3, (0, Slot(4))), Slot(8));
        let mut checker = checker(4, 3);
        checker.said(ME, &commit(2, 2));
        checker.asked(ME, CLIENT, 1);
        answers(&mut checker, 1, 5).unwrap_err();
    }
}
