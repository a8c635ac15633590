//! No correct replica decides anything that the messages do not justify: for a slot that became
//! final, a view that was entered, a state that became stable and a message that speaks for others,
//! enough replicas have said what the paper asks for, of the same view and with the same content.
//!
//! Harm needs more than one replica that counts wrongly; this names the first that does. The
//! protocol's own code, which counts, is not asked: beside it stands what has to be said
//! ([`pentarchy_core::ballot`]), and what was said is what replicas were seen to send. Of a faulty
//! replica nobody knows what it sent to whom, so each counts as if it had said whatever is asked.
//!
//! What it does not compare: the batches that a view takes over, the history that makes a
//! speculative slot final, and in which pillar a view was entered or a state became stable.

use super::{Broken, Verdict};
use pentarchy_core::ballot::{Ballot, Grounds, Justification, Reach};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "justification";

/// What ballots speak of, in the order in which they are looked for.
type Subject = (Epoch, Slot, &'static str, u8, View);

/// See the [module](self).
pub struct Justified {
    /// By epoch.
    rules: BTreeMap<Epoch, Justification>,
    /// How many members each epoch has, and how many of them it tolerates to be faulty.
    sizes: BTreeMap<Epoch, (usize, usize)>,
    /// How many replicas are faulty.
    faulty: usize,
    pillars: u64,
    /// Who said what.
    cast: BTreeMap<Subject, BTreeMap<Digest, ReplicaSet>>,
    /// In which epoch each correct replica is.
    epochs: BTreeMap<ReplicaId, Epoch>,
    /// Behind which slot each epoch begins.
    bases: BTreeMap<Epoch, Slot>,
}

impl Justified {
    /// Nothing was said yet in this group, of which so many are faulty.
    #[must_use]
    pub fn new(membership: &Membership, faulty: usize) -> Self {
        let (n, f) = (membership.n(), membership.f);
        let all = (0..n as u16).map(ReplicaId);
        Self {
            rules: BTreeMap::new(),
            sizes: BTreeMap::from([(membership.epoch, (n, f))]),
            faulty,
            pillars: u64::from(membership.lane.pillars.max(1)),
            cast: BTreeMap::new(),
            epochs: all.map(|id| (id, membership.epoch)).collect(),
            bases: BTreeMap::from([(membership.epoch, membership.base.slot)]),
        }
    }

    /// Takes from the protocol of an epoch what replicas must have sent before one of them decides.
    pub fn judge_by(&mut self, epoch: Epoch, rules: Justification) {
        // A replica that takes no part has nothing to say of it.
        if !rules.is_none() {
            self.rules.insert(epoch, rules);
        }
    }

    /// The rules of a replica's epoch.
    fn rules(&self, replica: ReplicaId) -> Justification {
        let rules = self.epochs.get(&replica).and_then(|epoch| self.rules.get(epoch));
        rules.copied().unwrap_or(Justification::NONE)
    }

    /// A correct replica is in an epoch from now on.
    pub fn in_epoch(&mut self, replica: ReplicaId, epoch: Epoch) {
        self.epochs.insert(replica, epoch);
    }

    /// A correct replica begins an epoch, behind this slot.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) {
        self.in_epoch(replica, membership.epoch);
        self.bases.insert(membership.epoch, membership.base.slot);
        self.sizes.insert(membership.epoch, (membership.n(), membership.f));
    }

    /// A correct replica cast ballots.
    ///
    /// # Errors
    /// If one speaks for others who have not said what it claims.
    pub fn said(&mut self, replica: ReplicaId, ballots: &[Ballot]) -> Verdict {
        let rules = self.rules(replica);
        for ballot in ballots {
            self.cast(replica, ballot);
            for (kind, grounds) in rules.of_ballot {
                let Ballot { view, slot, pillar, content, .. } = *ballot;
                if *kind == ballot.kind
                    && self.voters(replica, slot, grounds.kind, (pillar, view), content)
                        < self.needed(replica, grounds)
                {
                    let what = format!("says {kind} of {view} {slot}");
                    return Err(self.broken(replica, &what, core::slice::from_ref(grounds)));
                }
            }
        }
        Ok(())
    }

    fn cast(&mut self, replica: ReplicaId, ballot: &Ballot) {
        let Ballot { kind, pillar, view, slot, content } = *ballot;
        let subject = (self.epochs[&replica], slot, kind, pillar, view);
        self.cast.entry(subject).or_default().entry(content).or_default().insert(replica);
    }

    /// A slot became final at a correct replica.
    ///
    /// # Errors
    /// If nothing justifies it.
    pub fn finalized(&self, replica: ReplicaId, slot: Slot, batch: Digest) -> Verdict {
        let Some(base) = self.base(replica) else { return Ok(()) };
        let (pillar, row) = self.place(base, slot);
        let grounds = self.rules(replica).of_final;
        let good = |it: &Grounds| self.proves(replica, it, (pillar, row), batch);
        if grounds.is_empty() || grounds.iter().any(good) {
            return Ok(());
        }
        Err(self.broken(replica, &format!("takes {slot} for final"), grounds))
    }

    /// A correct replica entered a view, of whichever pillar.
    ///
    /// # Errors
    /// If not enough was said before.
    pub fn entered(&self, replica: ReplicaId, view: View) -> Verdict {
        if view == View(0) {
            return Ok(());
        }
        let enough = |pillar: u8, grounds: &Grounds| {
            self.most(replica, Slot(0), grounds.kind, (pillar, view))
                >= self.needed(replica, grounds)
        };
        let pillars = 0..self.pillars as u8;
        let all = self.rules(replica).of_view;
        if pillars.into_iter().any(|pillar| all.iter().all(|grounds| enough(pillar, grounds))) {
            return Ok(());
        }
        Err(self.broken(replica, &format!("enters {view}"), all))
    }

    /// A correct replica takes a state for stable. The one with which its epoch begins is justified
    /// by how the one before ended ([`super::epoch_handover`]).
    ///
    /// # Errors
    /// If not enough vouched for it.
    pub fn stable(&self, replica: ReplicaId, slot: Slot, state: Digest) -> Verdict {
        let Some(base) = self.base(replica).filter(|base| slot > *base) else { return Ok(()) };
        let (_, row) = self.place(base, slot);
        let vouched = |grounds: &Grounds| {
            (0..self.pillars as u8).any(|pillar| {
                let about = (pillar, View(0));
                self.voters(replica, row, grounds.kind, about, state)
                    >= self.needed(replica, grounds)
            })
        };
        let grounds = self.rules(replica).of_stable;
        if grounds.is_empty() || grounds.iter().any(vouched) {
            return Ok(());
        }
        Err(self.broken(replica, &format!("takes {slot} for stable"), grounds))
    }

    /// How many correct replicas have to say it, if all faulty ones do.
    fn needed(&self, replica: ReplicaId, grounds: &Grounds) -> usize {
        let (n, f) = self.size(replica);
        (grounds.voters)(n, f).saturating_sub(self.faulty)
    }

    /// How many members the replica's epoch has, and how many of them may be faulty. Of one that
    /// nobody was seen to begin, as many as the one before.
    fn size(&self, replica: ReplicaId) -> (usize, usize) {
        let epoch = self.epochs.get(&replica).copied().unwrap_or(Epoch(0));
        let before = self.sizes.range(..=epoch).next_back();
        before.map_or((0, 0), |(_, size)| *size)
    }

    /// Behind which slot the replica's epoch begins; none if nobody was seen to begin it.
    fn base(&self, replica: ReplicaId) -> Option<Slot> {
        self.bases.get(&self.epochs[&replica]).copied()
    }

    /// Which slot of which pillar a slot of the order is.
    fn place(&self, base: Slot, slot: Slot) -> (u8, Slot) {
        let Some(before) = slot.0.checked_sub(base.0 + 1) else { return (0, slot) };
        let row = base.0.div_ceil(self.pillars) + 1 + before / self.pillars;
        ((before % self.pillars) as u8, Slot(row))
    }

    /// How many correct replicas said this of a subject.
    fn voters(
        &self,
        replica: ReplicaId,
        slot: Slot,
        kind: &'static str,
        (pillar, view): (u8, View),
        content: Digest,
    ) -> usize {
        let subject = (self.epochs[&replica], slot, kind, pillar, view);
        let said = self.cast.get(&subject).and_then(|said| said.get(&content));
        said.map_or(0, |who| who.len())
    }

    /// The most correct replicas that said the same of a subject.
    fn most(
        &self,
        replica: ReplicaId,
        slot: Slot,
        kind: &'static str,
        (pillar, view): (u8, View),
    ) -> usize {
        let said = self.cast.get(&(self.epochs[&replica], slot, kind, pillar, view));
        said.into_iter().flatten().map(|(_, who)| who.len()).max().unwrap_or_default()
    }

    /// Whether these ballots prove what a slot orders.
    fn proves(
        &self,
        replica: ReplicaId,
        grounds: &Grounds,
        (pillar, slot): (u8, Slot),
        batch: Digest,
    ) -> bool {
        let (epoch, needed) = (self.epochs[&replica], self.needed(replica, grounds));
        let last = match grounds.reach {
            Reach::Slot => slot,
            Reach::UpTo | Reach::Cumulative => Slot(u64::MAX),
            Reach::TakenOver(opening) => {
                return self.was_taken_over(epoch, grounds.kind, opening, (pillar, slot), needed);
            }
        };
        let mut of_view: BTreeMap<View, ReplicaSet> = BTreeMap::new();
        let from = (epoch, slot, "", 0, View(0));
        let about = self.cast.range(from..);
        let about = about.take_while(|((of, at, ..), _)| *of == epoch && *at <= last);
        let of_kind = |(_, _, kind, of, _): &Subject| (*kind, *of) == (grounds.kind, pillar);
        let mut about = about.filter(|(subject, _)| of_kind(subject));
        about.any(|((.., view), said)| {
            if grounds.reach == Reach::Cumulative {
                let voters = of_view.entry(*view).or_default();
                said.values().flat_map(|who| who.iter()).for_each(|id| {
                    voters.insert(id);
                });
                return voters.len() >= needed;
            }
            let named = |content: &Digest| grounds.reach == Reach::UpTo || *content == batch;
            said.iter().any(|(content, who)| named(content) && who.len() >= needed)
        })
    }

    /// Whether so many committed to a NEW-VIEW that takes over this slot. What a faulty primary
    /// said in its NEW-VIEW nobody knows.
    fn was_taken_over(
        &self,
        epoch: Epoch,
        kind: &'static str,
        opening: &'static str,
        (pillar, slot): (u8, Slot),
        needed: usize,
    ) -> bool {
        let from = (epoch, Slot(0), kind, pillar, View(0));
        let to = (epoch, Slot(0), kind, pillar, View(u64::MAX));
        self.cast.range(from..=to).any(|((.., view), said)| {
            said.iter().filter(|(_, who)| who.len() >= needed).any(|(content, _)| {
                match self.end_of(epoch, opening, (pillar, *view), content) {
                    Some(end) => slot <= end,
                    None => self.faulty > 0,
                }
            })
        })
    }

    /// Up to where a NEW-VIEW takes slots over, if a correct replica sent it.
    fn end_of(
        &self,
        epoch: Epoch,
        opening: &'static str,
        (pillar, view): (u8, View),
        content: &Digest,
    ) -> Option<Slot> {
        let from = (epoch, Slot(0), "", 0, View(0));
        let of_epoch = self.cast.range(from..).take_while(|((of, ..), _)| *of == epoch);
        let mut openings = of_epoch
            .filter(|((_, _, kind, of, at), _)| (*kind, *of, *at) == (opening, pillar, view));
        openings.find(|(_, said)| said.contains_key(content)).map(|((_, end, ..), _)| *end)
    }

    fn broken(&self, replica: ReplicaId, what: &str, grounds: &[Grounds]) -> Broken {
        let (n, f) = self.size(replica);
        let kinds: Vec<String> =
            grounds.iter().map(|it| format!("{} of {}", it.kind, (it.voters)(n, f))).collect();
        let detail = format!(
            "{replica} {what}, and there is no {} of {n}, counting {} faulty",
            kinds.join(", no "),
            self.faulty
        );
        Broken::new(PROPERTY, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ballot::majority;

    const RULES: Justification = Justification {
        of_final: &[
            Grounds { kind: "commit", voters: majority, reach: Reach::Slot },
            Grounds { kind: "enter", voters: majority, reach: Reach::TakenOver("opening") },
        ],
        of_view: &[Grounds { kind: "view_change", voters: majority, reach: Reach::Slot }],
        of_stable: &[Grounds { kind: "checkpoint", voters: majority, reach: Reach::UpTo }],
        of_ballot: &[("enter", Grounds { kind: "found", voters: majority, reach: Reach::Slot })],
        to_be_shown: None,
    };
    const A: Digest = Digest([1; 32]);
    const B: Digest = Digest([2; 32]);
    const R0: ReplicaId = ReplicaId(0);

    fn group(faulty: usize) -> Justified {
        let mut checker = Justified::new(&crate::world::membership(1, 3, 1), faulty);
        checker.judge_by(Epoch(0), RULES);
        checker
    }

    fn commit(it: &mut Justified, id: u16, view: u64, content: Digest) {
        let ballot = Ballot::of_slot("commit", View(view), Slot(4), content);
        it.said(ReplicaId(id), &[ballot]).unwrap();
    }

    #[test]
    fn a_slot_is_final_by_enough_commitments_to_the_same_in_one_view() {
        let mut checker = group(0);
        commit(&mut checker, 0, 1, A);
        commit(&mut checker, 1, 2, A);
        commit(&mut checker, 2, 1, B);
        let broken = checker.finalized(R0, Slot(4), A).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("commit of 2"), "{broken}");
        commit(&mut checker, 2, 2, A);
        checker.finalized(R0, Slot(4), A).unwrap();
        checker.finalized(R0, Slot(5), A).unwrap_err();
    }

    #[test]
    fn a_commitment_to_a_slot_may_be_one_to_all_before_it() {
        let mut checker = Justified::new(&crate::world::membership(1, 5, 2), 0);
        let cumulative = Grounds { kind: "commit", voters: majority, reach: Reach::Cumulative };
        let of_final: &[Grounds] = Box::leak(Box::new([cumulative]));
        checker.judge_by(Epoch(0), Justification { of_final, ..RULES });
        let to = |slot, view| [Ballot::of_slot("commit", View(view), Slot(slot), A)];
        checker.said(R0, &to(5, 1)).unwrap();
        checker.said(ReplicaId(2), &to(7, 1)).unwrap();
        checker.said(ReplicaId(1), &to(7, 2)).unwrap();
        checker.finalized(R0, Slot(5), A).unwrap_err();
        checker.said(ReplicaId(1), &to(6, 1)).unwrap();
        checker.finalized(R0, Slot(5), A).unwrap();
        checker.finalized(R0, Slot(6), A).unwrap_err();
    }

    #[test]
    fn the_faulty_may_have_said_anything() {
        let mut checker = group(1);
        commit(&mut checker, 1, 2, A);
        checker.finalized(R0, Slot(4), A).unwrap();
        checker.finalized(R0, Slot(4), B).unwrap_err();
    }

    #[test]
    fn a_view_takes_over_what_its_new_view_names() {
        let enter = Ballot::of_view("enter", View(1), A);
        let mut checker = group(0);
        checker.said(R0, &[Ballot::of_slot("opening", View(1), Slot(3), A)]).unwrap();
        let found = Ballot::of_view("found", View(1), A);
        checker.said(R0, &[found]).unwrap();
        checker.said(R0, &[enter]).unwrap_err();
        for id in [1, 2] {
            checker.said(ReplicaId(id), &[found, enter]).unwrap();
        }
        checker.finalized(R0, Slot(3), B).unwrap();
        checker.finalized(R0, Slot(4), B).unwrap_err();
    }

    #[test]
    fn views_and_states_need_their_quorum_in_the_same_epoch() {
        let mut checker = group(0);
        let left = Ballot::of_view("view_change", View(1), Digest::default());
        let vouches = Ballot::of_slot("checkpoint", View(0), Slot(8), A);
        checker.said(R0, &[left, vouches]).unwrap();
        checker.in_epoch(ReplicaId(1), Epoch(7));
        checker.said(ReplicaId(1), &[left, vouches]).unwrap();
        checker.entered(R0, View(1)).unwrap_err();
        checker.stable(R0, Slot(8), A).unwrap_err();
        checker.said(ReplicaId(2), &[left, vouches]).unwrap();
        checker.entered(R0, View(1)).unwrap();
        checker.stable(R0, Slot(8), A).unwrap();
        checker.stable(R0, Slot(8), B).unwrap_err();
    }
}
