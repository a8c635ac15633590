//! Going on from what was kept across a crash. What the protocol's own records mean is its own.

use super::Frame;
use super::checkpointing::Checkpointing;
use super::execution::Execution as _;
use super::hooks::{Core, Framed, StateOf};
use crate::common::certificate::{CheckpointProof, Vouched};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::request::Envelope;

/// Envelopes by digest that a log has shown so far, for proposals that name them.
pub type Envelopes = BTreeMap<Digest, Arc<Envelope>>;

/// What is gathered while a log is read. `M` is a protocol's message.
#[derive(Debug)]
pub struct Past<M> {
    /// What is to be said again.
    pub said: Vec<M>,
    /// Envelopes by digest, for proposals that name them.
    pub envelopes: Envelopes,
}

impl<M> Default for Past<M> {
    fn default() -> Self {
        Self { said: Vec::new(), envelopes: Envelopes::new() }
    }
}

impl<M: PartialEq> Past<M> {
    /// Notes what was said, unless that is known.
    pub fn say(&mut self, message: M) {
        if !self.said.contains(&message) {
            self.said.push(message);
        }
    }
}

/// See the [module](self).
pub trait Resuming: Core {
    /// The log is read, and what is here up to the executed state is noted as decided: execution
    /// goes on, from another state if the log says that this one is wrong or old. So far it may
    /// have come.
    fn go_on(&mut self, executed: Base, upto: Slot, out: &mut Effects<Self>) {
        out.output(Output::Resumed { upto });
        self.frame_mut().note_spoken(upto);
        for slot in (self.frame().executed.next().0..self.frame().next_slot.0).map(Slot) {
            if let Some(batch) = self.ordered(slot) {
                self.frame_mut().note_vote(slot, &batch);
            }
        }
        let frame = self.frame();
        let other =
            frame.stable.slot == frame.executed && frame.stable.state.state() != executed.state;
        if frame.stable.slot > frame.executed || other {
            frame.fetch(&frame.stable, out);
        } else if frame.stable.slot < frame.executed && !mutant!("frame.state-not-vouched-again") {
            self.on_checkpointed(executed.slot, executed.state, out);
        }
        let frame = self.frame_mut();
        frame.view_change_timer.resumed();
        if !frame.is_entered() {
            mark!("frame/resumed_changing");
            frame.time_view(out);
        }
    }

    /// Says again what the log has that this replica said, and votes for what its view took over
    /// if the log lacks that vote. If all lost power as they entered the view, no vote of another
    /// replica would make it do so.
    fn say_again(&mut self, past: Past<Self::Message>, out: &mut Effects<Self>) {
        for message in past.said {
            mark!("frame/said_again");
            out.send(To::All, message);
        }
        if !mutant!("frame.votes-not-resumed") {
            self.advance(out);
        }
    }

    /// The log says that a checkpoint is stable; false if that was known.
    fn recall_stable(&mut self, proof: CheckpointProof<StateOf<Self>>) -> bool {
        let is_new = proof.slot > self.frame().stable.slot;
        if is_new {
            self.move_window(proof);
            self.frame_mut().view_change_timer.recall_stable();
        }
        is_new
    }
}

impl<C: Core> Resuming for C {}

impl<C: Framed> Frame<C> {
    /// The log says that this replica left for a view.
    pub fn recall_view(&mut self, view: View) {
        (self.view, self.own_view_change) = (view, None);
        self.view_change_timer.recall_leaving();
    }

    /// The log has this batch of a slot.
    pub fn recall_body(&mut self, slot: Slot, proposal: &Arc<Proposal>, past: &Envelopes) {
        self.bodies.want(slot, proposal.digest());
        self.bodies.offer(proposal, |digest| past.get(digest).cloned());
    }

    /// Counts what a slot executed; says whether a checkpoint is to be taken behind it.
    pub(super) fn count_bytes(&mut self, slot: Slot, bytes: usize) -> bool {
        if self.membership.lane.pillar.is_some() {
            self.checkpoints.executed_in_pillar(slot, bytes);
            return false;
        }
        self.checkpoints.executed(slot, bytes, &self.tuning)
    }

    /// Counts anew where checkpoints are due, from behind `low` to what is executed, where slots
    /// have `ordered` what they have now. Gives the last slot behind which one is due.
    pub fn recount(&mut self, low: Slot, ordered: impl Fn(Slot) -> Option<Digest>) -> Option<Slot> {
        let body = |slot| ordered(slot).and_then(|batch| self.bodies.get(&batch));
        let bytes = |slot| (slot, body(slot).map_or(0, |body| body.bytes()));
        let executed = (low.0 + 1..=self.executed.0).map(Slot).map(bytes);
        self.checkpoints.count_anew(executed, &self.tuning)
    }

    /// A slot that was executed ordered this, as the log says.
    pub fn recall_executed(&mut self, slot: Slot, batch: Option<Digest>) {
        let body = batch.and_then(|batch| self.bodies.get(&batch));
        if let Some(bytes) = body.map(|body| body.bytes()) {
            self.count_bytes(slot, bytes);
        }
    }
}
