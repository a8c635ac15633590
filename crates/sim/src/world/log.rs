//! Everything that happens in a world, for people and tools that look for the cause of a violation:
//! who, when, what. Packets carry when they arrive where, so that arrows can be drawn.

use super::World;
use crate::network::Cells;
use crate::node::{Address, Observation};
use crate::swarm::Disturbance;
use crate::time::Micros;
use core::fmt;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::TimerKey;

/// Where something happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// To the world as a whole.
    World,
    /// Where a replica runs, and which.
    Replica(u16, ReplicaId),
    /// At a client, by its index; hostile ones come after the others.
    Client(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world"),
            Self::Replica(place, id) if *place == id.0 => write!(f, "{id}"),
            Self::Replica(place, id) => write!(f, "{id}'{place}"),
            Self::Client(index) => write!(f, "c{index}"),
        }
    }
}

/// What happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A packet leaves.
    Departs {
        /// To a client, or to a replica by its place.
        to: Address,
        /// See [`crate::node::Packet::kind`].
        kind: u8,
        /// Its size.
        bytes: usize,
        /// When it arrives: never, once or twice.
        arrivals: [Option<Micros>; 2],
    },
    /// A timer ran out.
    Timeout(TimerKey),
    /// Something goes wrong.
    Disturbed(Disturbance),
    /// From now on everything works.
    Heals,
    /// Anything else, in words.
    Does(String),
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When.
    pub at: Micros,
    /// Where.
    pub place: Place,
    /// What.
    pub what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.3} {} ", self.at as f64 / 1_000.0, self.place)?;
        match &self.what {
            What::Departs { to, kind, bytes, arrivals } => {
                write!(f, "packet of kind {kind}, {bytes} bytes, to {to:?} at {arrivals:?}")
            }
            What::Timeout(timer) => write!(f, "timeout {timer:?}"),
            What::Disturbed(Disturbance::Partition { cells, lasts }) => {
                let parts = (0..Cells::PLACES_MAX as u16).map(|place| cells.of(place));
                write!(f, "Partition {:?} for {lasts}", parts.collect::<Vec<_>>())
            }
            What::Disturbed(disturbance) => write!(f, "{disturbance:?}"),
            What::Heals => f.write_str("heals"),
            What::Does(text) => f.write_str(text),
        }
    }
}

/// Gets each thing that happens, in order.
pub type Log = Box<dyn FnMut(&Event)>;

impl World<'_> {
    /// Passes something on, if anybody listens; makes it only then.
    pub(super) fn note(&mut self, place: Place, what: impl FnOnce(&Self) -> What) {
        if self.log.is_some() {
            let event = Event { at: self.now, place, what: what(self) };
            if let Some(log) = &mut self.log {
                log(&event);
            }
        }
    }

    /// The name of a replica's place.
    pub(super) fn place(&self, index: usize) -> Place {
        Place::Replica(index as u16, self.replicas[index].id)
    }

    pub(super) fn describe(&self, index: usize, seen: &Observation) -> What {
        let node = &self.replicas[index].node;
        What::Does(match seen {
            Observation::Said { to, incoming } => {
                format!("-> {to:?} {}", node.core().describe(incoming))
            }
            Observation::Relayed { to, wire } => {
                format!("relays -> {to:?} {}", node.describe_wire(wire))
            }
            Observation::Lied { to, lie } => format!("lies -> {to:?} {lie:?}"),
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
            Observation::Asked { number, .. } => format!("asks to be admitted, #{number}"),
            Observation::Ended(handover) => {
                format!("has executed all of {} up to {}", handover.epoch, handover.base.slot)
            }
            Observation::Began(membership) => {
                format!("goes on in {} behind {}", membership.epoch, membership.base.slot)
            }
        })
    }
}
