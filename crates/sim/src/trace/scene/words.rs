//! What replicas do and say, in words.

use crate::node::ReplicaNode;
use crate::observation::Observation;
use crate::packet::place_of;
use pentarchy_core::Bytes;
use pentarchy_core::change::Petition;
use pentarchy_core::epochs::{Handover, Message};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Outcome, Reply};
use pentarchy_core::protocol::To;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire as _;

/// What a replica does; none if a trace does not tell.
pub fn seen(node: &ReplicaNode<'_>, seen: &Observation) -> Option<String> {
    Some(match seen {
        Observation::Said { to, incoming, .. } => {
            let said = node.core().describe(incoming);
            let said = said.strip_prefix(&format!("{} ", node.me())).unwrap_or(&said);
            format!("-> {}   {said}", target(node, *to))
        }
        Observation::Relayed { to, wire, .. } => {
            format!("-> {}   relays {}", target(node, *to), node.describe_wire(wire))
        }
        Observation::Executed { slot, batch } => format!("executes {slot} {:?}", batch.envelopes),
        Observation::Speculated { slot, batch, .. } => {
            format!("speculates {slot} {:?}", batch.envelopes)
        }
        Observation::Committed { upto } => format!("commits up to {upto}"),
        Observation::RolledBack { after } => format!("rolls back to {after}"),
        Observation::Replied { client, replies } => {
            let replies: Vec<String> = replies.iter().map(reply).collect();
            format!("-> {client}   Reply {}", replies.join(", "))
        }
        Observation::Told { client, number, .. } => format!("-> {client}   Event {number}"),
        Observation::Checkpointed { slot, state } => format!("checkpoint at {slot} {state}"),
        Observation::Stable { slot, state } => format!("stable at {slot} {state}"),
        Observation::Fetching { slot, state } => format!("fetches {slot} {state}"),
        Observation::Installed { slot, state } => format!("installs {slot} {state}"),
        Observation::Entered { view, reason } => format!("enters {view}: {reason}"),
        Observation::Diverged { slot } => format!("diverged at {slot}"),
        Observation::Rejected { from, why } => format!("refuses {from:?}: {}", why.name()),
        Observation::Reported(evidence) => format!("reports {evidence:?}"),
        Observation::Ended(handover) => format!("has executed all of {}", end(handover)),
        Observation::Began(membership) => format!("begins {}", beginning(membership)),
        Observation::Removed { epoch } => format!("ends, as {epoch} has no place for it"),
        Observation::Certified { .. }
        | Observation::Confirmed { .. }
        | Observation::Supports { .. }
        | Observation::Queried { .. }
        | Observation::Answered { .. }
        | Observation::Left { .. }
        | Observation::Rests { .. }
        | Observation::Found(_)
        | Observation::Resumes { .. }
        | Observation::LostCounter
        | Observation::Rewound(_)
        | Observation::Lied { .. }
        | Observation::Asked { .. } => return None,
    })
}

fn target(node: &ReplicaNode<'_>, to: To) -> String {
    let name = |id: ReplicaId| node.place_of(id).unwrap_or(id).to_string();
    match to {
        To::All => "all".to_owned(),
        To::Others => "others".to_owned(),
        To::One(id) => name(id),
        To::Set(set) => set.iter().map(name).collect::<Vec<_>>().join(" "),
    }
}

fn reply(reply: &Reply) -> String {
    match &reply.outcome {
        Outcome::Done(result) => {
            format!("#{} {:?}", reply.number, String::from_utf8_lossy(result))
        }
        Outcome::Forgotten => format!("#{} forgotten", reply.number),
        Outcome::Refused => format!("#{} refused", reply.number),
        Outcome::GivenUp => format!("#{} given up", reply.number),
        Outcome::Overtaken => format!("#{} overtaken", reply.number),
    }
}

/// A request, and of one to the group itself also what it asks.
pub fn request(envelope: &Envelope) -> String {
    let operation = envelope.requests.first().map(|request| &request.operation);
    match operation.map(Petition::from_bytes) {
        Some(Ok(Petition::Propose(change))) => {
            format!("{envelope:?}, proposes {}", change.digest())
        }
        Some(Ok(Petition::Ready(ready))) => format!("{envelope:?}, ready for {}", ready.change),
        _ => format!("{envelope:?}"),
    }
}

/// What replicas say to each other about epochs.
pub fn about_epochs(wire: &Bytes) -> String {
    match Message::from_bytes(wire) {
        Ok(Message::At { epoch, .. }) => format!("At {epoch}"),
        Ok(Message::Vote(handover, _)) => format!("Vote {}", end(&handover)),
        Ok(Message::Proofs(proofs)) => {
            let ends: Vec<String> = proofs.iter().map(|proof| end(&proof.handover)).collect();
            format!("Proofs {}", ends.join("; "))
        }
        Ok(Message::Admit(envelope)) => format!("Admit {}", request(&envelope)),
        Ok(Message::Leaves { epoch }) => format!("Leaves {epoch}"),
        Ok(Message::Settled { epoch }) => format!("Settled {epoch}"),
        Err(_) => format!("{} bytes that are malformed", wire.len()),
    }
}

/// Which epoch ends, with which slot and state, and which configuration is next.
fn end(handover: &Handover) -> String {
    let Handover { epoch, base, next, .. } = handover;
    let next = next.map(|next| format!(", then configuration {next}")).unwrap_or_default();
    format!("{epoch} up to {} {}{next}", base.slot, base.state)
}

/// Which epoch begins, in which configuration.
fn beginning(membership: &Membership) -> String {
    let Membership { epoch, configuration, f, stated, .. } = membership;
    let protocol = stated.as_ref().map_or("", |stated| stated.protocol.as_str());
    let members: Vec<String> = membership
        .ids()
        .filter_map(|id| place_of(membership, id))
        .map(|place| place.to_string())
        .collect();
    let members = members.join(" ");
    format!("{epoch}, configuration {configuration}: {protocol}, f = {f}, members {members}")
}
