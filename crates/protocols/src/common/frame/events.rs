//! Where messages, timeouts and inputs go that all protocols have.

use super::Frame;
use super::changing::Changing;
use super::checkpointing::Checkpointing;
use super::execution::Execution;
use super::hooks::Core;
use super::repair::Repair;
use super::supply::Supply;
use crate::common::message::Shared;
use crate::common::request_queue::Added;
use crate::common::slots_to_fill::FillReason;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_core::protocol::{Effects, Memory, Setup, To};
use pentarchy_core::request::Envelope;

/// See the [module](self).
pub trait Events: Core {
    /// Begins: with the state of the epoch, with what it kept, or by fetching the state.
    fn begin(
        &mut self,
        setup: &Setup,
        log: &mut dyn Iterator<Item = Self::Record>,
        out: &mut Effects<Self>,
    ) {
        let base = setup.membership.base;
        let mut log = log.peekable();
        match (&setup.memory, setup.fetch) {
            (Memory::Durable { .. }, Some(_)) if log.peek().is_some() => {
                // It stopped while it fetched, and said things meanwhile.
                mark!("frame/resumed_fetching");
                self.resume(&mut log, Base::default(), out);
            }
            (_, Some(from)) => {
                out.output(Output::Fetch { slot: base.slot, state: base.state, from });
            }
            (Memory::Durable { executed, .. }, None) => self.resume(&mut log, *executed, out),
            (Memory::Volatile, None) => {}
        }
        // A first report tells the others where this replica is, and draws theirs.
        self.frame_mut().arm_resend(out);
    }

    /// A message that all protocols have.
    fn on_shared(
        &mut self,
        verified: &Verified<Self::Message>,
        message: &Shared<Self::More>,
        out: &mut Effects<Self>,
    ) {
        let author = verified.author;
        match message {
            Shared::RequestViewChange { view } => self.on_request_view_change(verified, *view, out),
            Shared::Checkpoint { slot, state } => self.on_checkpoint(verified, *slot, *state, out),
            Shared::Stable(proof) => self.on_stable(proof.clone(), out),
            Shared::Report(report) => self.on_report(author, *report, out),
            Shared::Forward(envelope) => out.output(Output::Admit { envelope: envelope.clone() }),
            Shared::AskBody { batch } => self.frame_mut().on_ask_body(author, batch, out),
            Shared::Body(proposal) => self.on_body(author, proposal, out),
            Shared::AskEnvelope { envelope } => {
                self.frame_mut().on_ask_envelope(author, envelope, out);
            }
            Shared::Envelope(envelope) => self.on_envelope(envelope, out),
        }
    }

    /// A timer ran out.
    fn on_timeout(&mut self, timer: Timer, out: &mut Effects<Self>) {
        match timer {
            Timer::Request(arrival) => self.frame_mut().on_request_timeout(arrival, out),
            Timer::ViewChange(view) => self.frame_mut().on_view_change_timeout(view, out),
            Timer::Resend => self.on_resend(out),
            Timer::Clock => self.on_clock(out),
            Timer::Gap => self.on_gap(out),
            Timer::Asks => self.frame_mut().on_asks_timeout(out),
            Timer::Fetch => {
                let suppliers = self.suppliers();
                self.frame_mut().on_fetch(suppliers, out);
            }
            Timer::Look => self.frame_mut().monitor.look_timer_expired(),
            Timer::Final(slot) => {
                let last_final = self.last_final();
                self.frame_mut().on_final_timeout(slot, last_final, out);
            }
            Timer::Fill(slot) => self.frame_mut().on_fill_timeout(slot, out),
        }
    }

    /// A tick: repair what can be repaired from here, then tell the others where this replica is.
    fn on_resend(&mut self, out: &mut Effects<Self>) {
        self.frame_mut().peers.begin_tick();
        self.check_behind(out);
        let frame = self.frame_mut();
        frame.repeat_ask(out);
        frame.forward_requests(out);
        if !frame.bodies.is_complete() {
            let requests = &frame.requests;
            frame.bodies.retry(|digest| requests.find(digest));
            self.bodies_changed(out);
            let frame = self.frame();
            frame.ask_missing(To::One(frame.peers.peer_of_tick()), out);
        }
        self.on_tick(out);
        self.frame().repeat_checkpoint(out);
        Frame::send(To::Others, Shared::Report(self.report()), out);
        self.arm_resend_if_unsettled(out);
    }

    /// The host says something.
    fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Request { envelope, settled, passed_on } => {
                self.on_request(envelope, (settled, passed_on), out);
            }
            Input::Round { now } => {
                let frame = self.frame_mut();
                frame.now = frame.now.max(now);
                frame.view_change_timer.clock_moved(frame.now);
                self.clock_moved(out);
                self.propose(out);
                self.frame_mut().look(out);
            }
            Input::Checkpointed { slot, state } => self.on_checkpointed(slot, state, out),
            Input::Installed { slot } => self.on_installed(slot, out),
            Input::Compact => self.persist_all_again(out),
            Input::Speculation(speculation::Input::Wanted { slot }) => self.on_wanted(slot, out),
            // No core with a frame asks for these; and who runs this core beside others looks into
            // it ([`crate::pillars`]).
            Input::SlotResults(_) | Input::Replying(_) | Input::Wedging(_) | Input::Pillar(_) => {}
        }
    }

    /// Slots up to this one are to be ordered, as others wait for them: see `Frame::on_fill`.
    fn on_fill(&mut self, slot: Slot, why: FillReason, out: &mut Effects<Self>) {
        self.frame_mut().on_fill(slot, why, out);
        // Votes for a checkpoint may be lacking, without which the window stays full.
        self.arm_resend_if_unsettled(out);
    }

    /// A client's envelope, with what of it is settled and whether another replica passed it on.
    /// The primary proposes it at the end of the round; a backup gives the primary until the timer
    /// runs out.
    fn on_request(
        &mut self,
        envelope: Arc<Envelope>,
        (settled, passed_on): (Vec<u64>, bool),
        out: &mut Effects<Self>,
    ) {
        let frame: &mut Frame<Self> = self.frame_mut();
        let passed_on = passed_on && frame.is_primary() && !mutant!("frame.passed-on-has-no-place");
        let added = if passed_on {
            let (added, displaced) = frame.requests.add_passed_on(envelope.clone(), settled);
            for envelope in displaced {
                mark!("frame/displaced");
                out.output(Output::Full { envelope });
            }
            added
        } else {
            frame.requests.add(envelope.clone(), settled)
        };
        match added {
            Added::Known => {}
            Added::Full => {
                mark!("frame/full");
                out.output(Output::Full { envelope: envelope.clone() });
            }
            Added::New => {
                mark!("frame/request");
                frame.arm_request_timer(out);
                if !frame.is_primary() {
                    frame.arm_resend(out);
                }
            }
        }
        self.on_envelope(&envelope, out);
    }
}

impl<C: Core> Events for C {}
