//! Which replicas hear a message, by its view and kind and not by the clock. For each view and each
//! kind of message the seed says whether all replicas hear it, a few or none. A few are as many as
//! decide about quorums: one, `f`, `f + 1`, or all but that many. So a vote reaches just enough
//! replicas, or one too few, for as long as the view lasts, however often its author repeats it.

use crate::rng::Rng;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, View};

/// Who hears what in one world.
#[derive(Clone, Copy)]
pub struct Hearing {
    /// What all of it is drawn from.
    pub number: u64,
    /// Replicas.
    pub n: usize,
    /// How many of them may be faulty.
    pub f: usize,
}

impl Hearing {
    /// Whether the replica at one place hears a message of this kind from the one at another that
    /// is in this view.
    #[must_use]
    pub fn reaches(self, view: View, kind: u8, from: ReplicaId, to: ReplicaId) -> bool {
        let said = (view.0 << 8 | u64::from(kind)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = Rng::new(self.number.rotate_left(40) ^ said);
        match rng.below(10) {
            0..4 => true,
            4..7 => self.draw_few(&mut rng).contains(to),
            7..9 => {
                let mut own = Rng::new(rng.next_u64() ^ u64::from(from.0));
                self.draw_few(&mut own).contains(to)
            }
            _ => false,
        }
    }

    /// Some replicas, as many as a quorum has or lacks.
    fn draw_few(self, rng: &mut Rng) -> ReplicaSet {
        let Self { n, f, .. } = self;
        let count = *rng.pick(&[1, f, f + 1, n - f - 1, n - f]);
        let mut ids: Vec<ReplicaId> = (0..n as u16).map(ReplicaId).collect();
        let mut draw = |_| ids.swap_remove(rng.below(ids.len() as u64) as usize);
        (0..count).map(&mut draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_and_a_kind_decide_who_hears_and_some_are_heard_by_exact_minorities() {
        let hearing = Hearing { number: 7, n: 5, f: 2 };
        let hearers = |view, kind, from| {
            let hears =
                |to: &u16| hearing.reaches(View(view), kind, ReplicaId(from), ReplicaId(*to));
            (0..5).filter(hears).count()
        };
        let mut seen = [0; 6];
        for view in 0..40 {
            for kind in 0..10 {
                assert_eq!(
                    hearers(view, kind, 1),
                    hearers(view, kind, 1),
                    "it is repeated in vain"
                );
                seen[hearers(view, kind, 0)] += 1;
            }
        }
        let of = |count: usize| seen[count];
        assert!(of(0) > 20 && of(5) > 100, "{seen:?}");
        assert!((1..=3).all(|count| of(count) > 20) && of(4) == 0, "{seen:?}");
        let all = (0..40).flat_map(|view| (0..10).map(move |kind| (view, kind)));
        let differ =
            all.filter(|(view, kind)| hearers(*view, *kind, 0) != hearers(*view, *kind, 1));
        assert!(differ.count() > 20, "who speaks matters too, now and then");
    }
}
