use super::{Address, Adversary, Departure, Packet, Rng};
use crate::time::Micros;

/// Sends everything, but late, and in no order.
pub struct Delayer {
    up_to: Micros,
}

impl Delayer {
    /// Holds each packet back by up to this long.
    #[must_use]
    pub const fn new(up_to: Micros) -> Self {
        Self { up_to }
    }
}

impl Adversary for Delayer {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        out.push(Departure { after: rng.below(self.up_to + 1), to, packet });
    }
}
