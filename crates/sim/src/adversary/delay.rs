use super::{Address, Adversary, Departure, Packet, Rng};
use crate::time::Micros;

/// Sends everything, but late, and in no order.
pub struct Delayer {
    least: Micros,
    up_to: Micros,
}

impl Delayer {
    /// Holds each packet back for at least and at most this long.
    #[must_use]
    pub const fn new(least: Micros, up_to: Micros) -> Self {
        Self { least, up_to }
    }
}

impl Adversary for Delayer {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        out.push(Departure { after: rng.range(self.least, self.up_to), to, packet });
    }
}
