use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::wire::Wire;

/// Tells every client that it is full, and takes nothing of any.
pub struct Busy;

impl Busy {
    /// The `Busy` with which a host turns down this packet for lack of room; none for packets that
    /// hosts never turn down so.
    #[must_use]
    pub fn answer(packet: &Packet) -> Option<Packet> {
        let Packet::ToReplica(bytes) = packet else { return None };
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => {
                let number = envelope.requests.first()?.number;
                Some(Packet::ToClient(0, ToClient::Busy { number }.to_bytes()))
            }
            _ => None,
        }
    }
}

impl Adversary for Busy {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        out.push(Departure { after: 0, to, packet });
    }

    fn turns_down(&mut self, packet: &Packet) -> Option<Packet> {
        Self::answer(packet)
    }
}
