//! Handing a connection's work to the replicas, and what comes of it.

use super::backend::{Backend, BackendError, Completion};
use super::backend_error::MAY_TAKE;
use super::budget::Share;
use super::connection::{Connection, WRITE_BYTES};
use super::hub::Ticket;
use super::inbox::Outcome;
use super::work::{Flight, Settled, Stage, Work};
use bytes::Bytes;
use pentarchy_services::kv::session::{
    PACK_REPLIES_BYTES, TRANSACTION_REPLIES_BYTES_MAX, pack, transaction,
};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of commands that go together. One that is larger goes alone.
const PACK_BYTES: usize = 64 << 10;

/// Commands that go together.
const PACK_COMMANDS: usize = 512;

impl<B: Backend> Connection<B> {
    /// When something has to be done that nobody tells.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.shared.config.reply_timeout;
        let starved = self.starved_since.filter(|_| self.wanted.is_some());
        let starved = starved.and_then(|since| since.checked_add(timeout));
        let flight = self.flight.as_ref().and_then(|flight| flight.deadline);
        [starved, flight, self.auth_deadline()].into_iter().flatten().min()
    }

    /// Whether a command of this connection waits for an element.
    pub fn is_blocked(&self) -> bool {
        let stage = self.flight.as_ref().map(|flight| flight.stage);
        matches!(stage, Some(Stage::Blocking(..) | Stage::Waiting(_) | Stage::Cancelling(_)))
    }

    /// Takes in what came of the work under way, and hands over more.
    pub fn advance(&mut self) {
        while self.flight.is_some() {
            match self.inbox.outcome() {
                Some(outcome) => self.on_outcome(outcome),
                None => break,
            }
        }
        let due = |flight: &&Flight| flight.deadline.is_some_and(|at| at <= self.now);
        if self.flight.as_ref().filter(due).is_some() {
            self.on_deadline();
        }
        // A backend may complete at once.
        while self.flight.is_none() && self.has_room() && self.begin() {
            while self.flight.is_some() {
                match self.inbox.outcome() {
                    Some(outcome) => self.on_outcome(outcome),
                    None => return,
                }
            }
        }
    }

    /// Whether more replies may come.
    fn has_room(&self) -> bool {
        self.output.len() + self.settled_bytes < WRITE_BYTES
    }

    fn on_outcome(&mut self, outcome: Outcome) {
        let Some(flight) = &mut self.flight else { return };
        match flight.stage {
            Stage::Pack(count) => {
                self.flight = None;
                let settled = match count {
                    1 => vec![Settled::single(outcome)],
                    count => Settled::pack(outcome, count),
                };
                self.settle(settled);
            }
            Stage::Blocking(token, until) if outcome == Outcome::Waits => {
                self.shared.counters.blocked.fetch_add(1, Relaxed);
                flight.stage = Stage::Waiting(token);
                flight.deadline = until;
            }
            Stage::Waiting(_) | Stage::Cancelling(_) if outcome == Outcome::Waits => {}
            Stage::Single | Stage::Blocking(..) | Stage::Waiting(_) | Stage::Cancelling(_) => {
                self.flight = None;
                let settled = match self.work.front() {
                    Some(Work::Exec(commands, watching)) => {
                        if *watching {
                            self.hub.watched(self.session.id);
                        }
                        Settled::transaction(outcome, commands.len())
                    }
                    _ => Settled::single(outcome),
                };
                self.settle(vec![settled]);
            }
        }
    }

    /// How long an operation may take, with what a backend needs to give it up.
    fn patience(&self) -> Duration {
        self.shared.config.reply_timeout.saturating_add(self.backend.grace())
    }

    fn on_deadline(&mut self) {
        let patience = self.patience();
        let Some(flight) = &mut self.flight else { return };
        if let Stage::Waiting(token) = flight.stage {
            flight.stage = Stage::Cancelling(token);
            flight.deadline = self.now.checked_add(patience);
            return self.hub.cancel(token);
        }
        let (count, line) = match flight.stage {
            Stage::Pack(count) => (count, BackendError::TimedOut.line()),
            Stage::Blocking(..) | Stage::Waiting(_) | Stage::Cancelling(_) => (1, MAY_TAKE),
            Stage::Single => (1, BackendError::TimedOut.line()),
        };
        self.abandon();
        self.settle((0..count).map(|_| Settled::Failed(line)).collect());
    }

    /// Cares no more for what is under way.
    pub fn abandon(&mut self) {
        self.inbox.begin();
        if let Some(flight) = self.land()
            && let Stage::Blocking(token, _) | Stage::Waiting(token) | Stage::Cancelling(token) =
                flight.stage
        {
            self.hub.abandon(token);
        }
    }

    /// Nothing is under way any more.
    fn land(&mut self) -> Option<Flight> {
        let flight = self.flight.take()?;
        if matches!(flight.stage, Stage::Waiting(_) | Stage::Cancelling(_)) {
            self.shared.counters.blocked.fetch_sub(1, Relaxed);
        }
        Some(flight)
    }

    /// The first work is done, and this came of it.
    fn settle(&mut self, settled: Vec<Settled>) {
        for settled in settled {
            if let Some(Work::Command(info, _)) = self.work.pop_front()
                && let Settled::Reply(reply) = &settled
            {
                self.sizes.note(info, reply.len());
            }
            self.settled_bytes += settled.length();
            self.settled.push_back(settled);
        }
    }

    /// Hands over what comes next, if there is something and a share of the budget for it. Says
    /// whether it did something.
    fn begin(&mut self) -> bool {
        if self.work.is_empty() {
            self.wanted = None;
            return false;
        }
        let (count, bytes) = self.next_pack();
        let Some(share) = self.share.take().or_else(|| self.shared.budget.try_take(bytes)) else {
            return self.starve(bytes);
        };
        (self.wanted, self.starved_since) = (None, None);
        let number = self.inbox.begin();
        let deadline = self.now.checked_add(self.patience());
        let stage = if count > 0 { Stage::Pack(count) } else { Stage::Single };
        self.flight = Some(Flight { stage, deadline });
        if count > 0 {
            let within = self.shared.config.reply_timeout;
            let operation = self.packed(count);
            let done = Completion::new(self.inbox.clone(), number, share);
            self.backend.submit(operation, within, done);
        } else {
            self.begin_single(number, share);
        }
        true
    }

    /// How many commands go together next, 0 if it is something else, and the bytes of results to
    /// be ready for.
    fn next_pack(&self) -> (usize, usize) {
        let (mut count, mut length, mut largest, mut sum) = (0, 0, 0, 0);
        for work in self.work.iter().take(PACK_COMMANDS) {
            let Work::Command(info, operation) = work else { break };
            length += operation.len();
            if count > 0 && length > PACK_BYTES {
                break;
            }
            let expected = self.sizes.expect(info);
            count += 1;
            largest = largest.max(expected);
            sum += expected;
        }
        match self.work.front() {
            Some(Work::Exec(..)) => (0, TRANSACTION_REPLIES_BYTES_MAX),
            _ => (count, sum.min(largest + PACK_REPLIES_BYTES)),
        }
    }

    fn packed(&self, count: usize) -> Bytes {
        let operations = self.work.iter().take(count).filter_map(|work| match work {
            Work::Command(_, operation) => Some(operation),
            _ => None,
        });
        let mut operations: Vec<_> = operations.collect();
        match operations[..] {
            [operation] => operation.clone(),
            // Without their tags.
            _ => pack(operations.drain(..).map(|operation| &operation[1..])),
        }
    }

    fn begin_single(&mut self, number: u64, share: Share) {
        let id = self.session.id;
        let ticket = Ticket { inbox: self.inbox.clone(), number };
        let within = self.shared.config.reply_timeout;
        match self.work.front() {
            None | Some(Work::Command(..)) => {}
            Some(Work::Exec(commands, watching)) => {
                let watch = if *watching { self.hub.watches_under(id) } else { None };
                if *watching && watch.is_none() {
                    // The session ended and the watch with it, so nobody knows what changed.
                    self.flight = None;
                    self.hub.watched(id);
                    return self.settle(vec![Settled::Replies(None)]);
                }
                let watch = watch.map(|instance| (instance, id));
                let operation = transaction(watch, commands.iter().map(|command| &command[1..]));
                let done = Completion::new(self.inbox.clone(), number, share);
                self.backend.submit(operation, within, done);
            }
            Some(Work::Watch(keys)) => self.hub.watch(id, keys.clone(), ticket, share),
            Some(Work::Unwatch) => self.hub.unwatch(id, ticket),
            Some(Work::Subscribe(changes)) => {
                self.hub.subscribe(id, changes, Some(ticket), &self.inbox);
            }
            Some(Work::Block(command, timeout)) => {
                let until = timeout.map(Duration::from_millis);
                let until = until.and_then(|timeout| self.now.checked_add(timeout));
                let token = self.hub.block(command.clone(), ticket, share);
                if let Some(flight) = &mut self.flight {
                    flight.stage = Stage::Blocking(token, until);
                }
            }
        }
    }

    /// There is no share of the budget. After too long, what would need one is refused.
    fn starve(&mut self, bytes: usize) -> bool {
        let since = *self.starved_since.get_or_insert(self.now);
        if self.now.saturating_duration_since(since) < self.shared.config.reply_timeout {
            self.wanted = Some(bytes);
            return false;
        }
        let count = self.next_pack().0.max(1);
        self.settle((0..count).map(|_| Settled::failed(BackendError::Busy)).collect());
        true
    }
}
