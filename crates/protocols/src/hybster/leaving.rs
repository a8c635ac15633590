//! Leaving views (Hybster section 5.2.3, view-change certificates).
//!
//! The counter's certificate on a VIEW-CHANGE names only the position before. Who leaves twice in a
//! row could hide what it said before the first time. So a replica that has not accepted the
//! NEW-VIEW of a view leaves that only with a *view-change certificate*: a quorum of VIEW-CHANGEs
//! for it, none of which comes from a later view than the one that it accepted last. One of them is
//! bound to show what may have been committed there, and this replica shows it from then on.

use super::certificate::{CertifiedViewChange, ViewChange, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Phase, Said};
use crate::common::counters::certificate::{Opened, Prepared};
use crate::common::counters::views::holds_shown;
use crate::common::frame::changing::Changing;
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::hooks::ChangesViews;
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
        let said = self.frame.own_view_change.take();
        self.frame.move_to(view, self.frame.executed, out);
        self.frame.own_view_change = said;
        self.phase = Phase::Changing;
        self.forget_views();
        self.drop_idle_bodies();
    }

    /// Forgets what was said about views that no longer matter.
    pub(super) fn forget_views(&mut self) {
        let tables = |it: &Self| (it.heard.len(), it.handed.len(), it.candidates.len());
        let before = tables(self);
        let (left, view) = (self.left, self.frame.view);
        let is_over = self.frame.is_entered();
        let matters = |of: View| of <= view && (of == left || of.next() >= view) && !is_over;
        self.heard.retain(|(of, _), _| matters(*of));
        self.handed.retain(|_, changes| changes.view >= left && !is_over);
        let candidates = self.candidates.keys().copied();
        let useless: Vec<View> = candidates.filter(|view| !self.may_accept(*view)).collect();
        useless.iter().for_each(|view| drop(self.candidates.remove(view)));
        self.forget_acknowledgements();
        if tables(self) != before {
            self.drop_idle_bodies();
        }
    }

    /// Lets go of batches that only messages showed which it has forgotten: liars can show others
    /// for every view that fails. What it ordered, accepted or showed itself it holds, for others
    /// will ask for that.
    fn drop_idle_bodies(&mut self) {
        if self.frame.is_entered() {
            return;
        }
        let mut needed: BTreeSet<Digest> =
            self.slots.window.iter().filter_map(|(_, state)| state.batch).collect();
        for opening in self.opening.iter().chain(&self.later) {
            needed.extend(&opening.entry.start().list);
        }
        for candidate in self.candidates.values() {
            if let Message::NewView(opening) = &*candidate.message {
                needed.extend(opening.start().list);
            }
        }
        let members = self.basis.iter().chain(self.handed.values()).flat_map(|it| &it.members);
        let changes = members.chain(self.heard.values()).map(|member| &member.change);
        for change in changes.chain(self.said.iter().map(|said| &said.change)) {
            let listed = change.entry.iter().flat_map(|entry| &entry.start().list);
            needed.extend(listed.chain(change.prepares.iter().map(|prepared| &prepared.batch)));
        }
        // What it proposed and opened and what has not come back stands in none of these.
        let all = self.slots.slots_awaiting_loopback.is_empty() && !mutant!("hybster.junk-stays");
        let bodies = &mut self.frame.bodies;
        if all {
            bodies.retain(self.frame.stable.slot, |digest| needed.contains(digest));
        } else {
            bodies.retain_wanted(|digest| needed.contains(digest));
        }
    }

    pub(super) fn on_view_change(
        &mut self,
        verified: Verified<Message>,
        change: &Arc<ViewChange>,
        out: &mut Effects<Self>,
    ) {
        if verified.author == self.frame.me && change.view == self.left {
            self.frame.own_view_change = Some(verified.clone());
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
        if self.is_past(changes.view) {
            return;
        }
        for member in &changes.members {
            self.frame.view_requests.show_all(&member.change.requests);
            self.frame.view_requests.leaves(member.author, changes.view);
        }
        self.try_leave(out);
        if self.frame.is_entered() {
            return;
        }
        mark!("hybster/handed");
        if self.handed.insert(from, changes.clone()).is_some() {
            self.drop_idle_bodies();
        }
        self.leave(out);
    }

    /// Sends VIEW-CHANGE for the view behind each that can be left, up to the one that it wants.
    /// Its own PREPAREs and NEW-VIEW must have come back before: it has to show them with their
    /// certificates, which only the loopback brings.
    pub(super) fn leave(&mut self, out: &mut Effects<Self>) {
        while self.phase == Phase::Changing && self.left < self.frame.view {
            if !self.slots.slots_awaiting_loopback.is_empty() {
                return;
            }
            let Some(basis) = self.find_basis(out) else { return };
            let next = basis.view().next();
            let requests = self.frame.view_requests.proof(next, self.frame.weak());
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
            if !self.may_certify() {
                return;
            }
            self.leave_by(basis, requests, out);
        }
    }

    /// Whether a VIEW-CHANGE would show all that the counter says of the view that it comes from.
    /// Only the first one behind a view that was entered has to: the next names a view that was
    /// left.
    fn may_certify(&self) -> bool {
        let is_first = self.left == self.frame.entered && self.from() == self.frame.entered;
        let after = self.frame.stable.slot.max(self.taken_over());
        let shown = || self.slots.prepares_to_show(&self.frame, after);
        !is_first || self.slots.are_all(&self.frame, after, &shown())
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
        let origin = self.accepted().map(|opening| opening.message.clone());
        self.said = Some(Said { change: change.clone(), origin });
        self.basis = match basis {
            Basis::Accepted(_) => None,
            Basis::Certificate(changes) => Some(changes),
        };
        self.forget_views();
        self.persist_shown(&change, out);
        if !mutant!("hybster.leaving-not-kept") {
            out.persist(Record::Leave { change: change.clone(), basis: self.basis.clone() });
        }
        self.slots.say(&self.frame, Message::ViewChange(change), out);
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
            if fits && resolved.len() < quorum && holds_shown(&mut self.frame, &member.change, out)
            {
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
            longest = self.slots.prepares_to_show(&self.frame, after);
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
}
