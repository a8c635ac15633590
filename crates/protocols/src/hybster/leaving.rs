//! Leaving views (Hybster section 5.2.3, view-change certificates).
//!
//! The counter's certificate on a VIEW-CHANGE names only the position before. Who leaves twice in a
//! row could hide what it said before the first time. So a replica that has not accepted the
//! NEW-VIEW of a view leaves that only with a *view-change certificate*: a quorum of VIEW-CHANGEs
//! for it, none of which comes from a later view than the one that it accepted last. One of them is
//! bound to show what may have been committed there, and this replica shows it from then on.

use super::certificate::{CertifiedViewChange, Prepared, ViewChange, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Phase};
use crate::common::frame::changing::Changing;
use crate::common::frame::checkpointing::Checkpointing;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

/// By what a view can be left.
enum Basis {
    /// Its NEW-VIEW was accepted.
    Accepted(View),
    /// A view-change certificate for it.
    Certificate(Arc<ViewChanges>),
}

impl Basis {
    fn view(&self) -> View {
        match self {
            Self::Accepted(view) => *view,
            Self::Certificate(changes) => changes.view,
        }
    }
}

impl Hybster {
    /// Gives up every lower view.
    pub(super) fn move_to(&mut self, view: View, out: &mut Effects<Self>) {
        // What it said last goes on being told: others may need it to leave, too.
        let said = self.frame.own.view_change.take();
        self.frame.move_to(view, out);
        self.frame.own.view_change = said;
        self.phase = Phase::Changing;
        self.forget_views();
        self.drop_idle_wants();
    }

    /// Forgets what was said about views that no longer matter.
    pub(super) fn forget_views(&mut self) {
        let (left, view, from) = (self.left, self.frame.view, self.from());
        let is_over = self.frame.is_entered();
        let matters = |of: View| of <= view && (of == left || of.next() >= view) && !is_over;
        self.heard.retain(|(of, _), _| matters(*of));
        self.handed.retain(|_, changes| changes.view >= left && !is_over);
        self.candidates.retain(|_, verified| match &*verified.message {
            Message::NewView(opening) => opening.view() > from,
            _ => false,
        });
    }

    /// Stops wanting batches that only VIEW-CHANGEs of an earlier attempt showed.
    fn drop_idle_wants(&mut self) {
        let ordered = self.window.iter().filter_map(|(_, state)| state.batch);
        let taken_over = self.accepted().into_iter().flat_map(|it| it.entry.list.iter().copied());
        let candidates = self.candidates.values().filter_map(|it| match &*it.message {
            Message::NewView(opening) => Some(opening.start().list),
            _ => None,
        });
        let needed: BTreeSet<Digest> =
            ordered.chain(taken_over).chain(candidates.flatten()).collect();
        self.frame.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    pub(super) fn on_view_change(
        &mut self,
        verified: Verified<Message>,
        change: &Arc<ViewChange>,
        out: &mut Effects<Self>,
    ) {
        if verified.author == self.frame.me && change.view == self.left {
            self.frame.own.view_change = Some(verified.clone());
        }
        let (author, ui) = (verified.author, verified.tag.ui().copied());
        let (view, late) = (change.view, change.view < self.frame.view);
        if !late {
            self.on_leaving(verified, view, &change.requests, out);
        }
        if let Some(ui) = ui {
            self.note_change(view, CertifiedViewChange { author, ui, change: change.clone() });
        }
        self.leave(out);
    }

    fn note_change(&mut self, view: View, change: CertifiedViewChange) {
        self.heard.entry((view, change.author)).or_insert(change);
        self.forget_views();
    }

    /// A replica gives the certificate by which it could leave a view.
    pub(super) fn on_view_changes(
        &mut self,
        from: ReplicaId,
        changes: &Arc<ViewChanges>,
        out: &mut Effects<Self>,
    ) {
        if changes.view < self.left || self.frame.is_entered() && changes.view < self.frame.view {
            return;
        }
        for member in &changes.members {
            for (author, (view, signature)) in &member.change.requests {
                self.frame.note_ask(*author, *view, *signature);
            }
        }
        self.try_leave(out);
        if self.frame.is_entered() {
            return;
        }
        mark!("hybster/handed");
        self.handed.insert(from, changes.clone());
        self.leave(out);
    }

    /// Sends VIEW-CHANGE for the view behind each that can be left, up to the one that it wants.
    /// Its own PREPAREs and NEW-VIEW must have come back before: it has to show them with their
    /// certificates, which only the loopback brings.
    pub(super) fn leave(&mut self, out: &mut Effects<Self>) {
        while self.phase == Phase::Changing && self.left < self.frame.view {
            if !self.looping.is_empty() {
                return;
            }
            let Some(basis) = self.find_basis(out) else { return };
            let next = basis.view().next();
            let requests = self.frame.asks.proof(next, self.frame.weak());
            if requests.len() < self.frame.weak() {
                return;
            }
            if let Basis::Certificate(changes) = &basis
                && let Some(proof) = changes.checkpoint()
            {
                let before = (self.left, self.frame.view, self.from());
                self.adopt(proof.clone(), out);
                if before != (self.left, self.frame.view, self.from()) {
                    continue;
                }
            }
            self.leave_by(basis, requests, out);
        }
    }

    fn leave_by(
        &mut self,
        basis: Basis,
        requests: Vec<(ReplicaId, (View, Signature))>,
        out: &mut Effects<Self>,
    ) {
        let view = basis.view().next();
        let members = match &basis {
            Basis::Accepted(_) => &[][..],
            Basis::Certificate(changes) => &changes.members,
        };
        let change = Arc::new(ViewChange {
            view,
            requests,
            checkpoint: self.frame.stable.clone(),
            entry: self.accepted().map(|opening| opening.entry.clone()),
            prepares: self.prepares_to_show(members),
        });
        mark!("hybster/leave");
        self.left = view;
        self.basis = match basis {
            Basis::Accepted(_) => None,
            Basis::Certificate(changes) => Some(changes),
        };
        self.forget_views();
        self.persist_shown(&change, out);
        if !mutant!("hybster.leaving-not-kept") {
            out.persist(Record::Leave { change: change.clone(), basis: self.basis.clone() });
        }
        self.say(Message::ViewChange(change), out);
    }

    /// The highest view that it can leave.
    fn find_basis(&mut self, out: &mut Effects<Self>) -> Option<Basis> {
        let (left, wanted, from) = (self.left, self.frame.view, self.from());
        let may = |view: View| view >= left && view < wanted;
        let unchecked = mutant!("hybster.leaves-without-certificate");
        let accepted = [from, left].into_iter().take(if unchecked { 2 } else { 1 });
        let accepted = accepted.filter(|view| may(*view)).max();
        let mut shown: Vec<(View, Vec<CertifiedViewChange>)> = Vec::new();
        for changes in self.handed.values().filter(|changes| may(changes.view)) {
            shown.push((changes.view, changes.members.clone()));
        }
        let heard: BTreeSet<View> = self.heard.keys().map(|(view, _)| *view).collect();
        for view in heard.into_iter().filter(|view| may(*view)) {
            let of_view = self.heard.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
            shown.push((view, of_view.map(|(_, change)| change.clone()).collect()));
        }
        shown.sort_by_key(|(view, _)| core::cmp::Reverse(*view));
        for (view, members) in shown {
            if accepted.is_some_and(|accepted| accepted >= view) {
                break;
            }
            if let Some(members) = self.resolve(members, out) {
                return Some(Basis::Certificate(Arc::new(ViewChanges { view, members })));
            }
        }
        accepted.map(Basis::Accepted)
    }

    /// A quorum of these that comes from no later view than the one that it accepted last, and
    /// whose batches are here, so that whoever sees them shown by this replica gets them from it.
    fn resolve(
        &mut self,
        members: Vec<CertifiedViewChange>,
        out: &mut Effects<Self>,
    ) -> Option<Vec<CertifiedViewChange>> {
        let quorum = self.frame.quorum();
        if members.len() < quorum {
            return None;
        }
        let from = self.from();
        let mut resolved = Vec::new();
        for member in members {
            let fits = member.change.from() <= from || mutant!("hybster.certificate-unresolved");
            if fits && resolved.len() < quorum && self.holds_shown(&member.change, out) {
                resolved.push(member);
            }
        }
        (resolved.len() == quorum).then_some(resolved)
    }

    /// The PREPAREs of the view that it accepted last, behind what that took over and the stable
    /// checkpoint: what it said there itself, or more if members of a certificate show more. They
    /// are of one primary, with one certificate at each position, so one is the other's beginning.
    fn prepares_to_show(&self, members: &[CertifiedViewChange]) -> Vec<Prepared> {
        let from = self.from();
        let end = self.accepted().map_or(Slot(0), |opening| opening.entry.end());
        let after = self.frame.stable.slot.max(end);
        let mut longest = Vec::new();
        if from == self.frame.entered {
            longest = self.own_prepares(after);
        }
        let of_view = members.iter().filter(|member| member.change.from() == from);
        for member in of_view.filter(|_| !mutant!("hybster.certificate-not-shown")) {
            let shown = member.change.prepares.iter().filter(|prepared| prepared.slot > after);
            if shown.clone().count() > longest.len() {
                longest = shown.copied().collect();
            }
        }
        longest
    }

    /// The PREPAREs of the entered view behind a slot, up to the last that it committed to: those
    /// it holds the batches of, and none that a lying primary made up with a batch that nobody can
    /// find or a time that has not come.
    fn own_prepares(&self, after: Slot) -> Vec<Prepared> {
        let hidden = u64::from(mutant!("hybster.hides-last-commitment"));
        let shown = (after.next().0..self.frame.next_slot.0 - hidden).map_while(|slot| {
            let state = self.window.get(Slot(slot))?;
            let ui = *state.prepare.as_ref()?.tag.ui()?;
            Some(Prepared { slot: Slot(slot), batch: state.batch?, ui })
        });
        shown.collect()
    }

    /// Whether every batch that a VIEW-CHANGE shows is here; wants those that are not.
    pub(super) fn holds_shown(&mut self, change: &ViewChange, out: &mut Effects<Self>) -> bool {
        let mut complete = true;
        let low = self.frame.stable.slot.max(change.checkpoint.slot);
        for slot in (low.0 + 1..=change.shown().0).map(Slot) {
            if let Some(batch) = change.batch(slot) {
                complete &= self.holds(slot, batch, out);
            }
        }
        complete
    }

    /// Whether a batch is here and its time has come: what correct replicas committed to passes
    /// sooner or later, what a liar made up may never.
    pub(super) fn holds(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) -> bool {
        self.frame.bodies.want(slot, batch);
        let Some(time) = self.frame.bodies.get(&batch).map(|batch| batch.time) else {
            return false;
        };
        let future = self.frame.is_future(time);
        if future {
            self.frame.wait_for_clock(slot, time, None, out);
        }
        !future
    }
}
