//! What a view begins with. Everyone computes it from the same VIEW-CHANGEs.

use super::certificate::{Stable, ViewChange};
use super::table::Table;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;

/// What a view begins with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Start {
    /// The highest stable checkpoint that was shown.
    pub base: Stable,
    /// Batches of the slots behind it, and the history after each.
    pub list: Vec<(Digest, Digest)>,
}

impl Start {
    /// Nothing is taken over.
    #[must_use]
    pub const fn empty(base: Stable) -> Self {
        Self { base, list: Vec::new() }
    }

    /// The last slot that is taken over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.slot.0.saturating_add(self.list.len() as u64))
    }

    /// The history up to there.
    #[must_use]
    pub fn history(&self) -> Digest {
        self.list.last().map_or(self.base.state.history, |(_, history)| *history)
    }

    /// The history at a slot, if that is one of these or their base.
    #[must_use]
    pub fn history_at(&self, slot: Slot) -> Option<Digest> {
        match slot.0.checked_sub(self.base.slot.0)? as usize {
            0 => Some(self.base.state.history),
            behind => self.list.get(behind - 1).map(|(_, history)| *history),
        }
    }

    /// Each slot that is taken over, with its batch and the history after it.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, Digest, Digest)> {
        let slots = (self.base.slot.0.saturating_add(1)..).map(Slot);
        slots.zip(&self.list).map(|(slot, (batch, history))| (slot, *batch, *history))
    }

    /// What these have a view begin with: see `docs/protocols/zyzzyva.md`.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn of(members: &[&ViewChange], table: &Table) -> Self {
        let stable = members.iter().map(|member| &member.stable);
        let base = stable.max_by_key(|stable| stable.slot).expect("a view has members").clone();
        // Only what the highest view has to show counts: it inherited all that completed before.
        let last = members.iter().map(|member| member.last_view()).max();
        let any_view = table.printed || mutant!("zyzzyva.older-views-count");
        let of_last = members.iter().filter(|it| any_view || Some(it.last_view()) == last);
        let shown: Vec<(&ViewChange, Shown)> =
            of_last.filter_map(|it| Some((*it, Shown::behind(it, &base)?))).collect();
        let mut list = Self::proven(&shown, &base);
        while let Some(next) = Self::supported(&shown, &base, &list, table) {
            list.push(next);
        }
        Self { base, list }
    }

    /// The longest that has proof: that its view began with it, or a commit certificate.
    fn proven(shown: &[(&ViewChange, Shown)], base: &Stable) -> Vec<(Digest, Digest)> {
        let mut longest: &[(Digest, Digest)] = &[];
        for (member, shown) in shown {
            let certificates = member.certificate.iter().map(|it| it.place);
            let certificates = certificates.filter(|_| !mutant!("zyzzyva.certificates-not-taken"));
            let entries = member.entry.iter().map(|it| it.place);
            for place in certificates.chain(entries) {
                let length = place.slot.0.saturating_sub(base.slot.0) as usize;
                let list = shown.0.get(..length).unwrap_or_default();
                if list.len() > longest.len() {
                    longest = list;
                }
            }
        }
        longest.to_vec()
    }

    /// What comes next by what enough members executed.
    fn supported(
        shown: &[(&ViewChange, Shown)],
        base: &Stable,
        list: &[(Digest, Digest)],
        table: &Table,
    ) -> Option<(Digest, Digest)> {
        let parent = list.last().map_or(base.state.history, |(_, history)| *history);
        let mut counts: BTreeMap<(Digest, Digest), usize> = BTreeMap::new();
        for (_, Shown(shown)) in shown {
            let before = list.len().checked_sub(1).and_then(|at| shown.get(at));
            let follows = before.map_or(list.is_empty(), |(_, history)| *history == parent);
            if let Some(next) = shown.get(list.len()).filter(|_| follows) {
                *counts.entry(*next).or_default() += 1;
            }
        }
        let enough =
            if mutant!("zyzzyva.takes-over-proven-only") { usize::MAX } else { table.support };
        counts.into_iter().find(|(_, count)| *count >= enough).map(|(next, _)| next)
    }
}

/// What a member shows behind a base, as batches with the histories after them.
struct Shown(Vec<(Digest, Digest)>);

impl Shown {
    /// None if it is not on that base, as its own checkpoint says already if that contradicts it.
    fn behind(member: &ViewChange, base: &Stable) -> Option<Self> {
        if member.contradicted.is_some() {
            return None;
        }
        let skip = (base.slot.0 - member.stable.slot.0) as usize;
        let (_, at_base) = member.histories().nth(skip)?;
        let histories = member.histories().skip(skip + 1).map(|(_, history)| history);
        let batches = member.batches.iter().skip(skip).copied();
        (at_base == base.state.history).then(|| Self(batches.zip(histories).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificate::{Committed, Confirmed, Reached, extended};
    use super::super::variant::Kind;
    use super::*;
    use alloc::vec;
    use pentarchy_core::ids::View;
    use pentarchy_core::membership::Base;
    use pentarchy_core::ports::client::Place;
    use pentarchy_core::quorum::Quorums;

    const GROUP: Quorums = Quorums { n: 4, f: 1 };

    fn table() -> Table {
        Table::new(Kind::THREE, GROUP)
    }

    fn batch(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn history(names: &[&str]) -> Digest {
        let base = Stable::initial(Base::default()).state.history;
        names.iter().fold(base, |history, name| extended(&history, &batch(name)))
    }

    fn place(view: u64, names: &[&str]) -> Place {
        let slot = Slot(names.len() as u64);
        Place { view: View(view), slot, history: history(names) }
    }

    /// Who entered this view last, with this in it, executed these.
    fn member(last: u64, entry: &[&str], names: &[&str]) -> ViewChange {
        let confirmed = Confirmed { place: place(last, entry), signatures: vec![] };
        ViewChange {
            view: View(last + 1),
            requests: vec![],
            stable: Stable::initial(Base::default()),
            entry: (last > 0).then_some(confirmed),
            certificate: None,
            contradicted: None,
            batches: names.iter().map(|name| batch(name)).collect(),
        }
    }

    fn proving(view: u64, proven: &[&str], member: ViewChange) -> ViewChange {
        let certificate = Committed { place: place(view, proven), signatures: vec![] };
        ViewChange { certificate: Some(certificate), ..member }
    }

    fn begins_with(members: &[ViewChange], table: &Table) -> Digest {
        let members: Vec<&ViewChange> = members.iter().collect();
        Start::of(&members, table).history()
    }

    #[test]
    fn what_enough_executed_is_taken_over_up_to_where_they_part() {
        let some = [member(0, &[], &["a", "b", "c"]), member(0, &[], &["a", "b", "x"])];
        let [first, second] = some;
        let members = [first, second, member(0, &[], &["a"])];
        assert_eq!(begins_with(&members, &table()), history(&["a", "b"]));
        let members = [member(0, &[], &["a"]), member(0, &[], &["b"]), member(0, &[], &[])];
        assert_eq!(begins_with(&members, &table()), history(&[]), "nothing completed");
    }

    #[test]
    fn a_certificate_outweighs_what_others_executed_and_what_follows_on_it_counts() {
        let proven = proving(0, &["a", "b"], member(0, &[], &["a", "b", "c"]));
        let other = || member(0, &[], &["a", "x", "y"]);
        let members = [proven.clone(), other(), other()];
        assert_eq!(begins_with(&members, &table()), history(&["a", "b"]));
        let members = [proven, member(0, &[], &["a", "b", "c"]), other()];
        assert_eq!(begins_with(&members, &table()), history(&["a", "b", "c"]));
    }

    #[test]
    fn what_a_view_began_with_stays_however_few_went_on() {
        let members = [member(2, &["a", "b"], &["a", "b"]), member(0, &[], &["x"])];
        let [entered, before] = members;
        let members = [entered, before.clone(), before];
        assert_eq!(begins_with(&members, &table()), history(&["a", "b"]));
    }

    /// View 1 began with x and a; y is stable in the first slot.
    #[test]
    fn what_a_checkpoint_contradicts_is_proven_to_be_and_taken_over_by_nobody() {
        let reached = |names| Reached { history: history(names), state: Digest::default() };
        let stable = Stable { slot: Slot(1), state: reached(&["y"]), signatures: vec![] };
        let contradicted = Some(history(&["x"]));
        let other = member(1, &["x", "a"], &["a"]);
        let shows = ViewChange { stable, contradicted, ..other };
        assert!(shows.proves_contradiction());
        let members = [shows.clone(), shows.clone(), member(0, &[], &["y", "b"])];
        assert_eq!(begins_with(&members, &table()), history(&["y"]));
        let made_up = [
            ViewChange { contradicted: Some(history(&["z"])), ..shows.clone() },
            ViewChange { contradicted: Some(history(&["y"])), ..shows.clone() },
            ViewChange { batches: vec![batch("b")], ..shows.clone() },
            ViewChange { batches: vec![batch("a"), batch("b")], ..shows.clone() },
            ViewChange { batches: vec![], ..shows.clone() },
            ViewChange { entry: None, ..shows.clone() },
            proving(1, &["x", "a"], shows),
        ];
        assert!(made_up.iter().all(|it| !it.proves_contradiction()));
    }

    /// The attack on the view change as printed (Abraham, Gueta, Malkhi, Alvisi, Kotla, Martin,
    /// 2017), in the first slot. In view 0 the primary r0 orders a at r1, and b at r2 and r3, and
    /// keeps a certificate for b, as it votes for both. In view 1 all begin with a, as r0 claims to
    /// have executed that, and a client has the same answer from all four. For view 2, r0 shows its
    /// old certificate.
    #[test]
    fn an_old_certificate_does_not_undo_what_completed_later() {
        let first = [member(0, &[], &["a"]), member(0, &[], &["a"]), member(0, &[], &["b"])];
        let liar = proving(0, &["b"], member(0, &[], &["b"]));
        // As printed, nobody shows how it entered a view.
        let entered = |table: &Table| match table.printed {
            true => ViewChange { entry: None, ..member(1, &["a"], &["a"]) },
            false => member(1, &["a"], &["a"]),
        };
        for kind in [Kind::THREE, Kind::PRINTED] {
            let table = Table::new(kind, GROUP);
            assert_eq!(begins_with(&first, &table), history(&["a"]));
            let second = [liar.clone(), entered(&table), entered(&table)];
            let expected = if table.printed { history(&["b"]) } else { history(&["a"]) };
            assert_eq!(begins_with(&second, &table), expected);
        }
    }

    /// `f` who lie and one who was misled are no more than `f + 1` in a group of `5f + 1`, if it
    /// opens views with `4f + 1` members.
    #[test]
    fn zyzzyva5_opens_views_with_enough_members() {
        let table = Table::new(Kind::FIVE, Quorums { n: 6, f: 1 });
        assert_eq!((table.fast, table.members, table.support, table.quorum), (5, 5, 3, 4));
        let done = || member(0, &[], &["a"]);
        let other = || member(0, &[], &["b"]);
        let members = [other(), other(), done(), done(), done()];
        assert_eq!(begins_with(&members, &table), history(&["a"]));
    }
}
