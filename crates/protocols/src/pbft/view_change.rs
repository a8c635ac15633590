//! Changing the primary: ask, leave, open, enter (section 4.4, with the repairs that
//! `docs/protocols/pbft.md` argues for).

use super::certificate::{Claims, Member, NewView, Prepared, Start, ViewChange, members_needed};
use super::message::Message;
use super::record::Record;
use super::replica::{OwnMessages, Pbft, Phase, SlotState};
use super::seal::Seal;
use super::variant::Variant;
use crate::common::batch_store::null;
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::ChangesViews;
use crate::common::frame::hooks::Finality as _;
use crate::common::seal::Seal as _;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> ChangesViews for Pbft<V> {
    fn taken_over(&self) -> Slot {
        self.start.end()
    }

    fn leave_for(&mut self, view: View, out: &mut Effects<Self>) {
        self.move_to(view, out);
        self.leave(out);
    }

    fn awaits_opening(&self) -> bool {
        self.phase == Phase::Changing
    }

    /// From a quorum of VIEW-CHANGEs whose batches it holds, so that it can give them to everyone
    /// else. A correct replica holds what it claims proof of.
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let needed = members_needed::<V::Seal>(&self.frame.membership);
        let mine = self.frame.leads(self.frame.view);
        if self.phase != Phase::Changing || !mine || self.frame.view_changes.len() < needed {
            return;
        }
        let shown: Vec<_> = self.frame.view_changes.values().cloned().collect();
        let (mut members, mut changes) = (Vec::new(), Vec::new());
        for verified in &shown {
            let (Message::ViewChange(change), Some(seal)) =
                (&*verified.message, V::Seal::of(&verified.tag))
            else {
                continue;
            };
            if self.holds_claimed(&change.claims) && members.len() < needed {
                let author = verified.author;
                let claims = Arc::new(change.claims.clone());
                members.push(Member { author, seal, claims });
                changes.push(change.clone());
            }
        }
        if members.len() < needed {
            return;
        }
        let start = Start::of(members.iter().map(|member| &*member.claims));
        let Some(opening) = prove(self.frame.view, members, &changes, &start) else { return };
        mark!("pbft/open");
        self.phase = Phase::Opening;
        let opening = Arc::new(opening);
        self.own.opened = Some(opening.clone());
        out.persist(Record::Open(opening.clone()));
        out.send(To::All, Message::NewView(opening));
    }
}

impl<V: Variant> Pbft<V> {
    /// Gives up every lower view.
    pub(super) fn move_to(&mut self, view: View, out: &mut Effects<Self>) {
        self.frame.move_to(view, self.last_final(), out);
        self.phase = Phase::Changing;
        self.own = OwnMessages::default();
        self.awaiting_loopback.clear();
        self.drop_idle_wants(&Start::default());
    }

    /// Stops wanting batches that no slot orders, no certificate names and no start takes over.
    fn drop_idle_wants(&mut self, start: &Start) {
        let ordered = self.window.iter().filter_map(|(_, state)| state.batch);
        let proven = self.certificates.values().map(|certificate| certificate.claim.batch);
        let taken_over = start.batches().map(|(_, batch)| batch);
        let needed: BTreeSet<Digest> = ordered.chain(proven).chain(taken_over).collect();
        self.frame.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    /// Sends VIEW-CHANGE: what this replica has proof of, whatever view that comes from.
    pub(super) fn leave(&mut self, out: &mut Effects<Self>) {
        let shown = |it: &&Prepared<V::Seal>| {
            !mutant!("pbft.hides-older-views") || it.claim.view == self.frame.entered
        };
        let certificates = || self.certificates.values().filter(shown);
        let hidden = usize::from(mutant!("pbft.hides-last-certificate"));
        let count = certificates().count().saturating_sub(hidden);
        let claims = Claims {
            view: self.frame.view,
            stable: self.frame.stable.slot,
            prepared: certificates().map(|it| it.claim).take(count).collect(),
        };
        let change = ViewChange {
            claims,
            requests: self.frame.view_requests.proof(self.frame.view, self.frame.weak()),
            checkpoint: self.frame.stable.clone(),
            proofs: certificates().map(|it| it.seals.clone()).take(count).collect(),
        };
        let change = Arc::new(change);
        self.own.left = Some(change.clone());
        if !mutant!("pbft.leaving-not-kept") {
            out.persist(Record::Leave(change.clone()));
        }
        out.send(To::All, Message::ViewChange(change));
    }

    /// Whether every batch that a VIEW-CHANGE names is here; wants those that are not.
    fn holds_claimed(&mut self, claims: &Claims) -> bool {
        let low = self.frame.stable.slot.max(claims.stable);
        let mut complete = true;
        for claim in claims.prepared.iter().filter(|claim| claim.slot > low) {
            self.frame.bodies.want_or_know(claim.slot, claim.batch);
            complete &= self.frame.bodies.get(&claim.batch).is_some();
        }
        complete
    }

    /// Wants the batches that a view takes over.
    fn want(&mut self, start: &Start) {
        let low = self.frame.stable.slot;
        for (slot, batch) in start.batches().filter(|(slot, _)| *slot > low) {
            self.frame.bodies.want_or_know(slot, batch);
        }
    }

    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        opening: &NewView<V::Seal>,
        out: &mut Effects<Self>,
    ) {
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        if opening.view > self.frame.view {
            // The others went on without this replica. The NEW-VIEW proves that a quorum did.
            mark!("pbft/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(opening.view, out);
        }
        self.adopt(opening.checkpoint.clone(), out);
        mark!("pbft/enter");
        if !mutant!("pbft.entry-not-kept") {
            out.persist(Record::Enter(verified.clone()));
        }
        self.enter(verified, opening);
        self.try_again(out);
        self.frame.note_entered(self.last_final(), out);
        for verified in core::mem::take(&mut self.frame.early).into_values() {
            self.on_message(verified, out);
        }
        self.advance(out);
        if !self.frame.bodies.is_complete() {
            self.frame.ask_missing(To::One(self.frame.membership.primary(self.frame.view)), out);
        }
        self.frame.object_to_liar(out);
    }

    /// The view of a NEW-VIEW begins: slots that it takes over order what follows from it,
    /// everything else begins anew. What was decided stays decided. The window begins at or above
    /// the base of the NEW-VIEW, so all that it takes over lies in the window or below.
    pub(super) fn enter(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        opening: &NewView<V::Seal>,
    ) {
        let start = opening.start();
        (self.frame.entered, self.phase) = (opening.view, Phase::Entered);
        self.opening = Some(verified);
        (self.own.left, self.own.opened) = (None, None);
        let gap = |batch: &Digest| mutant!("pbft.gaps-stay-open") && *batch == null().digest();
        let list: Vec<(Slot, Digest)> = start.batches().collect();
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let index = slot.0.checked_sub(start.base.0 + 1).map(|index| index as usize);
            let batch = index.and_then(|index| list.get(index)).map(|(_, batch)| *batch);
            let batch = batch.filter(|it| !mutant!("pbft.nothing-taken-over") && !gap(it));
            let decided = state.decided && batch.is_some() && state.batch == batch;
            *state = SlotState { batch, decided, ..SlotState::default() };
        }
        let skip = mutant!("pbft.taken-over-not-voted-for");
        self.frame.next_slot =
            self.frame.stable.slot.max(if skip { start.end() } else { Slot(0) }).next();
        self.start = start;
        let needed: BTreeSet<Digest> = list
            .into_iter()
            .map(|(_, batch)| batch)
            .chain(self.certificates.values().map(|certificate| certificate.claim.batch))
            .collect();
        self.frame.bodies.retain(self.frame.stable.slot, |digest| needed.contains(digest));
        let start = self.start.clone();
        self.want(&start);
    }
}

/// A NEW-VIEW of these members, with the proofs of the claims that win, from their own messages.
fn prove<S: Seal>(
    view: View,
    members: Vec<Member<S>>,
    changes: &[Arc<ViewChange<S>>],
    start: &Start,
) -> Option<NewView<S>> {
    let proof = |claim| {
        changes.iter().find_map(|change| {
            let index = change.claims.prepared.iter().position(|it| it == claim)?;
            change.proofs.get(index).cloned()
        })
    };
    let proofs: Option<Vec<_>> = start.list.iter().flatten().map(proof).collect();
    let checkpoint = changes.iter().map(|change| &change.checkpoint);
    let checkpoint = checkpoint.max_by_key(|proof| proof.slot)?.clone();
    Some(NewView { view, members, checkpoint, proofs: proofs? })
}
