//! One line for each thing that happens, for people who look for the cause of a violation.

use super::World;
use crate::node::Observation;
use core::fmt;
use pentarchy_core::ids::ReplicaId;

impl World {
    /// Passes a line on, if anybody listens; makes it only then.
    pub(super) fn note(&mut self, who: impl fmt::Debug, what: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let line = format!("{:>12.3} {who:?} {}", self.now as f64 / 1_000.0, what(self));
            if let Some(log) = &mut self.log {
                log(&line);
            }
        }
    }

    pub(super) fn describe(&self, id: ReplicaId, seen: &Observation) -> String {
        match seen {
            Observation::Said { to, incoming } => {
                let core = self.replicas[usize::from(id.0)].node.core();
                format!("-> {to:?} {}", core.describe(incoming))
            }
            Observation::Relayed { to, wire } => {
                let node = &self.replicas[usize::from(id.0)].node;
                format!("relays -> {to:?} {}", node.describe_wire(wire))
            }
            Observation::Executed { slot, batch } => {
                format!("executes {slot} {:?}", batch.envelopes)
            }
            Observation::Replied { client, replies } => {
                let numbers: Vec<u64> = replies.iter().map(|reply| reply.number).collect();
                format!("replies to {client} {numbers:?}")
            }
            Observation::Told { client, number, .. } => format!("tells {client} event {number}"),
            Observation::Certified { ui, .. } => format!("certifies {:?}", ui.position),
            Observation::Checkpointed { slot, state } => format!("has {state} at {slot}"),
            Observation::Stable { slot, state } => format!("believes {state} at {slot}"),
            Observation::Fetching { slot, state } => format!("fetches {state} at {slot}"),
            Observation::Installed { slot, state } => format!("installs {state} at {slot}"),
            Observation::Entered { view, reason } => format!("enters {view}: {reason}"),
            Observation::Diverged { slot } => format!("diverged at {slot}"),
            Observation::Rejected { from, why } => format!("refuses {from:?}: {}", why.name()),
            Observation::Reported(evidence) => format!("reports {evidence:?}"),
        }
    }
}
