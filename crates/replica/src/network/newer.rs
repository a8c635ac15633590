//! Connections whose other end claims to be a member that joined after the configuration in which
//! this replica is (see [`pentarchy_machine::Newer`]). The replica counts them among the strangers:
//! it closes them when others need the room, and after a while.

use super::{Network, Sender};
use crate::fault::Fault;
use crate::links::Role;
use bytes::Bytes;
use pentarchy_core::ids::MemberId;

/// How many there may be: they send what members send, which is large.
const NEWER_MAX: usize = 8;

impl Network {
    /// Lets a stranger speak as a newer member, if that can be.
    pub(super) fn admit_newer(
        &mut self,
        id: MemberId,
        token: usize,
        now_ms: u64,
    ) -> Option<Sender> {
        if !self.credentials.may_be_newer(id) {
            return None;
        }
        let newer = self.newer();
        if newer.len() >= NEWER_MAX {
            let least = self.strangers.least_welcome_of(|it| newer.contains(&it))?;
            self.close(least, now_ms, "too many that say that they are newer members");
        }
        self.links.get_mut(token)?.role = Role::Newer;
        Some(Sender::Newer(token))
    }

    fn newer(&self) -> Vec<usize> {
        self.strangers.tokens().filter(|token| self.is_newer(*token)).collect()
    }

    /// Whether a connection is one to a newer member.
    pub fn is_newer(&self, token: usize) -> bool {
        self.links.get(token).is_some_and(|link| matches!(link.role, Role::Newer))
    }

    /// Answers a newer member, unless it has yet to read the last answer.
    pub fn answer_newer(&mut self, token: usize, answer: &Bytes) {
        let is_silent = self.faulty.fault == Fault::Silent;
        let link = self.links.get_mut(token).filter(|link| link.connection.queued_bytes() == 0);
        let Some(link) = link.filter(|_| !is_silent) else { return };
        // The queue is empty, so it takes this.
        if let Ok(bytes) = link.connection.queue_with(|to| to.array(answer)) {
            self.traffic.peers.messages_out += 1;
            self.messages.left("epochs", bytes);
            self.links.mark_dirty(token);
        }
    }

    /// Another configuration has begun. Those that are members of it dial again.
    pub(super) fn hang_up_on_newer(&mut self, now_ms: u64) {
        for token in self.newer() {
            self.close(token, now_ms, "is a member by now, or dials again");
        }
    }
}
