//! Everything that happens in a world, for people and tools that look for the cause of a violation:
//! who, when, what. Packets carry when they arrive where, so that arrows can be drawn.

use super::World;
use crate::network::Parts;
use crate::observation::Observation;
use crate::packet::{Address, Packet};
use crate::swarm::Disturbance;
use crate::time::Micros;
use core::fmt;
use pentarchy_core::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::protocol::TimerKey;
use pentarchy_core::wire::Wire;

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
        /// See [`crate::packet::Packet::kind`].
        kind: u8,
        /// Its size.
        bytes: usize,
        /// When it arrives: never, once or twice.
        arrivals: [Option<Micros>; 2],
        /// What it says.
        text: String,
    },
    /// A timer ran out.
    Timeout(TimerKey),
    /// Something goes wrong.
    Disturbed(Disturbance),
    /// From now on everything works.
    Heals,
    /// Anything else: of what sort, and in words.
    Does(Deed, String),
}

/// Sorts of deeds, for those who look for some of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Hands a message to the host. What leaves has events of its own.
    Says,
    /// Tells a lie.
    Lies,
    /// Has a device certify something.
    Certifies,
    /// Executes a slot.
    Executes,
    /// Enters a view.
    Enters,
    /// Refuses a packet.
    Refuses,
    /// Stops for good.
    Crashes,
    /// Anything else.
    Other,
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
            What::Departs { to, kind, bytes, arrivals, .. } => {
                write!(f, "packet of kind {kind}, {bytes} bytes, to {to:?} at {arrivals:?}")
            }
            What::Timeout(timer) => write!(f, "timeout {timer:?}"),
            What::Disturbed(Disturbance::Partition { parts, lasts }) => {
                let parts = (0..Parts::PLACES_MAX as u16).map(|place| parts.of(place));
                write!(f, "Partition {:?} for {lasts}", parts.collect::<Vec<_>>())
            }
            What::Disturbed(disturbance) => write!(f, "{disturbance:?}"),
            What::Heals => f.write_str("heals"),
            What::Does(_, text) => f.write_str(text),
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
        let text = match seen {
            Observation::Said { to, incoming, .. } => {
                format!("-> {to:?} {}", node.core().describe(incoming))
            }
            Observation::Relayed { to, wire, .. } => {
                format!("relays -> {to:?} {}", node.describe_wire(wire))
            }
            Observation::Lied { to, lie } => format!("lies -> {to:?} {lie:?}"),
            Observation::Executed { slot, batch } => {
                format!("executes {slot} {:?}", batch.envelopes)
            }
            Observation::Speculated { slot, batch, .. } => {
                format!("speculates {slot} {:?}", batch.envelopes)
            }
            Observation::Committed { upto } => format!("commits up to {upto}"),
            Observation::RolledBack { after } => format!("rolls back to {after}"),
            Observation::Confirmed { place } => {
                format!("confirms {} of {}", place.slot, place.view)
            }
            Observation::Replied { .. }
            | Observation::Supports { .. }
            | Observation::Queried { .. }
            | Observation::Answered { .. }
            | Observation::Told { .. } => describe_answer_to(seen),
            Observation::LostCounter | Observation::Rewound(_) => describe_end(seen),
            Observation::Removed { .. } => describe_end(seen),
            Observation::Certified { ui, .. } => format!("certifies {:?}", ui.position),
            Observation::Checkpointed { slot, state } => format!("has {state} at {slot}"),
            Observation::Stable { slot, state } => format!("believes {state} at {slot}"),
            Observation::Fetching { slot, state } => format!("fetches {state} at {slot}"),
            Observation::Left { behind, durable } => {
                format!("a message leaves behind entry {behind}, and {durable} are durable")
            }
            Observation::Rests { slot, saved } => {
                format!("goes on as the state at {slot} is saved: {saved:?}")
            }
            Observation::Found(found) => format!("finds {found:?}"),
            Observation::Resumes { epoch, is_answered } => {
                format!("speaks in {epoch}, answered by enough others: {is_answered}")
            }
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
        };
        let deed = match seen {
            Observation::Said { .. }
            | Observation::Relayed { .. }
            | Observation::Confirmed { .. }
            | Observation::Replied { .. }
            | Observation::Told { .. } => Deed::Says,
            Observation::Lied { .. } => Deed::Lies,
            Observation::Certified { .. } => Deed::Certifies,
            Observation::Executed { .. } | Observation::Speculated { .. } => Deed::Executes,
            Observation::Entered { .. } => Deed::Enters,
            Observation::Rejected { .. } => Deed::Refuses,
            _ => Deed::Other,
        };
        What::Does(deed, text)
    }

    /// What a packet says, in the words of whoever sends it.
    pub(super) fn describe_packet(&self, from: Place, packet: &Packet) -> String {
        match (packet, from) {
            (Packet::Protocol(_, wire), Place::Replica(place, _)) => {
                let node = &self.replicas[usize::from(place)].node;
                let text = node.describe_wire(wire);
                let own = text.strip_prefix(&format!("{} ", node.me())).map(ToOwned::to_owned);
                own.unwrap_or_else(|| format!("relays {text}"))
            }
            (Packet::ToReplica(wire), _) => describe_request(wire),
            (Packet::ToClient(_, wire), _) => describe_answer(wire),
            (Packet::Transfer(wire), _) => format!("state transfer, {} bytes", wire.len()),
            (Packet::Epochs(wire), _) => format!("about epochs, {} bytes", wire.len()),
            (Packet::Resuming(wire), _) => format!("about a restart, {} bytes", wire.len()),
            (Packet::Protocol(_, wire), _) => format!("{} bytes", wire.len()),
        }
    }
}

/// Why a replica ends.
fn describe_end(seen: &Observation) -> String {
    match seen {
        Observation::LostCounter => "ends, as its counter does not answer".to_owned(),
        Observation::Rewound(text) => format!("ends: {text}"),
        Observation::Removed { epoch } => format!("ends, as {epoch} has no place for it"),
        _ => String::new(),
    }
}

/// What passes between a replica and a client.
fn describe_answer_to(seen: &Observation) -> String {
    match seen {
        Observation::Replied { client, replies } => {
            let numbers: Vec<u64> = replies.iter().map(|reply| reply.number).collect();
            format!("replies to {client} {numbers:?}")
        }
        Observation::Supports { slot, .. } => format!("a client knows of {slot} from it"),
        Observation::Queried { client, number } => {
            format!("has to answer {client} query {number}")
        }
        Observation::Answered { client, number, state } => {
            format!("answers {client} query {number} from {}", state.0)
        }
        Observation::Told { client, number, .. } => format!("tells {client} event {number}"),
        _ => String::new(),
    }
}

fn describe_request(wire: &Bytes) -> String {
    match ToReplica::from_bytes(wire) {
        Ok(ToReplica::Request(envelope)) => {
            let numbers = envelope.requests.iter().map(|request| format!("#{}", request.number));
            format!("Request {}", numbers.collect::<Vec<_>>().join(" "))
        }
        Ok(ToReplica::Query { number, .. }) => format!("Query #{number}"),
        Ok(ToReplica::Resume { from }) => format!("Resume from event {from}"),
        Ok(ToReplica::Protocol(message)) => format!("Protocol, {} bytes", message.len()),
        Ok(ToReplica::Status) => "Status".to_owned(),
        Ok(ToReplica::Standing { from }) => format!("Standing from {from}"),
        Ok(ToReplica::State(question)) => format!("State {}", question.slot()),
        Err(_) => format!("{} bytes that are malformed", wire.len()),
    }
}

fn describe_answer(wire: &Bytes) -> String {
    match ToClient::from_bytes(wire) {
        Ok(ToClient::Replies { view, replies }) => {
            let numbers = replies.iter().map(|reply| format!("#{}", reply.number));
            format!("Reply {view} {}", numbers.collect::<Vec<_>>().join(" "))
        }
        Ok(ToClient::Digests { view, digests }) => {
            let numbers = digests.iter().map(|told| format!("#{}", told.number));
            format!("Digests {view} {}", numbers.collect::<Vec<_>>().join(" "))
        }
        Ok(ToClient::Speculative { place, replies, .. }) => {
            let numbers = replies.iter().map(|reply| format!("#{}", reply.number));
            let numbers = numbers.collect::<Vec<_>>().join(" ");
            format!("Speculative {} {} {numbers}", place.view, place.slot)
        }
        Ok(ToClient::SpeculativeDigests { place, digests, .. }) => {
            let numbers = digests.iter().map(|told| format!("#{}", told.number));
            let numbers = numbers.collect::<Vec<_>>().join(" ");
            format!("SpeculativeDigests {} {} {numbers}", place.view, place.slot)
        }
        Ok(ToClient::Vouched { place, .. }) => format!("Vouched {} {}", place.view, place.slot),
        Ok(ToClient::Protocol(bytes)) => format!("Protocol {} bytes", bytes.len()),
        Ok(ToClient::Committed(place)) => format!("Committed {} {}", place.view, place.slot),
        Ok(ToClient::Answer { number, .. }) => format!("Answer #{number}"),
        Ok(ToClient::Busy { number }) => format!("Busy #{number}"),
        Ok(_) => format!("Events, {} bytes", wire.len()),
        Err(_) => format!("{} bytes that are malformed", wire.len()),
    }
}
