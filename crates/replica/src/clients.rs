//! The connected clients, and the replies that a round collects for them.

use pentarchy_core::ids::{ClientId, View};
use pentarchy_core::limits::{BATCH_REQUESTS_MAX, MESSAGE_BYTES_MAX};
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use std::collections::HashMap;

/// Bytes of results in one message, unless one result alone is larger.
const REPLIES_BYTES: usize = 1 << 20;

/// What a reply takes beside its result, at most.
const REPLY_HEADER_BYTES: usize = 16;

/// The largest result that fits a message.
const RESULT_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 64;

/// Clients by key.
#[derive(Default)]
pub struct Clients {
    clients: HashMap<ClientId, Client>,
    /// Clients with replies.
    answered: Vec<ClientId>,
}

struct Client {
    token: usize,
    replies: Vec<Reply>,
}

impl Clients {
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    pub fn contains(&self, id: &ClientId) -> bool {
        self.clients.contains_key(id)
    }

    /// The token under which a client is connected.
    pub fn token(&self, id: &ClientId) -> Option<usize> {
        self.clients.get(id).map(|client| client.token)
    }

    /// Takes note that a client is connected; gives the token of the connection that this one
    /// replaces.
    pub fn up(&mut self, id: ClientId, token: usize) -> Option<usize> {
        let old = self.clients.insert(id, Client { token, replies: Vec::new() });
        old.map(|old| old.token)
    }

    /// Takes note that a connection is over.
    pub fn down(&mut self, id: &ClientId, token: usize) {
        if self.clients.get(id).is_some_and(|client| client.token == token) {
            self.clients.remove(id);
        }
    }

    /// Collects replies for a client, if it is connected. One that is not asks again and is then
    /// answered from the client table.
    pub fn reply(&mut self, id: &ClientId, replies: Vec<Reply>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        if client.replies.is_empty() {
            self.answered.push(*id);
            client.replies = replies;
        } else {
            client.replies.extend(replies);
        }
    }

    /// Makes messages of what was collected. Says how many results were too large to be sent; their
    /// requests were executed, and their clients are told just that.
    pub fn drain(&mut self, view: View, mut send: impl FnMut(usize, &ToClient)) -> u64 {
        let mut too_large = 0;
        for id in self.answered.drain(..) {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let mut replies = std::mem::take(&mut client.replies);
            for reply in &mut replies {
                if bytes_of(reply) > RESULT_BYTES_MAX {
                    reply.outcome = Outcome::Forgotten;
                    too_large += 1;
                }
            }
            while !replies.is_empty() {
                let rest = replies.split_off(prefix(&replies));
                send(client.token, &ToClient::Replies { view, replies });
                replies = rest;
            }
        }
        too_large
    }
}

fn bytes_of(reply: &Reply) -> usize {
    match &reply.outcome {
        Outcome::Done(result) => REPLY_HEADER_BYTES + result.len(),
        Outcome::Forgotten | Outcome::Refused => REPLY_HEADER_BYTES,
    }
}

/// How many replies fit one message; at least one.
fn prefix(replies: &[Reply]) -> usize {
    let mut bytes = 0;
    let fits = |reply: &&Reply| {
        bytes += bytes_of(reply);
        bytes <= REPLIES_BYTES
    };
    replies.iter().take(BATCH_REQUESTS_MAX).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn replies(count: u64, bytes: usize) -> Vec<Reply> {
        let outcome = Outcome::Done(Bytes::from(vec![0; bytes]));
        (0..count).map(|number| Reply { number, outcome: outcome.clone() }).collect()
    }

    fn drained(clients: &mut Clients) -> (Vec<(usize, usize)>, u64) {
        let mut sent = Vec::new();
        let too_large = clients.drain(View(0), |token, message| {
            let ToClient::Replies { replies, .. } = message else { panic!("{message:?}") };
            sent.push((token, replies.len()));
        });
        (sent, too_large)
    }

    #[test]
    fn a_rounds_replies_leave_in_as_few_messages_as_the_limits_allow() {
        let (mut clients, id) = (Clients::default(), ClientId([1; 32]));
        clients.up(id, 7);
        clients.reply(&ClientId([2; 32]), replies(1, 1));
        clients.reply(&id, replies(1500, 1));
        clients.reply(&id, replies(1500, 1));
        assert_eq!(drained(&mut clients), (vec![(7, 2048), (7, 952)], 0));
        clients.reply(&id, replies(3, 600 << 10));
        assert_eq!(drained(&mut clients), (vec![(7, 1), (7, 1), (7, 1)], 0));
        clients.reply(&id, replies(1, MESSAGE_BYTES_MAX));
        assert_eq!(drained(&mut clients), (vec![(7, 1)], 1));
        assert_eq!(drained(&mut clients), (vec![], 0));
    }

    #[test]
    fn the_newest_connection_of_a_client_is_the_one() {
        let (mut clients, id) = (Clients::default(), ClientId([1; 32]));
        assert_eq!(clients.up(id, 1), None);
        assert_eq!(clients.up(id, 2), Some(1));
        clients.down(&id, 1);
        clients.reply(&id, replies(1, 1));
        assert_eq!(drained(&mut clients).0, [(2, 1)]);
        clients.down(&id, 2);
        assert_eq!(clients.len(), 0);
    }
}
