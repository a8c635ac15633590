//! Executing what may have to be taken back. A protocol that has replicas execute before anything
//! is agreed on says so slot by slot, says later what is final, and says in between, seldom, what
//! was not meant to be. Services need to know nothing of it.
//!
//! To go back is to restore a state and to execute again what stays of what came behind. That state
//! is the one of the last checkpoint, which exists anyway and shares with the present one all that
//! has not changed; so speculation costs nothing until something is taken back, and then as much as
//! the sections that changed and at most a checkpoint interval of batches. Client table, replies,
//! events and roster are sections like the service's, so they go back with it: a reply that stayed
//! in a cache outside would keep its request from ever being ordered again.
//!
//! Clients decide for themselves when to act on a result ([`Place`] says what it rests on). What
//! the service tells them unasked they believe as soon as `f + 1` replicas tell it, so that waits
//! here until it is final.

use super::{Executor, Lookup, Notice, Reply};
use crate::batch::Batch;
use crate::change::Change;
use crate::digest::Digest;
use crate::ids::{ClientId, Millis, Slot, View};
use crate::limits::{SPECULATIVE_ASKS_MAX, SPECULATIVE_UNTOLD_BYTES_MAX};
use crate::mutant;
use crate::ports::client::{Outcome, Place};
use crate::request::Envelope;
use crate::snapshot::Snapshot;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// What can be taken back, and to where.
pub(super) struct Speculation {
    /// The state from which slots are executed again.
    pub(super) mark: Snapshot,
    /// What was executed behind the mark, by slot.
    log: Vec<Done>,
    /// Nothing up to here is taken back.
    committed: Slot,
    /// How changes of the group stand there.
    settled: Changes,
    /// Who asked for results of which slot that were not final.
    asks: VecDeque<(Slot, Arc<Envelope>)>,
}

/// How changes of the group stand behind a slot.
#[derive(Clone)]
struct Changes {
    /// The one that waits for its members, and its digest.
    pending: Option<(Arc<Change>, Digest)>,
    /// How often what was proposed was withdrawn.
    withdrawn: u32,
    time: Millis,
}

/// One slot.
struct Done {
    batch: Arc<Batch>,
    /// How changes of the group stand behind it.
    changes: Changes,
    /// Where it stands.
    place: Place,
    /// What clients are to be told unasked, until they are.
    events: Vec<(ClientId, Notice)>,
    /// Results that clients were not told when it was executed. The client table may forget them
    /// before they are.
    deferred: Vec<(ClientId, Vec<Reply>)>,
}

/// Bytes of results.
fn bytes(results: &[(ClientId, Vec<Reply>)]) -> usize {
    let replies = results.iter().flat_map(|(_, replies)| replies);
    let length = |reply: &Reply| match &reply.outcome {
        Outcome::Done(result) => result.len(),
        _ => 0,
    };
    replies.map(length).sum()
}

impl Speculation {
    fn open(&self) -> impl Iterator<Item = &Done> {
        self.log.iter().filter(|done| done.place.slot > self.committed)
    }

    /// A slot behind the mark.
    fn slot(&mut self, slot: Slot) -> Option<&mut Done> {
        let index = slot.0.checked_sub(self.mark.slot.0 + 1)?;
        self.log.get_mut(usize::try_from(index).ok()?)
    }

    /// Keeps results until clients are told, unless too many wait for that already.
    fn keeps(&self, results: &[(ClientId, Vec<Reply>)]) -> bool {
        let held: usize = self.log.iter().map(|done| bytes(&done.deferred)).sum();
        held + bytes(results) <= SPECULATIVE_UNTOLD_BYTES_MAX
    }
}

impl Executor {
    /// Executes the next slot, which may be taken back until it is [committed](Self::commit);
    /// `reply` gets the results. Unless clients are `told` of them now, they are kept for
    /// [later](Self::answers). True if somebody waits until the slot is final.
    ///
    /// # Panics
    /// If `place` is not at the next slot, or behind the end of the epoch.
    pub fn speculate(
        &mut self,
        place: Place,
        batch: &Arc<Batch>,
        told: bool,
        mut reply: impl FnMut(&ClientId, Reply),
    ) -> bool {
        if self.speculation.is_none() {
            let mark = self.cut();
            let (committed, log, asks) = (mark.slot, Vec::new(), VecDeque::new());
            let settled = self.changes();
            self.speculation = Some(Speculation { mark, log, committed, settled, asks });
        }
        let (mut events, mut deferred) = (Vec::new(), Vec::<(ClientId, Vec<Reply>)>::new());
        self.run(place.slot, batch, |client, notice| match notice {
            Notice::Reply(answer) => {
                if !told {
                    match deferred.last_mut() {
                        Some((last, replies)) if last == client => replies.push(answer.clone()),
                        _ => deferred.push((*client, vec![answer.clone()])),
                    }
                }
                reply(client, answer);
            }
            event @ Notice::Event { .. } => events.push((*client, event)),
        });
        let is_wanted = !events.is_empty() || self.is_ending();
        let changes = self.changes();
        if let Some(speculation) = &mut self.speculation {
            if !speculation.keeps(&deferred) {
                deferred.clear();
            }
            speculation.log.push(Done { batch: batch.clone(), changes, place, events, deferred });
        }
        is_wanted
    }

    /// Nothing up to this slot will be taken back; `notify` gets the events that waited for that,
    /// and results for whoever [asked](Self::ask) for them.
    ///
    /// # Panics
    /// If it was not executed.
    pub fn commit(&mut self, upto: Slot, mut notify: impl FnMut(&ClientId, Notice)) {
        assert!(upto <= self.executed, "{upto} is committed before it is executed");
        let Some(speculation) = &mut self.speculation else { return };
        let from = speculation.committed.0 - speculation.mark.slot.0;
        let count = upto.0.saturating_sub(speculation.committed.0);
        speculation.committed = speculation.committed.max(upto);
        for done in speculation.log.iter_mut().skip(from as usize).take(count as usize) {
            speculation.settled.clone_from(&done.changes);
            core::mem::take(&mut done.events)
                .into_iter()
                .for_each(|(to, event)| notify(&to, event));
        }
        let asks = core::mem::take(&mut speculation.asks);
        let (final_now, open) = asks.into_iter().partition(|(slot, _)| *slot <= upto);
        speculation.asks = open;
        let final_now: VecDeque<(Slot, Arc<Envelope>)> = final_now;
        for (_, envelope) in &final_now {
            for (request, known) in envelope.requests.iter().zip(self.lookups(envelope)) {
                if let Lookup::Settled(outcome) = known {
                    let reply = Reply { number: request.number, outcome };
                    notify(&envelope.client, Notice::Reply(reply));
                }
            }
        }
    }

    /// Takes back what was executed behind this slot.
    ///
    /// # Panics
    /// If some of it was committed, or the own state cannot be restored although it is there: the
    /// core or the service is broken. If it is not there, [`Self::failure`] says so.
    pub fn rollback(&mut self, after: Slot) {
        if after >= self.executed {
            return;
        }
        let speculation = self.speculation.take();
        let mut speculation = speculation.expect("only what is speculative is taken back");
        let committed = speculation.committed;
        assert!(after >= committed, "{committed} is committed, and is to be taken back");
        let clients = !mutant!("executor.clients-not-rolled-back");
        let restored = self.restore(&speculation.mark, clients);
        if self.failure().is_some() {
            // What it was to go back to is lost: the host ends this replica.
            return;
        }
        restored.expect("it is restored where it was taken");
        speculation.log.truncate((after.0 - speculation.mark.slot.0) as usize);
        speculation.asks.retain(|(slot, _)| *slot <= after);
        for done in &speculation.log {
            self.run(done.place.slot, &done.batch, |_, _| {});
        }
        self.speculation = Some(speculation);
    }

    /// What may be taken back stands in another view now: what clients are to be told anew, those
    /// results for which they have not declared that they have them.
    pub fn restate(&mut self, view: View) -> Vec<(ClientId, Place, Vec<Reply>)> {
        let open = self.committed().0 + 1..=self.executed.0;
        let told = open.flat_map(|slot| self.answers(Slot(slot), view)).collect();
        if mutant!("executor.other-view-not-told") { Vec::new() } else { told }
    }

    /// What clients are to be told of a slot behind the last checkpoint, which stands in this view:
    /// results that they were not told yet, or else those for which they have not declared that
    /// they have them. Nothing of any other slot.
    pub fn answers(&mut self, slot: Slot, view: View) -> Vec<(ClientId, Place, Vec<Reply>)> {
        let done = self.speculation.as_mut().and_then(|speculation| speculation.slot(slot));
        let Some(Done { batch, place, deferred, .. }) = done else { return Vec::new() };
        place.view = view;
        let (place, batch, deferred) = (*place, batch.clone(), core::mem::take(deferred));
        if deferred.is_empty() {
            return self.results(place, &batch).collect();
        }
        deferred.into_iter().map(|(client, replies)| (client, place, replies)).collect()
    }

    fn results<'a>(
        &'a self,
        place: Place,
        batch: &'a Batch,
    ) -> impl Iterator<Item = (ClientId, Place, Vec<Reply>)> + use<'a> {
        batch.envelopes.iter().filter_map(move |envelope| {
            let settled = envelope.requests.iter().zip(self.lookups(envelope));
            let done = settled.filter_map(|(request, known)| match known {
                Lookup::Settled(outcome @ (Outcome::Done(_) | Outcome::GivenUp)) => {
                    Some(Reply { number: request.number, outcome })
                }
                Lookup::Settled(_) | Lookup::New => None,
            });
            let replies: Vec<Reply> = done.collect();
            (!replies.is_empty()).then_some((envelope.client, place, replies))
        })
    }

    /// The last slot that will not be taken back.
    #[must_use]
    pub fn committed(&self) -> Slot {
        self.speculation.as_ref().map_or(self.executed, |speculation| speculation.committed)
    }

    /// Whether something was executed that may be taken back.
    #[must_use]
    pub fn is_speculative(&self) -> bool {
        self.committed() < self.executed
    }

    fn changes(&self) -> Changes {
        let pending = self.pending_change().map(|(change, digest)| (change.clone(), digest));
        Changes { pending, withdrawn: self.withdrawn_changes(), time: self.time }
    }

    /// How changes stand behind the last slot that will not be taken back, if others may be.
    fn settled(&self) -> Option<&Changes> {
        let speculation = self.speculation.as_ref().filter(|_| self.is_speculative());
        speculation.map(|speculation| &speculation.settled)
    }

    /// The change that is [pending](Self::pending_change) behind the last slot that will not be
    /// taken back.
    #[must_use]
    pub fn settled_change(&self) -> Option<(&Arc<Change>, Digest)> {
        match self.settled() {
            Some(settled) => settled.pending.as_ref().map(|(change, digest)| (change, *digest)),
            None => self.pending_change(),
        }
    }

    /// How often what administrators proposed was withdrawn, and the agreed time, behind that slot.
    #[must_use]
    pub fn settled_withdrawals(&self) -> (u32, Millis) {
        let present = (self.withdrawn_changes(), self.time);
        self.settled().map_or(present, |settled| (settled.withdrawn, settled.time))
    }

    /// Whether an event for this client waits until it is final.
    #[must_use]
    pub fn withholds_events(&self, client: &ClientId) -> bool {
        let mut open = self.speculation.iter().flat_map(Speculation::open);
        open.any(|done| done.events.iter().any(|(who, _)| who == client))
    }

    /// Says of each number of this client that is settled on what that rests, if it may be taken
    /// back.
    pub fn places<'a>(&'a self, client: &ClientId) -> impl Fn(u64) -> Option<Place> + use<'a> {
        let mut known: Vec<(Place, &'a Arc<Envelope>)> = Vec::new();
        if let Some(speculation) = &self.speculation {
            for Done { batch, place, .. } in speculation.open() {
                let of_client = batch.envelopes.iter().filter(|it| it.client == *client);
                known.extend(of_client.map(|envelope| (*place, envelope)));
            }
        }
        move |number| {
            known.iter().find(|(_, envelope)| envelope.asks(number)).map(|(place, _)| *place)
        }
    }

    /// Where stands what was speculated behind the last checkpoint, also what is final by now.
    #[must_use]
    pub fn places_of_all(&self) -> Vec<Place> {
        let log = self.speculation.iter().flat_map(|speculation| &speculation.log);
        log.map(|done| done.place).collect()
    }

    /// A client asks for results of this slot, which is not final: it is told when it is.
    pub fn ask(&mut self, slot: Slot, envelope: &Arc<Envelope>) {
        let Some(Speculation { asks, .. }) = &mut self.speculation else { return };
        let known = asks.iter().any(|(at, it)| *at == slot && it.digest == envelope.digest);
        if !known && asks.len() < SPECULATIVE_ASKS_MAX {
            asks.push_back((slot, envelope.clone()));
        }
    }

    /// A state was taken that nothing goes back behind.
    pub(super) fn mark(&mut self, snapshot: &Snapshot) {
        if let Some(speculation) = &mut self.speculation {
            assert!(speculation.committed == snapshot.slot, "checkpoints are final");
            speculation.mark = snapshot.clone();
            speculation.log.clear();
        }
    }
}
