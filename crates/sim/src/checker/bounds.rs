//! Nothing that can be seen from outside grows without limit.

use super::{Broken, Stand, Verdict};
use crate::packet::Packet;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::{
    CHUNK_BYTES_MAX, CLIENTS_MAX, MESSAGE_BYTES_MAX, PENDING_CLIENT_ENVELOPES_MAX,
    PENDING_ENVELOPES_MAX, TRANSFER_CHUNKS_IN_FLIGHT,
};
use pentarchy_core::protocol::{Status, Tuning};

/// The name of the property.
pub const PROPERTY: &str = "bounds";

/// Timers that one replica may have armed: kinds are few, and their subjects are replicas, clients'
/// oldest requests or views.
pub const TIMERS_MAX: usize = 4096;

/// Messages of others that a replica passes on to one peer because of one message that is no report
/// of what its sender has. More would make one message of a liar cost much: reports are answered
/// with all that their senders lack, and that has bounds for each tick.
pub const RELAYS_MAX: usize = 2;

/// What one replica did in one step, and what it holds then.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Acts that one event caused; messages that leave behind the disk are not counted.
    pub acts: usize,
    /// Bytes of the largest packet.
    pub packet_bytes: usize,
    /// Bytes of the largest packet of state transfer that holds nodes or a chunk.
    pub chunk_bytes: usize,
    /// Messages of others that were passed on to one peer because of one message.
    pub relays: usize,
    /// Envelopes of one client that were checked in one round.
    pub checked: usize,
    /// Questions of state transfer.
    pub asks: usize,
    /// Armed timers.
    pub timers: usize,
    /// Snapshots that are kept.
    pub snapshots: usize,
    /// Clients that are remembered.
    pub sessions: usize,
    /// The slot of the state that it found on its disk when it started.
    pub started_at: Slot,
}

/// The first bytes of transfer messages that ask, and of those that bring something.
const ASK_NODES: u8 = 0;
const NODES: u8 = 1;
const ASK_CHUNK: u8 = 2;
const CHUNK: u8 = 3;

/// What the answer to a question about a state may hold beside a chunk: the places of nodes.
const ANSWER_BYTES: usize = 4096;

impl Load {
    /// Takes note of a packet.
    pub fn note(&mut self, packet: &Packet) {
        let bytes = packet.bytes();
        self.packet_bytes = self.packet_bytes.max(bytes.len());
        if let Packet::Transfer(bytes) = packet {
            match bytes.first() {
                Some(&(ASK_NODES | ASK_CHUNK)) => self.asks += 1,
                Some(&(NODES | CHUNK)) => self.chunk_bytes = self.chunk_bytes.max(bytes.len()),
                _ => {}
            }
        }
    }
}

/// Acts that one event may cause: every slot of the window executed and answered, with a few
/// messages to every other replica for each.
#[must_use]
pub fn acts_max(tuning: &Tuning, n: usize) -> usize {
    4_096 + tuning.window_slots as usize * (8 * n + 4 * tuning.batch_requests)
}

/// Looks at a correct replica after a step.
///
/// # Errors
/// If a bound is passed.
pub fn check(
    replica: ReplicaId,
    status: &Status,
    load: &Load,
    tuning: &Tuning,
    (n, pillars): (usize, usize),
) -> Verdict {
    // The state on a disk may be one that others vouched for, and the replica may have stopped
    // before its core heard that it is here, and wrote down who did.
    let stable = status.stable.max(load.started_at);
    let ahead = status.committed.0.saturating_sub(stable.0);
    // Others may have moved their windows on, and execution stops at the last pillar that has not.
    let window = pillars * tuning.window_slots as usize + pillars - 1;
    let bounds = [
        ("acts in one step", load.acts, pillars * acts_max(tuning, n)),
        ("bytes of a packet", load.packet_bytes, MESSAGE_BYTES_MAX),
        ("bytes of an answer about a state", load.chunk_bytes, CHUNK_BYTES_MAX + ANSWER_BYTES),
        ("messages passed on because of one", load.relays, RELAYS_MAX),
        ("envelopes of one client checked", load.checked, PENDING_CLIENT_ENVELOPES_MAX),
        ("questions about a state", load.asks, TRANSFER_CHUNKS_IN_FLIGHT),
        ("armed timers", load.timers, TIMERS_MAX),
        ("snapshots", load.snapshots, tuning.snapshots_kept(pillars as u8)),
        ("clients", load.sessions, CLIENTS_MAX),
        ("waiting envelopes", status.waiting, pillars * PENDING_ENVELOPES_MAX),
        ("slots above the stable checkpoint", ahead as usize, window),
    ];
    for (what, is, max) in bounds {
        if is > max {
            return Err(Broken::new(PROPERTY, format!("{replica}: {is} {what}, at most {max}")));
        }
    }
    Ok(())
}

/// Packets that a world may carry: far more than any run in which retransmission works as it
/// should. Where an order is split into pillars, a request takes a slot of each of them.
#[must_use]
pub const fn traffic_max(n: usize, pillars: u8, requests: u64) -> u64 {
    200_000 + 200 * (n * n) as u64 * pillars as u64 * requests
}

/// Looks at all packets so far and at what is about to happen.
///
/// # Errors
/// If messages beget messages.
pub fn traffic(
    packets: u64,
    queued: usize,
    max: u64,
    stand: impl FnOnce() -> Vec<Stand>,
) -> Verdict {
    if packets <= max && (queued as u64) <= max {
        return Ok(());
    }
    let stand: String = stand().iter().map(ToString::to_string).collect();
    let detail = format!("{packets} packets and {queued} events under way, at most {max}{stand}");
    Err(Broken::new(PROPERTY, detail))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pentarchy_core::ids::View;

    pub fn status() -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "normal",
            committed: Slot(300),
            stable: Slot(256),
            peers_committed: Slot(0),
            waiting: 3,
            view_changes: 0,
            reason: "",
        }
    }

    #[test]
    fn a_storm_is_found() {
        traffic(10, 10, 10, Vec::new).unwrap();
        assert_eq!(traffic(11, 0, 10, Vec::new).unwrap_err().property, PROPERTY);
        assert!(traffic(0, 11, 10, Vec::new).is_err());
    }

    #[test]
    fn packets_of_transfers_are_known_by_their_first_byte() {
        use pentarchy_core::transfer::{Message, Part};
        use pentarchy_core::tree::Place;
        use pentarchy_core::wire::Wire;
        let mut load = Load::default();
        let (slot, section, chunk) = (Slot(1), 9, 4);
        let bytes = pentarchy_core::Bytes::from(vec![0; CHUNK_BYTES_MAX]);
        let ask = Message::AskNodes { slot, since: None, below: false, places: Vec::new() };
        let part = Part::Section { section, bytes: bytes.slice(..9000) };
        let nodes = vec![(Place { height: 0, prefix: section }, part)];
        let nodes = Message::Nodes { slot, sections: 10, leaves: 1, nodes };
        for message in [Message::AskChunk { slot, section, chunk }, ask, nodes] {
            load.note(&Packet::Transfer(message.to_bytes()));
        }
        assert_eq!(load.asks, 2);
        assert!((9000..9100).contains(&load.chunk_bytes));
        load.note(&Packet::Transfer(Message::Chunk { slot, section, chunk, bytes }.to_bytes()));
        assert!((CHUNK_BYTES_MAX..CHUNK_BYTES_MAX + 32).contains(&load.chunk_bytes));
    }

    #[test]
    fn each_bound_is_watched() {
        let tuning = Tuning::default();
        let status = status();
        let load = Load { acts: 10, packet_bytes: 1_000, timers: 2, ..Load::default() };
        let check = |status: &Status, load| check(ReplicaId(0), status, &load, &tuning, (3, 1));
        check(&status, load.clone()).unwrap();
        let broken = |verdict: Verdict| assert_eq!(verdict.unwrap_err().property, PROPERTY);
        broken(check(&status, Load { acts: usize::MAX, ..load.clone() }));
        broken(check(&status, Load { packet_bytes: MESSAGE_BYTES_MAX + 1, ..load.clone() }));
        broken(check(&status, Load { timers: TIMERS_MAX + 1, ..load.clone() }));
        broken(check(
            &status,
            Load { chunk_bytes: CHUNK_BYTES_MAX + ANSWER_BYTES + 1, ..load.clone() },
        ));
        broken(check(&status, Load { relays: RELAYS_MAX + 1, ..load.clone() }));
        broken(check(&status, Load { checked: PENDING_CLIENT_ENVELOPES_MAX + 1, ..load.clone() }));
        broken(check(&status, Load { asks: TRANSFER_CHUNKS_IN_FLIGHT + 1, ..load.clone() }));
        broken(check(
            &status,
            Load { snapshots: Tuning::default().snapshots_kept(1) + 1, ..load.clone() },
        ));
        broken(check(&status, Load { sessions: CLIENTS_MAX + 1, ..load.clone() }));
        broken(check(
            &Status { waiting: PENDING_ENVELOPES_MAX + 1, ..status.clone() },
            load.clone(),
        ));
        let behind = Status { stable: Slot(4), ..status };
        broken(check(&behind, load.clone()));
        let found = |started_at| Load { started_at: Slot(started_at), ..load.clone() };
        check(&behind, found(44)).unwrap();
        broken(check(&behind, found(43)));
    }
}
