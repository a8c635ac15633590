//! How a replica goes on from what it kept of its slots, and keeps it again when a checkpoint
//! becomes stable, so that the log can be cut below.
//!
//! A replica that starts again has all that it told others, and may have a little that it did not
//! come to tell. It says all of it again, in the same words; for those its device has the same
//! certificates. Own messages that have come back are kept with their certificates: the device may
//! have forgotten those, as a view may last for months. What has not come back is in
//! [`Slots::awaiting_loopback`], and its certificate is the host's to keep.

use super::certificate::{Opened, Prepared};
use super::order::Order;
use super::record::Noted;
use super::slots::Slots;
use super::{Bug, Counted};
use crate::common::frame::Frame;
use crate::common::frame::resuming::Envelopes;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::protocol::{Effects, To};

/// Something to be said again.
pub enum Again<M> {
    /// To be certified; the host has the certificate, or the device gives it.
    New(M),
    /// As it was said.
    Said(Verified<M>),
}

impl<M> Again<M> {
    /// What to say.
    pub fn message(&self) -> &M {
        match self {
            Self::New(message) => message,
            Self::Said(verified) => &verified.message,
        }
    }
}

/// What is gathered while a log is read.
pub struct Past<C: Counted> {
    /// What is to be said again.
    pub said: Vec<Again<C::Message>>,
    /// Envelopes by digest, for proposals that name them.
    pub envelopes: Envelopes,
}

impl<C: Counted> Default for Past<C> {
    fn default() -> Self {
        Self { said: Vec::new(), envelopes: Envelopes::new() }
    }
}

/// What the primary proposes by a message, if it does.
#[must_use]
pub fn proposed<C: Counted>(message: &C::Message) -> Option<(View, Slot)> {
    match C::as_order(message) {
        Some(Order::Prepare { view, slot, .. }) => Some((*view, *slot)),
        _ => None,
    }
}

impl<C: Counted> Past<C> {
    /// Notes what was said, unless that is known.
    pub fn say(&mut self, message: C::Message) {
        if !self.said.iter().any(|again| *again.message() == message) {
            self.said.push(Again::New(message));
        }
    }

    /// Notes what was said in a view, unless that is known or the view was left since. A log that
    /// was cut while this replica changes views tells what it said before once more, and may break
    /// off before it tells that the replica left: the device has gone on to the next view.
    fn say_in(&mut self, frame: &Frame<C>, view: View, message: C::Message) {
        if view >= frame.view || (C::Entry::TERMS.has)(Bug::SaysWhatItLeft) {
            self.say(message);
        }
    }

    /// Notes with which certificate something was said.
    fn say_as(&mut self, said: Verified<C::Message>) {
        match self.said.iter_mut().find(|again| *again.message() == *said.message) {
            Some(again) => *again = Again::Said(said),
            None => self.said.push(Again::Said(said)),
        }
    }

    /// Keeps of what was said only that about which this is true.
    pub fn retain(&mut self, needed: impl Fn(&C::Message) -> bool) {
        self.said.retain(|again| needed(again.message()));
    }

    /// The log says that a checkpoint at this slot is stable.
    pub fn settle(&mut self, low: Slot) {
        self.retain(|message| C::as_order(message).is_none_or(|order| order.place().1 > low));
    }

    /// Says all of it again.
    pub fn say_again(self, slots: &mut Slots<C>, frame: &Frame<C>, out: &mut Effects<C>) {
        let silent = (C::Entry::TERMS.has)(Bug::SaysNothingAgain);
        for again in self.said.into_iter().filter(|_| !silent) {
            mark!("counters/said_again");
            match again {
                Again::New(message) => slots.say(frame, message, out),
                Again::Said(verified) => out.relay(To::All, &verified),
            }
        }
    }
}

impl<C: Counted> Slots<C> {
    /// The log says that.
    pub fn recall(&mut self, frame: &mut Frame<C>, record: Noted<C::Message>, past: &mut Past<C>) {
        match record {
            Noted::Prepare { view, slot, proposal } => {
                frame.next_slot = frame.next_slot.max(slot.next());
                frame.recall_body(slot, &proposal, &past.envelopes);
                if let Some(state) = self.window.get_mut(slot) {
                    state.batch = Some(proposal.digest());
                }
                past.say_in(frame, view, C::order(Order::Prepare { view, slot, proposal }));
            }
            Noted::Commit(prepare) => {
                if let Some(Order::Prepare { view, slot, proposal }) = C::as_order(&prepare.message)
                {
                    let (view, slot, batch) = (*view, *slot, proposal.digest());
                    self.recall_prepare(frame, &prepare, past);
                    past.say_in(frame, view, C::order(Order::Commit { view, slot, batch }));
                }
            }
            Noted::Executed(prepare) => self.recall_prepare(frame, &prepare, past),
            Noted::Said(said) => {
                if let Some(Order::Commit { slot, .. }) = C::as_order(&said.message)
                    && let Some(state) = self.window.get_mut(*slot)
                {
                    state.own_commit = Some(said.clone());
                }
                // It comes back again, which counts it.
                self.recall_prepare(frame, &said, past);
                past.say_as(said);
            }
        }
    }

    fn recall_prepare(
        &mut self,
        frame: &mut Frame<C>,
        prepare: &Verified<C::Message>,
        past: &Past<C>,
    ) {
        if let Some(Order::Prepare { slot, proposal, .. }) = C::as_order(&prepare.message) {
            frame.recall_body(*slot, proposal, &past.envelopes);
            self.hold(*slot, proposal.digest(), prepare.clone());
            frame.next_slot = frame.next_slot.max(slot.next());
        }
    }

    /// Own PREPAREs of the view that is left, with the certificates that VIEW-CHANGE showed them
    /// with: the next one may have to show them again.
    pub fn recall_shown(&mut self, frame: &Frame<C>, shown: &[Prepared], past: &Past<C>) {
        let domain = frame.membership.domain();
        for again in &past.said {
            let Again::New(message) = again else { continue };
            let Some(Order::Prepare { slot, proposal, .. }) = C::as_order(message) else {
                continue;
            };
            let shown = shown.iter().find(|prepared| prepared.slot == *slot);
            let shown = shown.filter(|_| !(C::Entry::TERMS.has)(Bug::OwnPreparesForgotten));
            if let Some(shown) = shown {
                let tag = AuthTag::Usig(shown.ui);
                let said = Verified::recalled(frame.me, tag, &domain, message.clone());
                self.hold(*slot, proposal.digest(), said);
            }
        }
    }

    /// The log is read. What was executed was decided: nobody commits to it again for this replica
    /// alone. What it said as primary and what has to come back is this.
    ///
    /// The state may lie above all that the log says, if it was fetched, and what vouches for it
    /// was not written down before a crash. What led there was never here, so a commitment above it
    /// is one that no VIEW-CHANGE could show: this replica goes on where its log ends, with what
    /// others show it, or above the state once that is proven.
    pub fn recall_decisions(
        &mut self,
        frame: &mut Frame<C>,
        slots_awaiting_loopback: BTreeSet<(View, Slot)>,
    ) {
        // A state that was fetched may lie far above the last one that the log proves.
        let last = frame.executed.min(self.window.high());
        for slot in (self.window.low().0 + 1..=last.0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            state.decided = state.batch.is_some();
            frame.recall_executed(slot, state.batch);
        }
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        frame.checkpoints.note_taken(frame.executed);
        self.slots_awaiting_loopback = slots_awaiting_loopback;
        let open = |(_, slot): &&(View, Slot)| *slot > frame.executed;
        self.in_flight = self.slots_awaiting_loopback.iter().filter(open).count() as u64;
        if (C::Entry::TERMS.has)(Bug::CommitsBehindAHole) {
            frame.next_slot = frame.next_slot.max(frame.executed.next());
        }
    }

    /// Keeps again what this replica committed to in the view that it entered last, behind the
    /// slots that this took over. If it is said to which slot it committed last, it committed to
    /// that, and only executed what is before it and behind it.
    pub fn persist_again(
        &self,
        frame: &mut Frame<C>,
        taken_over: Slot,
        committed: Option<Slot>,
        out: &mut Effects<C>,
    ) {
        let first = frame.stable.slot.max(taken_over).next();
        let hidden = u64::from((C::Entry::TERMS.has)(Bug::CommitmentNotKeptAgain));
        for slot in (first.0..frame.next_slot.0.saturating_sub(hidden)).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let Some(prepare) = &state.prepare else { continue };
            state.batch.into_iter().for_each(|batch| frame.persist_named(&batch, out));
            if prepare.author == frame.me {
                persist_said(Some(prepare), out);
            } else if committed.is_some_and(|committed| committed != slot) {
                out.persist(C::noted(Noted::Executed(prepare.clone())));
            } else {
                out.persist(C::noted(Noted::Commit(prepare.clone())));
                persist_said(state.own_commit.as_ref(), out);
            }
        }
        for message in &self.awaiting_loopback {
            if let Some(Order::Prepare { view, slot, proposal }) = C::as_order(message)
                && (*view == frame.entered && *slot > frame.stable.slot)
            {
                frame.persist_named(&proposal.digest(), out);
                let (view, slot, proposal) = (*view, *slot, proposal.clone());
                out.persist(C::noted(Noted::Prepare { view, slot, proposal }));
            }
        }
    }
}

/// Keeps an own message that came back, if it did.
pub fn persist_said<C: Counted>(said: Option<&Verified<C::Message>>, out: &mut Effects<C>) {
    said.into_iter().for_each(|said| out.persist(C::noted(Noted::Said(said.clone()))));
}
