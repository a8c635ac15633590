//! Which client has been idle for longest. Asked for only when the table is full, so nothing is
//! kept up to date for it in a table that is not.

use super::Session;
use crate::ids::{ClientId, Slot};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Clients by last activity as of some slot, the idlest last. Every client whose activity changes
/// later is idle for less long than all of these, so those that are still as they were come first.
/// What is in here follows from the table, so it is no part of what makes two tables equal.
#[derive(Clone, Default, Debug)]
pub struct Idle(Vec<(Slot, ClientId)>);

impl PartialEq for Idle {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Idle {}

impl Idle {
    /// Takes the client that is idle for longest, of those equally idle the lowest. `now` is the
    /// slot that is executed. Whoever is taken must leave the table.
    pub fn take(&mut self, sessions: &BTreeMap<ClientId, Session>, now: Slot) -> Option<ClientId> {
        if let Some(client) = self.take_known(sessions) {
            return Some(client);
        }
        // Those of this slot may still be joined by others, in whatever order.
        *self = Self(by_idleness(sessions).filter(|(active, _)| *active < now).collect());
        self.0.sort_unstable_by(|a, b| b.cmp(a));
        self.take_known(sessions).or_else(|| by_idleness(sessions).min().map(|(_, client)| client))
    }

    fn take_known(&mut self, sessions: &BTreeMap<ClientId, Session>) -> Option<ClientId> {
        while let Some((active, client)) = self.0.pop() {
            if sessions.get(&client).is_some_and(|session| session.active == active) {
                return Some(client);
            }
        }
        None
    }

    /// The table is another one.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// All clients with their last activity, in no order of idleness.
fn by_idleness(
    sessions: &BTreeMap<ClientId, Session>,
) -> impl Iterator<Item = (Slot, ClientId)> + '_ {
    sessions.iter().map(|(client, session)| (session.active, *client))
}

/// All clients, the idlest first.
pub fn sorted(sessions: &BTreeMap<ClientId, Session>) -> Vec<ClientId> {
    let mut idle: Vec<_> = by_idleness(sessions).collect();
    idle.sort_unstable();
    idle.into_iter().map(|(_, client)| client).collect()
}
