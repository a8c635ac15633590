//! The replies and events that a round collects for clients that are connected.

use crate::limits::HostLimits;
use bytes::Bytes;
use pentarchy_core::designated_replier::{DesignatedReplier, ResultDigest};
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, View};
use pentarchy_core::limits::{BATCH_REQUESTS_MAX, CLIENT_EVENTS_MAX, RESULT_BYTES_MAX};
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::service::Replier;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Bytes of results or events in one message, unless one alone is larger.
const REPLIES_BYTES: usize = 1 << 20;

/// What a reply takes beside its result, or an event beside its body, at most.
const REPLY_HEADER_BYTES: usize = 16;

/// What a result takes by its digest.
const DIGEST_BYTES: usize = 8 + 32;

/// Connected clients by key.
pub struct Replies {
    clients: HashMap<ClientId, Client>,
    /// Clients with replies or events, in the order in which they are sent them.
    answered: VecDeque<ClientId>,
    /// Bytes of all that was collected.
    bytes: usize,
    /// Replies and events that were dropped.
    dropped: u64,
    limits: HostLimits,
    /// What this replica makes of results, ...
    replier: Option<Box<dyn Replier>>,
    /// ... unless it executes before it agrees, and clients compare what it tells.
    speculates: bool,
}

#[derive(Default)]
struct Client {
    replies: VecDeque<Reply>,
    /// Results that another replica tells.
    digests: VecDeque<ResultDigest>,
    /// Events by ascending number.
    events: VecDeque<(u64, Bytes)>,
    /// Bytes of all.
    bytes: usize,
}

impl Client {
    /// Takes out as many replies, or digests, or events, as fit one message.
    fn take(&mut self, hint: impl FnOnce() -> View) -> Option<ToClient> {
        if !self.replies.is_empty() {
            let count = prefix(&self.replies);
            let replies: Vec<Reply> = self.replies.drain(..count).collect();
            self.bytes -= replies.iter().map(bytes_of).sum::<usize>();
            return Some(ToClient::Replies { view: hint(), replies });
        }
        if !self.digests.is_empty() {
            let count = self.digests.len().min(BATCH_REQUESTS_MAX);
            let digests: Vec<ResultDigest> = self.digests.drain(..count).collect();
            self.bytes -= count * DIGEST_BYTES;
            return Some(ToClient::Digests { view: hint(), digests });
        }
        let (first, events) = take_run(&mut self.events)?;
        let bytes: usize = events.iter().map(|body| REPLY_HEADER_BYTES + body.len()).sum();
        self.bytes -= bytes;
        Some(ToClient::Events { oldest: 0, first, events })
    }
}

impl Replies {
    pub fn new(limits: HostLimits, replier: Option<Box<dyn Replier>>) -> Self {
        let (clients, answered) = (HashMap::new(), VecDeque::new());
        Self { clients, answered, bytes: 0, dropped: 0, limits, replier, speculates: false }
    }

    /// From now on it executes before it agrees, or it does not any more.
    pub const fn set_speculates(&mut self, speculates: bool) {
        self.speculates = speculates;
    }

    /// Whether this replica tells something else than results.
    pub const fn makes_own(&self) -> bool {
        self.replier.is_some() && !self.speculates
    }

    /// What this replica tells a client instead of a result.
    pub fn own(&mut self, client: &ClientId, number: u64, result: Bytes) -> Bytes {
        if !self.makes_own() {
            return result;
        }
        let Some(replier) = &mut self.replier else { return result };
        let own = replier.reply(client, number, &result);
        if own.len() > RESULT_BYTES_MAX { result } else { own }
    }

    pub fn contains(&self, id: &ClientId) -> bool {
        self.clients.contains_key(id)
    }

    /// The clients that are connected, in their order.
    pub fn clients(&self) -> BTreeSet<ClientId> {
        self.clients.keys().copied().collect()
    }

    /// A client is connected. What was collected for a connection before this one is lost.
    pub fn up(&mut self, id: ClientId) {
        if let Some(old) = self.clients.insert(id, Client::default()) {
            self.bytes -= old.bytes;
        }
    }

    /// A client is connected no more.
    pub fn down(&mut self, id: &ClientId) {
        if let Some(client) = self.clients.remove(id) {
            self.bytes -= client.bytes;
        }
    }

    /// Collects a reply or an event for a client, if it is connected. Drops it if that would be too
    /// many bytes: a client that misses something asks for it, and then gets it from the client
    /// table.
    pub fn notify(&mut self, id: &ClientId, notice: Notice) {
        let notice = match notice {
            // What the service makes of a result is for who is told it.
            Notice::Reply(Reply { number, outcome: Outcome::Done(result) })
                if self.makes_own() && self.clients.contains_key(id) =>
            {
                let outcome = Outcome::Done(self.own(id, number, result));
                Notice::Reply(Reply { number, outcome })
            }
            other => other,
        };
        self.collect(id, |client| match notice {
            Notice::Reply(reply) => {
                let bytes = bytes_of(&reply);
                client.replies.push_back(reply);
                bytes
            }
            Notice::Event { number, body } => {
                let bytes = REPLY_HEADER_BYTES + body.len();
                client.events.push_back((number, body));
                bytes
            }
        });
    }

    /// Collects what a client is told of a request that was just executed: its result, or the
    /// result's digest if another replica tells it.
    pub fn notify_executed(&mut self, id: &ClientId, notice: Notice, telling: DesignatedReplier) {
        let digest = match &notice {
            Notice::Reply(reply) => telling.digest(id, reply),
            Notice::Event { .. } => None,
        };
        match digest {
            Some(digest) => self.notify_digest(id, digest),
            None => self.notify(id, notice),
        }
    }

    fn notify_digest(&mut self, id: &ClientId, digest: ResultDigest) {
        self.collect(id, |client| {
            client.digests.push_back(digest);
            DIGEST_BYTES
        });
    }

    /// Replies and events that were dropped so far.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Has something collected, of so many bytes, if there is room.
    fn collect(&mut self, id: &ClientId, collect: impl FnOnce(&mut Client) -> usize) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let is_crowded = self.bytes > self.limits.clients_queue_bytes
            && client.bytes > self.limits.client_share_bytes();
        if is_crowded || client.bytes > self.limits.client_queue_bytes {
            self.dropped += 1;
            return;
        }
        if client.bytes == 0 {
            self.answered.push_back(*id);
        }
        let bytes = collect(client);
        client.bytes += bytes;
        self.bytes += bytes;
    }

    /// Takes out as many replies, or events, as fit one message, with their client. Each client is
    /// told which replica is primary for it.
    pub fn next_message(
        &mut self,
        hint: impl Fn(&ClientId) -> View,
    ) -> Option<(ClientId, ToClient)> {
        while let Some(id) = self.answered.front().copied() {
            let message = self.clients.get_mut(&id).and_then(|client| {
                let before = client.bytes;
                let message = client.take(|| hint(&id));
                self.bytes -= before - client.bytes;
                message.map(|message| (message, client.bytes > 0))
            });
            let goes_on = message.as_ref().is_some_and(|(_, has_more)| *has_more);
            if !goes_on {
                self.answered.pop_front();
            }
            if let Some((message, _)) = message {
                return Some((id, message));
            }
        }
        None
    }
}

/// Replies in messages of a size that a client takes.
pub fn in_messages(replies: Vec<Reply>) -> impl Iterator<Item = Vec<Reply>> {
    let mut left = VecDeque::from(replies);
    std::iter::from_fn(move || {
        (!left.is_empty()).then(|| {
            let count = prefix(&left);
            left.drain(..count).collect()
        })
    })
}

fn bytes_of(reply: &Reply) -> usize {
    match &reply.outcome {
        Outcome::Done(result) => REPLY_HEADER_BYTES + result.len(),
        _ => REPLY_HEADER_BYTES,
    }
}

/// How many replies fit one message; at least one.
fn prefix(replies: &VecDeque<Reply>) -> usize {
    let mut bytes = 0;
    let fits = |reply: &&Reply| {
        bytes += bytes_of(reply);
        bytes <= REPLIES_BYTES
    };
    replies.iter().take(BATCH_REQUESTS_MAX).take_while(fits).count().max(1)
}

/// Takes events whose numbers follow each other, as many as fit one message; at least one if there
/// is one.
fn take_run(events: &mut VecDeque<(u64, Bytes)>) -> Option<(u64, Vec<Bytes>)> {
    let first = events.front()?.0;
    let mut bytes = 0;
    let fits = |(expected, (number, body)): (u64, &(u64, Bytes))| {
        bytes += REPLY_HEADER_BYTES + body.len();
        expected == *number && (bytes <= REPLIES_BYTES || expected == first)
    };
    let count = (first..).zip(&*events).take(CLIENT_EVENTS_MAX).map(fits).take_while(|it| *it);
    let count = count.count();
    Some((first, events.drain(..count).map(|(_, body)| body).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::digest::Digest;

    fn collect(clients: &mut Replies, id: &ClientId, count: u64, bytes: usize) -> usize {
        let outcome = Outcome::Done(Bytes::from(vec![0; bytes]));
        let reply = |number| Reply { number, outcome: outcome.clone() };
        let notice = |number| Notice::Reply(reply(number));
        let before = clients.dropped();
        (0..count).for_each(|number| clients.notify(id, notice(number)));
        count as usize - (clients.dropped() - before) as usize
    }

    fn drained(clients: &mut Replies) -> Vec<(u8, usize)> {
        let mut sent = Vec::new();
        while let Some((id, message)) = clients.next_message(|_| View(0)) {
            let ToClient::Replies { replies, .. } = message else { panic!("{message:?}") };
            sent.push((id.0[0], replies.len()));
        }
        assert_eq!(clients.bytes, 0);
        sent
    }

    #[test]
    fn a_rounds_replies_leave_in_as_few_messages_as_the_limits_allow() {
        let (mut clients, id) = (Replies::new(HostLimits::default(), None), ClientId([1; 32]));
        clients.up(id);
        assert_eq!(collect(&mut clients, &ClientId([2; 32]), 1, 1), 1);
        assert_eq!(collect(&mut clients, &id, 3000, 1), 3000);
        assert_eq!(drained(&mut clients), [(1, 2048), (1, 952)]);
        assert_eq!(collect(&mut clients, &id, 3, 600 << 10), 3);
        assert_eq!(drained(&mut clients), [(1, 1), (1, 1), (1, 1)]);
        assert_eq!(drained(&mut clients), []);
    }

    #[test]
    fn each_client_is_told_who_is_primary_for_it() {
        let mut clients = Replies::new(HostLimits::default(), None);
        let ids = [ClientId([1; 32]), ClientId([2; 32])];
        for id in &ids {
            clients.up(*id);
            assert_eq!(collect(&mut clients, id, 1, 1), 1);
            let digest = ResultDigest { number: 1, digest: Digest([1; 32]) };
            clients.notify_digest(id, digest);
        }
        let mut told = Vec::new();
        while let Some((id, message)) = clients.next_message(|id| View(id.0[0].into())) {
            match message {
                ToClient::Replies { view, .. } | ToClient::Digests { view, .. } => {
                    told.push((id.0[0], view.0));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told, [(1, 1), (1, 1), (2, 2), (2, 2)]);
    }

    #[test]
    fn a_rounds_digests_leave_behind_the_replies() {
        let (mut clients, id) = (Replies::new(HostLimits::default(), None), ClientId([1; 32]));
        clients.up(id);
        for number in 0..3000 {
            let digest = ResultDigest { number, digest: Digest([1; 32]) };
            clients.notify_digest(&id, digest);
        }
        assert_eq!(collect(&mut clients, &id, 1, 1), 1);
        let mut sent = Vec::new();
        while let Some((_, message)) = clients.next_message(|_| View(0)) {
            sent.push(match message {
                ToClient::Replies { replies, .. } => (replies.len(), 0),
                ToClient::Digests { digests, .. } => (0, digests.len()),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((sent, clients.bytes), (vec![(1, 0), (0, 2048), (0, 952)], 0));
    }

    #[test]
    fn a_rounds_events_leave_behind_the_replies_in_runs_of_numbers() {
        let (mut clients, id) = (Replies::new(HostLimits::default(), None), ClientId([1; 32]));
        clients.up(id);
        let mut tell = |number, bytes| {
            let body = Bytes::from(vec![0; bytes]);
            clients.notify(&id, Notice::Event { number, body });
        };
        (3..6).for_each(|number| tell(number, 1));
        (7..9).for_each(|number| tell(number, 600 << 10));
        assert_eq!(collect(&mut clients, &id, 2, 1), 2);
        let mut sent = Vec::new();
        while let Some((_, message)) = clients.next_message(|_| View(0)) {
            sent.push(match message {
                ToClient::Replies { replies, .. } => (0, replies.len()),
                ToClient::Events { oldest: 0, first, events } => (first, events.len()),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((sent, clients.bytes), (vec![(0, 2), (3, 3), (7, 1), (8, 1)], 0));
    }

    #[test]
    fn no_more_is_collected_than_a_client_and_all_together_may_have() {
        let limits = HostLimits {
            clients_max: 100,
            client_queue_bytes: 10_000,
            clients_queue_bytes: 20_000,
            ..HostLimits::default()
        };
        let mut clients = Replies::new(limits, None);
        let ids = [1, 2, 3].map(|id| ClientId([id; 32]));
        ids.iter().for_each(|id| clients.up(*id));
        let collected = ids.map(|id| collect(&mut clients, &id, 40, 1_000));
        // The third still gets its share, which is less than one of these.
        assert_eq!(collected, [10, 10, 1]);
        clients.down(&ids[0]);
        assert_eq!(drained(&mut clients).iter().map(|(_, count)| count).sum::<usize>(), 11);
        assert_eq!(collect(&mut clients, &ids[2], 40, 1_000), 10);
    }

    #[test]
    fn what_a_core_replies_is_told_in_messages_of_a_size() {
        let reply = |number| Reply { number, outcome: Outcome::Done(vec![0; 400 << 10].into()) };
        let messages: Vec<usize> =
            in_messages((0..5).map(reply).collect()).map(|it| it.len()).collect();
        assert_eq!(messages, [2, 2, 1]);
        assert_eq!(in_messages(Vec::new()).count(), 0);
    }

    #[test]
    fn what_waits_for_a_connection_is_lost_with_it() {
        let (mut clients, id) = (Replies::new(HostLimits::default(), None), ClientId([1; 32]));
        clients.up(id);
        assert_eq!(collect(&mut clients, &id, 1, 1), 1);
        clients.up(id);
        assert_eq!(drained(&mut clients), []);
        assert_eq!(collect(&mut clients, &id, 1, 1), 1);
        assert_eq!(drained(&mut clients), [(1, 1)]);
        assert_eq!(collect(&mut clients, &id, 1, 1), 1);
        clients.down(&id);
        assert!(!clients.contains(&id) && drained(&mut clients).is_empty());
    }
}
