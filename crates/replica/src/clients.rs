//! The connected clients.

use pentarchy_core::ids::ClientId;
use std::collections::HashMap;

/// Clients by key.
#[derive(Default)]
pub struct Clients {
    clients: HashMap<ClientId, Client>,
    /// Connections that began, and that ended, as the machine is to be told.
    changes: Vec<(ClientId, Change)>,
}

struct Client {
    token: usize,
    /// When it was last heard of.
    heard_ms: u64,
}

/// What happened to a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// There is one, and it takes the place of any before.
    Up,
    /// There is none any more.
    Down,
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

    /// The clients that are connected, and the tokens of their connections.
    pub fn connected(&self) -> impl Iterator<Item = (&ClientId, usize)> {
        self.clients.iter().map(|(id, client)| (id, client.token))
    }

    /// Takes note that a client is connected; gives the token of the connection that this one
    /// replaces.
    pub fn up(&mut self, id: ClientId, token: usize, now_ms: u64) -> Option<usize> {
        self.changes.push((id, Change::Up));
        let old = self.clients.insert(id, Client { token, heard_ms: now_ms })?;
        Some(old.token)
    }

    /// Takes note that a connection is over.
    pub fn down(&mut self, id: &ClientId, token: usize) {
        if self.token(id) == Some(token) {
            self.clients.remove(id);
            self.changes.push((*id, Change::Down));
        }
    }

    /// What happened to connections since the last call.
    pub fn take_changes(&mut self) -> Vec<(ClientId, Change)> {
        std::mem::take(&mut self.changes)
    }

    /// Takes note that a client said something.
    pub fn heard(&mut self, id: &ClientId, now_ms: u64) {
        if let Some(client) = self.clients.get_mut(id) {
            client.heard_ms = now_ms;
        }
    }

    /// The token of the client that is silent for longest, and since when it is.
    pub fn most_silent(&self) -> Option<(usize, u64)> {
        let client = self.clients.values().min_by_key(|client| client.heard_ms)?;
        Some((client.token, client.heard_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_of_a_client_is_the_one() {
        let (mut clients, id) = (Clients::default(), ClientId([1; 32]));
        assert_eq!(clients.up(id, 1, 0), None);
        assert_eq!(clients.up(id, 2, 0), Some(1));
        clients.down(&id, 1);
        assert_eq!(clients.token(&id), Some(2));
        clients.down(&id, 2);
        assert_eq!(clients.len(), 0);
        assert_eq!(
            clients.take_changes(),
            [(id, Change::Up), (id, Change::Up), (id, Change::Down)]
        );
        assert!(clients.take_changes().is_empty());
    }

    #[test]
    fn who_is_silent_for_longest_is_known() {
        let mut clients = Clients::default();
        assert_eq!(clients.most_silent(), None);
        clients.up(ClientId([1; 32]), 1, 5);
        clients.up(ClientId([2; 32]), 2, 6);
        assert_eq!(clients.most_silent(), Some((1, 5)));
        clients.heard(&ClientId([1; 32]), 7);
        assert_eq!(clients.most_silent(), Some((2, 6)));
    }
}
