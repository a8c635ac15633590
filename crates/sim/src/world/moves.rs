//! Takes note of how correct replicas move, for searches that look for worlds unlike those before.

use super::World;
use crate::coverage::Coverage;
use crate::observation::Observation;
use core::mem::discriminant;
use pentarchy_core::ids::{Epoch, Slot, View};

/// What a replica handles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Input {
    #[default]
    Nothing,
    /// A packet of this kind; of a protocol's messages, also which.
    Packet(u8, u8),
    /// A timer of this kind ran out.
    Timer(u8),
    /// Its disk has done a job.
    Disk,
    /// A round ended.
    Round,
}

/// Where a replica stood.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stood {
    epoch: Epoch,
    view: View,
    phase: &'static str,
    committed: Slot,
    stable: Slot,
}

/// From one phase to another, by what, and over how many views and epochs.
type Move = (Input, &'static str, &'static str, u64, bool);

/// How a replica moved lately.
#[derive(Default)]
pub(super) struct Moves {
    stood: Option<Stood>,
    last: [Option<Move>; 3],
}

/// Where one replica stands compared with the others: by how many views it is behind, its phase, by
/// how many slots it is ahead, and whether its checkpoint is.
type Compared = (u64, &'static str, u64, bool);

impl World<'_> {
    /// From now on the world takes note of its coverage.
    pub(crate) fn take_note(&mut self) {
        self.coverage = Some(Coverage::default());
    }

    /// What it took note of.
    pub(crate) fn into_coverage(self) -> Option<Coverage> {
        self.coverage
    }

    /// A replica is about to handle something.
    pub(super) fn handles(&mut self, input: impl FnOnce() -> Input) {
        if self.coverage.is_some() {
            self.handled = input();
        }
    }

    /// A correct replica shows something.
    pub(super) fn cover_seen(&mut self, index: usize, seen: &Observation) {
        let Some(coverage) = &mut self.coverage else { return };
        let phase = self.replicas[index].moves.stood.map(|stood| stood.phase);
        coverage.note((discriminant(seen), phase));
        if let Observation::Rejected { why, .. } = seen {
            coverage.note((self.handled, discriminant(why)));
        }
    }

    /// A correct replica has handled something.
    pub(super) fn cover(&mut self, index: usize) {
        if self.coverage.is_none() {
            return;
        }
        let replica = &mut self.replicas[index];
        let status = replica.node.core().status();
        let epoch = replica.node.epoch();
        let (view, phase) = (status.view, status.phase);
        let (committed, stable) = (status.committed, status.stable);
        let now = Stood { epoch, view, phase, committed, stable };
        let before = replica.moves.stood.replace(now).unwrap_or(now);
        let views = now.view.0.saturating_sub(before.view.0).min(2);
        let step = (self.handled, before.phase, now.phase, views, now.epoch != before.epoch);
        let moved = (now.committed > before.committed, now.stable > before.stable);
        let is_move = (before.phase, before.view, before.epoch) != (phase, view, epoch);
        let row = is_move.then(|| {
            replica.moves.last.rotate_left(1);
            replica.moves.last[2] = Some(step);
            replica.moves.last
        });
        let group = is_move.then(|| self.compared());
        if let Some(coverage) = &mut self.coverage {
            coverage.note((step, moved));
            row.into_iter().for_each(|row| coverage.note(row));
            group.into_iter().for_each(|group| coverage.note(group));
        }
    }

    /// Where correct replicas stand, whichever is which.
    fn compared(&self) -> Vec<Compared> {
        let all: Vec<_> = self.correct().map(|(_, it)| it.node.core().status()).collect();
        let highest = all.iter().map(|it| it.view.0).max().unwrap_or_default();
        let lowest = all.iter().map(|it| it.committed.0).min().unwrap_or_default();
        let stable = all.iter().map(|it| it.stable).min().unwrap_or_default();
        let mut compared: Vec<Compared> = all
            .iter()
            .map(|it| {
                let (behind, ahead) = (highest - it.view.0, it.committed.0 - lowest);
                (behind.min(3), it.phase, ahead.min(2), it.stable > stable)
            })
            .collect();
        compared.sort_unstable();
        compared
    }
}
