//! How a liar leaves views and opens them.

use super::super::certificate::{Member, NewView, ViewChange};
use super::super::claims::{Claims, SlotClaim, Written};
use super::super::message::Message;
use super::super::signed_writes::SignedWrites;
use super::super::statements::{STATEMENTS, write_statement};
use super::super::variant::Variant;
use super::Byzantine;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::Hand;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;

/// VIEW-CHANGEs that it can tell.
pub(super) const VIEW_CHANGES: [&str; 7] = [
    "view-change",
    "view-change-empty",
    "view-change-stale",
    "view-change-lock",
    "view-change-unheld",
    "view-change-far",
    "view-change-signed",
];

impl<V: Variant<Seal = Signature>> Byzantine<V> {
    pub(super) fn view_change(&self, kind: &str, view: View, hand: &dyn Hand) -> ViewChange {
        let domain = self.membership.domain();
        let statement = STATEMENTS.request_view_change(&domain, view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.heard.others_asking(self.me, view);
        let weak = self.membership.quorums().weak();
        let requests = core::iter::once(own).chain(others).take(weak).collect();
        let checkpoint = self.knows.heard.checkpoint.clone();
        let claims = self.claims(kind, view);
        let sign = |slot, written: Written| {
            let statement = write_statement(&domain, written.view, slot, &written.batch);
            vec![(self.me, Signature(hand.sign(&statement)))]
        };
        let signs = kind.ends_with("-signed");
        let locks = claims.slots.iter().filter_map(|it| Some((it.slot, it.lock?)));
        let proof = |(slot, written)| {
            let signatures = sign(slot, written);
            SignedWrites { slot, written, signatures }
        };
        let proofs = locks.filter(|_| signs).map(proof).collect();
        ViewChange { claims, requests, checkpoint, proofs }
    }

    fn claims(&self, kind: &str, view: View) -> Claims {
        let stable = self.knows.heard.checkpoint.slot;
        let known = self.knows.written(view, kind == "view-change-stale");
        let last = View(view.0.saturating_sub(1));
        let nobodys = |slot: Slot| Digest::of(&slot.0.to_be_bytes());
        let claim = |(slot, written): (Slot, Written)| SlotClaim {
            slot,
            lock: Some(written),
            writes: vec![written],
        };
        let invented = |slot| claim((slot, Written { view: last, batch: nobodys(slot) }));
        let other = |(slot, written): (Slot, Written)| {
            let batch = self.knows.heard.other_batch(written.batch).unwrap_or_default();
            claim((slot, Written { view: last, batch }))
        };
        let slots: Vec<SlotClaim> = match kind {
            "view-change" | "view-change-stale" => known.into_iter().map(claim).collect(),
            "view-change-lock" => known.into_iter().map(other).collect(),
            "view-change-unheld" | "view-change-signed" => {
                let first = stable.0 + 1;
                (first..first + 3).map(Slot).map(invented).collect()
            }
            "view-change-far" => vec![invented(Slot(stable.0 + WINDOW_SLOTS))],
            _ => Vec::new(),
        };
        Claims { view, stable, slots }
    }

    /// A NEW-VIEW of these VIEW-CHANGEs, which are for another view; with a hand, of which the own
    /// is another lie.
    pub(super) fn new_view(
        &self,
        (view, of): (View, View),
        set: u64,
        forge: Option<&mut dyn Hand>,
    ) -> Message<V> {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        let known: Vec<_> = ids.filter_map(|id| self.knows.changes.get(&(of, id))).collect();
        let mut members: Vec<Member> = known.iter().map(|(member, _)| member.clone()).collect();
        if let Some(hand) = forge
            && let Some(own) = members.iter_mut().find(|member| member.author == self.me)
        {
            let claims = self.claims("view-change-lock", view);
            let statement = claims.statement(&self.membership.domain());
            own.seal = Signature(hand.sign(&statement));
            own.claims = Arc::new(claims);
        }
        let proofs = known.iter().flat_map(|(_, change)| &change.proofs);
        let proofs: BTreeMap<Slot, _> = proofs.map(|it| (it.slot, it.clone())).collect();
        let proofs = proofs.into_values().collect();
        let proven = known.iter().map(|(_, change)| &change.checkpoint);
        let checkpoint = proven.max_by_key(|proof| proof.slot);
        let checkpoint = checkpoint.unwrap_or(&self.knows.heard.checkpoint).clone();
        Message::NewView(Arc::new(NewView { view, members, checkpoint, proofs }))
    }
}
