use super::{Address, Adversary, Departure, Packet, Rng};

/// Says nothing to replicas, and nothing to clients either if it is mute to them too.
pub struct Silent {
    to_clients_too: bool,
}

impl Silent {
    /// See the type.
    #[must_use]
    pub const fn new(to_clients_too: bool) -> Self {
        Self { to_clients_too }
    }
}

impl Adversary for Silent {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        if matches!(to, Address::Client(_)) && !self.to_clients_too {
            out.push(Departure { after: 0, to, packet });
        }
    }
}
