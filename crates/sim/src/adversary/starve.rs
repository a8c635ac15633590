use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::ids::ClientId;

/// Serves everyone but one client: loses what it sends and what others pass on for it, and keeps
/// the answers to it.
pub struct Starve {
    index: u16,
    client: ClientId,
}

impl Starve {
    /// Starves the client of this index and name.
    #[must_use]
    pub const fn new(index: u16, client: ClientId) -> Self {
        Self { index, client }
    }
}

impl Adversary for Starve {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        if to != Address::Client(self.index) {
            out.push(Departure { after: 0, to, packet });
        }
    }

    fn hears(&mut self, from: Address, packet: &Packet, _: &mut Rng) -> bool {
        let id = &self.client.0;
        let names = |bytes: &[u8]| bytes.windows(id.len()).any(|window| window == id);
        match packet {
            // Whatever the protocol: an envelope names its client.
            Packet::Protocol(_, bytes) => !names(bytes),
            _ => from != Address::Client(self.index),
        }
    }
}
