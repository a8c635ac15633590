//! All checkers together, and what they are told.

use crate::audit::Audit;
use crate::checker::agreed_time::AgreedTime;
use crate::checker::agreement::Agreement;
use crate::checker::at_most_once::AtMostOnce;
use crate::checker::checkpoint::{Checkpoints, Source};
use crate::checker::configuration::Configurations;
use crate::checker::confirmation::Confirmation;
use crate::checker::counter_uniqueness::CounterUniqueness;
use crate::checker::deposition::Deposition;
use crate::checker::epoch_handover::EpochHandover;
use crate::checker::events::Events;
use crate::checker::justification::Justified;
use crate::checker::linearizability::{self, Seen};
use crate::checker::promises::Promises;
use crate::checker::promptness::Promptness;
use crate::checker::reads::Reads;
use crate::checker::self_contradiction::SelfContradiction;
use crate::checker::speculation::{Done, Speculation};
use crate::checker::stability::Stability;
use crate::checker::validity::Validity;
use crate::checker::{Broken, Verdict, acceptance, bounds, durability, evidence};
use crate::crypto::{Crypto, member_id};
use crate::observation::Observation;
use crate::packet::Address;
use crate::service::{Action, Operation};
use crate::summary::{FINDINGS, Summary};
use crate::swarm::{Disturbance, Options};
use crate::time::Micros;
use pentarchy_core::Bytes;
use pentarchy_core::ballot::{ANSWER, Ballot, Justification};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::ids::{ClientId, Epoch, ReplicaId, Slot, View};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::ports::client::{Outcome, Place};
use pentarchy_core::protocol::{Evidence, Finding, Reject, Rules, Status, Tuning};
use pentarchy_core::request::FENCE;
use pentarchy_core::wire::Wire;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The property that a correct client's requests inside its window are not refused.
pub const REFUSAL: &str = "no_refusal";

/// See the [module](self).
pub struct Oracle {
    /// The most members that the group can have.
    n: usize,
    /// Pillars into which the order is split.
    pillars: usize,
    tuning: Tuning,
    /// Correct clocks are never further apart than they may be, and always looked at.
    in_step: bool,
    /// Some requests may convince some replicas only, so correct replicas may refuse each other.
    abused_macs: bool,
    watch_devices: bool,
    agreement: Agreement,
    agreed_time: AgreedTime,
    stability: Stability,
    deposition: Deposition,
    /// The checker of how long requests take.
    pub promptness: Promptness,
    validity: Validity,
    at_most_once: AtMostOnce,
    checkpoints: Checkpoints,
    counters: CounterUniqueness,
    contradictions: SelfContradiction,
    justified: Justified,
    promises: Promises,
    reads: Reads,
    handover: EpochHandover,
    /// The checker of configurations.
    pub configurations: Configurations,
    events_told: Events,
    speculation: Speculation,
    confirmation: Confirmation,
    history: Vec<Seen>,
    /// Places in the history of what is outstanding.
    open: BTreeMap<(ClientId, u64), usize>,
    /// Invocations and responses so far.
    events: u64,
    refused: Option<Broken>,
    highest_view: View,
    transfers: u64,
    rollbacks: u64,
    rejected: u64,
    found: [u64; FINDINGS.len()],
    undecided: u64,
}

impl Oracle {
    /// Nothing has been seen yet.
    #[must_use]
    pub fn new(crypto: Arc<Crypto>, membership: &Membership, options: &Options) -> Self {
        // A replica that slept knows only the time before.
        let wrong = |(_, it): &(u64, Disturbance)| {
            matches!(it, Disturbance::ClockJump(..) | Disturbance::Pause(..))
        };
        let drifted_ms = options.heal_at / 1_000 * options.drift_ppm / 1_000_000;
        let slack_ms = options.skew_ms + drifted_ms + 1;
        let counters = CounterUniqueness::default();
        let liars = options.byzantine.iter().map(|(id, _)| member_id(*id)).collect();
        let mut validity = Validity::new(crypto);
        options.byzantine.iter().for_each(|(id, _)| validity.trusts(member_id(*id)));
        Self {
            n: options.largest(),
            pillars: options.pillars.into(),
            tuning: options.tuning,
            in_step: slack_ms <= CLOCK_SKEW_MILLIS && !options.disturbances.iter().any(wrong),
            abused_macs: options.abuses_macs(),
            watch_devices: options.watch_devices,
            agreement: Agreement::default(),
            agreed_time: AgreedTime::new(options.skew_ms + options.jumps_ms(), options.drift_ppm),
            stability: Stability::new(options.is_calm(), options.is_only_slow(), options.f),
            deposition: Deposition::new(options.calm_from()),
            promptness: Promptness::new(options.is_steady(), options.f, &options.timeouts),
            validity,
            at_most_once: AtMostOnce::default(),
            checkpoints: Checkpoints::default(),
            counters,
            contradictions: SelfContradiction::default(),
            justified: Justified::new(membership, options.byzantine.len()),
            promises: Promises::default(),
            reads: Reads::new(membership),
            handover: EpochHandover::new(membership.clone()),
            configurations: Configurations::new(membership, liars),
            events_told: Events::default(),
            speculation: Speculation::default(),
            confirmation: Confirmation::new(options.n, options.f),
            history: Vec::new(),
            open: BTreeMap::new(),
            events: 0,
            refused: None,
            highest_view: View(0),
            transfers: 0,
            rollbacks: 0,
            rejected: 0,
            found: [0; FINDINGS.len()],
            undecided: 0,
        }
    }

    /// Takes from the protocol of an epoch what replicas must have sent before one of them decides.
    pub fn judge_by(&mut self, epoch: Epoch, justification: Justification, rules: &Rules) {
        self.counters.judge_by(epoch, rules.device());
        self.justified.judge_by(epoch, justification);
        self.promises.judge_by(epoch, justification.to_be_shown);
        self.reads.judge_by(epoch, justification.to_be_shown, rules);
    }

    /// A replica did something. Of faulty ones only the device is believed.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn saw(
        &mut self,
        replica: ReplicaId,
        faulty: bool,
        seen: &Observation,
        now: Micros,
        audit: &mut Audit,
    ) -> Verdict {
        if let Observation::Certified { epoch, ui, digest } = seen {
            let verdict = self.counters.certified(replica, *epoch, ui, *digest);
            return if self.watch_devices { verdict } else { Ok(()) };
        }
        if faulty {
            return Ok(());
        }
        self.deposition.passed(now)?;
        if seen.asks() {
            self.deposition.asked(now);
        }
        match seen {
            Observation::Executed { .. }
            | Observation::Speculated { .. }
            | Observation::RolledBack { .. }
            | Observation::Committed { .. } => self.executes(replica, seen, now, audit)?,
            Observation::Checkpointed { slot, state } => {
                audit.note(slot.0, 31, u64::from(replica.0), &state.0);
                self.checkpoints.state(replica, *slot, *state, Source::Computed)?;
            }
            Observation::Stable { slot, state } | Observation::Fetching { slot, state } => {
                self.justified.stable(replica, *slot, *state)?;
                self.checkpoints.state(replica, *slot, *state, Source::Vouched)?;
                if matches!(seen, Observation::Fetching { .. }) {
                    self.checkpoints.fetches(replica, *slot)?;
                }
            }
            Observation::Installed { slot, state } => {
                self.transfers += 1;
                self.speculation.reset(replica);
                self.agreement.installed(replica, *slot);
                self.handover.installed(replica, *slot);
                self.checkpoints.installed(replica, *slot);
                self.checkpoints.state(replica, *slot, *state, Source::Installed)?;
            }
            Observation::Entered { view, reason } => {
                self.highest_view = self.highest_view.max(*view);
                self.justified.entered(replica, *view)?;
                self.reads.entered(replica, *view);
                self.stability.entered(replica, *view)?;
                self.deposition.entered(replica, *view, reason, now)?;
            }
            Observation::Told { client, number, body } => {
                self.events_told.told(replica, *client, *number, body)?;
            }
            Observation::Asked { number, operation } => {
                self.asked(member_id(replica), *number, operation);
            }
            Observation::Ended(handover) => self.ended_epoch(replica, handover, audit)?,
            Observation::Began(membership) => self.began_epoch(replica, membership, audit)?,
            Observation::Said { .. }
            | Observation::Supports { .. }
            | Observation::Queried { .. }
            | Observation::Answered { .. } => self.says(replica, seen)?,
            Observation::Confirmed { place } => self.confirmed(replica, *place)?,
            Observation::Diverged { slot } => self.checkpoints.diverged(replica, *slot)?,
            other => durability::saw(replica, other)?,
        }
        Ok(())
    }

    /// A replica said something to others or to clients.
    fn says(&mut self, replica: ReplicaId, seen: &Observation) -> Verdict {
        match seen {
            Observation::Said { topic, ballots, shows, .. } => {
                if let Some(said) = topic {
                    self.contradictions.said(replica, said.0, said.1)?;
                }
                self.justified.said(replica, ballots)?;
                self.promises.said(replica, ballots, shows.as_deref())?;
                self.reads.said(replica, ballots);
            }
            Observation::Supports { slot, place } => {
                self.reads.told(replica, *slot, *place);
                let ballots = place.map(|it| Ballot::of_slot(ANSWER, it.view, it.slot, it.history));
                self.promises.said(replica, ballots.as_slice(), None)?;
            }
            Observation::Queried { client, number } => self.reads.asked(replica, *client, *number),
            Observation::Answered { client, number, state } => {
                self.reads.answered(replica, (*client, *number), *state)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn ended_epoch(
        &mut self,
        replica: ReplicaId,
        handover: &Handover,
        audit: &mut Audit,
    ) -> Verdict {
        let Base { slot, state } = handover.base;
        audit.note(slot.0, 32, u64::from(replica.0), &handover.to_bytes());
        self.checkpoints.state(replica, slot, state, Source::Handed)?;
        self.handover.ended(replica, handover)
    }

    /// A member or an administrator had this sent to the group.
    pub fn asked(&mut self, by: ClientId, number: u64, operation: &Bytes) {
        self.validity.submitted(by, number, operation.clone());
        self.configurations.asked(by, operation);
    }

    fn began_epoch(
        &mut self,
        replica: ReplicaId,
        membership: &Membership,
        audit: &mut Audit,
    ) -> Verdict {
        let Base { slot, state } = membership.base;
        self.contradictions.in_epoch(replica, membership.epoch);
        self.justified.began(replica, membership);
        self.promises.in_epoch(replica, membership.epoch);
        self.reads.began(replica, membership);
        self.deposition.begins(replica);
        self.checkpoints.begins(replica);
        audit.note(membership.epoch.0, 33, u64::from(replica.0), &state.0);
        self.configurations.began(replica, membership)?;
        self.handover.began(replica, membership)?;
        self.checkpoints.state(replica, slot, state, Source::Handed)
    }

    /// A replica executed something, took it back, or has it count.
    fn executes(
        &mut self,
        replica: ReplicaId,
        seen: &Observation,
        now: Micros,
        audit: &mut Audit,
    ) -> Verdict {
        match seen {
            Observation::Executed { slot, batch } => {
                self.justified.finalized(replica, *slot, batch.digest)?;
                if self.executed(replica, *slot, batch, now, audit)? {
                    self.speculation.executed(batch);
                }
            }
            Observation::Speculated { slot, batch, history, ran, told } => {
                audit.note(slot.0, 34, u64::from(replica.0), &batch.digest.0);
                let (batch, ran, told) = (batch.clone(), ran.clone(), told.clone());
                let done = Done { batch, history: *history, ran, told };
                self.speculation.speculated(replica, *slot, done);
            }
            Observation::RolledBack { after } => {
                audit.note(after.0, 35, u64::from(replica.0), &[]);
                self.rollbacks += 1;
                self.speculation.rolled_back(replica, *after);
            }
            Observation::Committed { upto } => {
                for (slot, done) in self.speculation.committed(replica, *upto)? {
                    self.confirmation.became_final(replica, slot, done.history)?;
                    self.justified.finalized(replica, slot, done.batch.digest)?;
                    self.executed(replica, slot, &done.batch, now, audit)?;
                    for (client, number) in done.ran {
                        self.at_most_once.ran(replica, slot, client, number)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A replica executed a batch that is final. Whether it is the first one that did.
    fn executed(
        &mut self,
        replica: ReplicaId,
        slot: Slot,
        batch: &Batch,
        now: Micros,
        audit: &mut Audit,
    ) -> Result<bool, Broken> {
        audit.note(slot.0, 30, u64::from(replica.0), &batch.digest.0);
        self.handover.executed(replica, slot, batch)?;
        self.configurations.executed(slot, batch)?;
        self.agreed_time.executed(now, replica, slot, batch.time)?;
        let is_first = self.agreement.executed(replica, slot, batch.digest)?;
        if is_first {
            self.validity.executed(slot, batch)?;
        }
        Ok(is_first)
    }

    /// A correct replica confirms a place, or would if a client asked.
    ///
    /// # Errors
    /// If something else is final.
    pub fn confirmed(&mut self, replica: ReplicaId, place: Place) -> Verdict {
        self.confirmation.confirmed(replica, place)
    }

    /// A correct replica lost its memory.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.speculation.reset(replica);
        self.contradictions.restarted(replica);
        self.promises.restarted(replica);
        self.reads.restarted(replica);
        self.deposition.begins(replica);
        self.checkpoints.begins(replica);
        self.handover.restarted(replica);
    }

    /// A correct replica goes on from what it had kept: it executes again what is behind that.
    pub fn resumed(&mut self, replica: ReplicaId, (epoch, view): (Epoch, View), slot: Slot) {
        self.speculation.reset(replica);
        self.agreement.resumed(replica, slot);
        self.contradictions.in_epoch(replica, epoch);
        self.justified.in_epoch(replica, epoch);
        self.promises.in_epoch(replica, epoch);
        self.reads.resumed(replica, epoch, view);
        self.deposition.begins(replica);
        self.checkpoints.begins(replica);
        self.handover.resumed(replica, epoch, slot);
        self.at_most_once.resumed(replica, slot);
        self.events_told.resumed(replica);
    }

    /// A replica refused a packet; `correct` if both ends are.
    ///
    /// # Errors
    /// If they are.
    pub fn refused(&mut self, by: ReplicaId, from: Address, correct: bool, why: Reject) -> Verdict {
        self.rejected += 1;
        let excused = self.abused_macs && why == Reject::BadRequest;
        acceptance::refused(by, from, correct && !excused, why)
    }

    /// A replica found a lie; `author_correct` says of whom. What faulty ones find is nothing.
    ///
    /// # Errors
    /// If the author is correct.
    pub fn reported(
        &mut self,
        by: ReplicaId,
        faulty: bool,
        found: &Evidence,
        author_correct: bool,
    ) -> Verdict {
        let kind = match found.finding {
            Finding::TwoCheckpoints { .. } => 0,
            Finding::DivergedState { .. } => 1,
            Finding::MismatchedCommit { .. } => 2,
            Finding::FutureTime { .. } => 3,
            Finding::OversizeBatch { .. } => 4,
            Finding::TwoProposals { .. } => 5,
            Finding::TwoVotes { .. } => 6,
        };
        self.found[kind] += 1;
        evidence::reported(by, found, author_correct && !faulty, self.in_step)
    }

    /// What a correct replica's service ran.
    ///
    /// # Errors
    /// If something ran twice.
    pub fn ran(&mut self, replica: ReplicaId, ran: Vec<(Slot, ClientId, u64)>) -> Verdict {
        ran.into_iter().try_for_each(|(slot, client, number)| {
            self.at_most_once.ran(replica, slot, client, number)
        })
    }

    /// A correct replica made a step, and now holds this much and is in this view.
    ///
    /// # Errors
    /// If a bound is passed, or a client was refused.
    pub fn stands(
        &mut self,
        replica: ReplicaId,
        status: &Status,
        load: &bounds::Load,
        now: Micros,
    ) -> Verdict {
        // Of several pillars, the status has one's view and another one's reason.
        if self.pillars == 1 {
            self.deposition.stands(replica, status.view, status.reason, now);
        }
        if let Some(broken) = self.refused.take() {
            return Err(broken);
        }
        bounds::check(replica, status, load, &self.tuning, (self.n, self.pillars))
    }

    /// A hostile client asked for something: it may run, or anything else under that number.
    pub fn may_run(&mut self, client: ClientId, operation: &Operation) {
        self.validity.submitted(client, operation.number, operation.to_bytes());
    }

    /// The checker of what clients are told unasked.
    pub const fn events(&mut self) -> &mut Events {
        &mut self.events_told
    }

    /// Whether a client has not been told everything yet.
    #[must_use]
    pub fn events_missing(&self) -> bool {
        !self.events_told.is_complete()
    }

    /// A client submitted an operation.
    pub fn submitted(&mut self, client: ClientId, operation: Operation) {
        self.validity.submitted(client, operation.number, operation.to_bytes());
        let Operation { number, key, action } = operation;
        self.events += 1;
        self.open.insert((client, number), self.history.len());
        let (invoked, returned, result) = (self.events, None, None);
        self.history.push(Seen { client, number, key, action, invoked, returned, result });
    }

    /// A client gives a number up: a fence may stand in place of its operation.
    pub fn given_up(&mut self, client: ClientId, number: u64) {
        self.validity.submitted(client, number, Bytes::from_static(FENCE));
    }

    /// A client begins again with a read, in the configuration that began behind this slot.
    pub fn reads_again(&mut self, client: ClientId, number: u64, base: Slot) {
        self.speculation.reads_again(client, number, base);
    }

    /// It has such a read ordered there.
    pub fn orders_again(&mut self, client: ClientId, number: u64) {
        self.speculation.orders_again(client, number);
    }

    /// A client was told what came of an operation.
    pub fn completed(&mut self, client: ClientId, number: u64, outcome: Outcome) {
        let Some(index) = self.open.remove(&(client, number)) else { return };
        self.events += 1;
        let seen = &mut self.history[index];
        let orders = seen.action != Action::Get;
        if let Err(broken) = self.speculation.accepted(client, number, &outcome, orders) {
            self.refused.get_or_insert(broken);
        }
        match outcome {
            Outcome::Done(result) => seen.result = Some(result.to_vec()),
            Outcome::Forgotten => {}
            Outcome::Refused | Outcome::Overtaken => {
                let detail = format!("{client}#{number} was refused: {outcome:?}");
                self.refused.get_or_insert(Broken::new(REFUSAL, detail));
            }
            Outcome::GivenUp => {
                // It changed nothing, as a read whose result nobody saw.
                seen.action = Action::Get;
                if let Err(broken) = self.at_most_once.never(client, number) {
                    self.refused.get_or_insert(broken);
                }
            }
        }
        seen.returned = Some(self.events);
    }

    /// The state of a correct replica at the end.
    ///
    /// # Errors
    /// If another one has another.
    pub fn ended(&mut self, replica: ReplicaId, slot: Slot, state: Digest) -> Verdict {
        self.checkpoints.state(replica, slot, state, Source::Final)
    }

    /// The last slot that any correct replica executed for good.
    #[must_use]
    pub fn highest(&self) -> Slot {
        self.agreement.highest()
    }

    /// Everything is final.
    ///
    /// # Errors
    /// If a client acted on what is not in the final history, or might have.
    pub fn all_is_final(&self) -> Verdict {
        self.speculation.ended()?;
        self.confirmation.ended(self.highest())
    }

    /// Looks at all that clients saw.
    ///
    /// # Errors
    /// If no order explains it, or a client was refused.
    pub fn history(&mut self) -> Verdict {
        if let Some(broken) = self.refused.take() {
            return Err(broken);
        }
        self.promptness.check()?;
        self.deposition.ended()?;
        self.undecided = linearizability::check(&self.history)?;
        Ok(())
    }

    /// The part of the summary that checkers know.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            requests: self.history.len() as u64,
            executed: self.at_most_once.requests(),
            slots: self.agreement.slots(),
            stable: self.checkpoints.stable(),
            view: self.highest_view,
            transfers: self.transfers,
            rollbacks: self.rollbacks,
            rejected: self.rejected,
            found: self.found,
            undecided: self.undecided,
            epochs: self.handover.epochs(),
            configurations: self.configurations.changes(),
            told: self.events_told.heard_count(),
            missed: self.events_told.missed_count(),
            late_mean_us: self.promptness.mean(),
            ..Summary::default()
        }
    }
}
