//! A replica that hears of checkpoints at other times than of the rest.

use super::{Address, Happening, Packet, ReplicaId, World};
use crate::time::Micros;

/// Kinds of messages about checkpoints.
const CHECKPOINTS: [&str; 2] = ["checkpoint", "stable"];

/// What ends a change of views: it is repeated.
const NEW_VIEW: &str = "new_view";

/// What was withheld is heard so many microseconds later at most.
const DELAY: Micros = 60_000;

/// And more of it so many microseconds later.
const AGAIN: Micros = 60_000;

impl World<'_> {
    /// Whether a replica does not hear this now: it never will, or [later](Self::release).
    pub(super) fn hears_later(&mut self, index: usize, from: Address, packet: &Packet) -> bool {
        let (Packet::Protocol(_, wire), Address::Replica(author)) = (packet, from) else {
            return false;
        };
        let is_late = usize::from(self.options.late_checkpoints) == index + 1;
        let is_deaf = self.replicas[index].deaf_until > self.now;
        if self.healed || !(is_late || is_deaf) {
            return false;
        }
        let kind = self.replicas[index].node.kind_of(author, wire).unwrap_or_default();
        let is_about_checkpoints = CHECKPOINTS.contains(&kind);
        let replica = &mut self.replicas[index];
        if is_late && is_about_checkpoints && self.now > replica.released_at {
            replica.withheld.push((from, packet.clone()));
            return true;
        }
        (is_deaf && !is_about_checkpoints) || (kind == NEW_VIEW && !replica.withheld.is_empty())
    }

    /// A replica hears some of what was withheld from it, oldest first, if the time has come; all
    /// of it when everything has healed.
    pub(super) fn release(&mut self, index: usize) {
        let (is_due, now) = (self.is_changing_views(index), self.now);
        let replica = &mut self.replicas[index];
        if replica.withheld.is_empty() {
            return;
        }
        let count = match self.healed {
            true => replica.withheld.len(),
            false if is_due && now >= replica.released_at + AGAIN => {
                replica.rng.range(1, replica.withheld.len() as u64) as usize
            }
            false => return,
        };
        // Its VIEW-CHANGE may be on the disk by then, or not.
        let at = now + replica.rng.range(1, DELAY);
        replica.released_at = at;
        let to = Address::Replica(ReplicaId(index as u16));
        let heard: Vec<_> = replica.withheld.drain(..count).collect();
        for (from, packet) in heard {
            self.schedule(at, Happening::Arrive { from, to, packet });
        }
    }

    pub(super) fn is_changing_views(&self, index: usize) -> bool {
        matches!(self.replicas[index].node.core().status().phase, "changing" | "entering")
    }
}
