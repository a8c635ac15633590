//! What a view starts from: in each slot the outcome of a set of VIEW-CHANGEs. The argument is on
//! the protocol's page.

use super::claims::{Claims, Written};
use super::signed_writes::SignedWrites;
use super::variant::Variant;
use crate::common::batch_store::null;
use alloc::vec::Vec;
use core::cmp::Reverse;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::mutant;
use pentarchy_core::quorum::Quorums;

/// What a view starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Start {
    /// The highest stable checkpoint that was claimed.
    pub base: Slot,
    /// The lock that binds each slot behind it, up to the last slot that is bound; none where
    /// nothing can have been decided.
    pub list: Vec<Option<Written>>,
}

/// One that left, and what it claims.
pub type Left<'a> = (ReplicaId, &'a Claims);

impl Start {
    /// What these claims, with what proves that others wrote, have a view start from. None as long
    /// as they leave it open in some slot: whoever waits for more claims learns it.
    #[must_use]
    pub fn of<V: Variant>(
        members: &[Left<'_>],
        proofs: &[SignedWrites],
        quorums: Quorums,
    ) -> Option<Self> {
        let base = members.iter().map(|(_, claims)| claims.stable).max().unwrap_or_default();
        let last = members.iter().filter_map(|(_, claims)| claims.slots.last());
        let last = last.map(|it| it.slot).max().unwrap_or_default();
        let slots = (base.0.saturating_add(1)..=last.0).map(Slot);
        let outcome = |slot| {
            if V::WRITES {
                outcome(members, proofs, slot, quorums)
            } else {
                Some(highest_lock(members, slot, quorums))
            }
        };
        let mut list = slots.map(outcome).collect::<Option<Vec<_>>>()?;
        // Where nothing is bound nothing was decided: behind the last bound slot the primary can as
        // well propose.
        while list.last().is_some_and(Option::is_none) {
            list.pop();
        }
        Some(Self { base, list })
    }

    /// The last slot that the view takes over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.list.len() as u64))
    }

    /// The slots that a lock binds.
    pub fn bound(&self) -> impl Iterator<Item = (Slot, Written)> {
        let slots = (self.base.0.saturating_add(1)..).map(Slot);
        slots.zip(&self.list).filter_map(|(slot, bound)| Some((slot, (*bound)?)))
    }

    /// What each slot that the view takes over orders.
    pub fn batches(&self) -> impl Iterator<Item = (Slot, Digest)> {
        let empty = null().digest();
        let slots = (self.base.0.saturating_add(1)..).map(Slot);
        let batch = move |bound: &Option<Written>| bound.map_or(empty, |bound| bound.batch);
        slots.zip(self.list.iter().map(batch))
    }
}

/// The lock that binds a slot; inside, none if nothing can have been decided there. None if the
/// claims do not tell.
fn outcome(
    members: &[Left<'_>],
    proofs: &[SignedWrites],
    slot: Slot,
    quorums: Quorums,
) -> Option<Option<Written>> {
    let locks = members.iter().map(|(_, claims)| claims.lock(slot));
    let bound = locks.clone().flatten().filter(|lock| {
        is_unrivalled(locks.clone(), lock, quorums)
            && is_written(members, proofs, slot, lock, quorums)
    });
    let highest = bound.max_by_key(|lock| (lock.view, Reverse(lock.batch)));
    let unlocked = locks.filter(Option::is_none).count();
    match highest {
        Some(lock) => Some(Some(lock)),
        None => (unlocked >= quorums.byzantine_quorum()).then_some(None),
    }
}

/// The same where nobody lies: a majority locked what is decided, so one of any `n - f` shows it,
/// and whoever locked something else in a higher view was told by a primary that knew better.
fn highest_lock(members: &[Left<'_>], slot: Slot, quorums: Quorums) -> Option<Written> {
    let locks = members.iter().filter_map(|(_, claims)| claims.lock(slot));
    let alike = |lock: &Written| locks.clone().filter(|it| it == lock).count();
    let few = |lock: &Written| alike(lock) < quorums.weak();
    let shown =
        locks.clone().filter(|it| !mutant!("modsmart-cft.lock-needs-witnesses") || !few(it));
    let upside_down = mutant!("modsmart-cft.lowest-lock-wins");
    shown.max_by_key(|it| if upside_down { u64::MAX - it.view.0 } else { it.view.0 })
}

/// Whether a quorum has this lock or a lower one: nobody of it helped to decide anything else in
/// this view or a higher one.
fn is_unrivalled(
    locks: impl Iterator<Item = Option<Written>>,
    lock: &Written,
    quorums: Quorums,
) -> bool {
    let agrees = |other: &Option<Written>| match other {
        None => true,
        Some(other) => other.view < lock.view || other == lock,
    };
    locks.filter(agrees).count() >= quorums.byzantine_quorum() || mutant!("modsmart.no-first-count")
}

/// Whether somebody correct wrote the batch in this view or a higher one, so that no lie binds.
fn is_written(
    members: &[Left<'_>],
    proofs: &[SignedWrites],
    slot: Slot,
    lock: &Written,
    quorums: Quorums,
) -> bool {
    let wrote = |(_, claims): &&Left<'_>| claims.of(slot).is_some_and(|it| it.wrote(lock));
    let mut writers: ReplicaSet = members.iter().filter(wrote).map(|(author, _)| *author).collect();
    for proof in proofs.iter().filter(|it| it.slot == slot && it.written == *lock) {
        for (author, _) in &proof.signatures {
            writers.insert(*author);
        }
    }
    writers.len() >= quorums.weak() || mutant!("modsmart.lock-needs-no-writers")
}

#[cfg(test)]
mod tests;
