use super::{Address, Adversary, Departure, Packet, Rng};
use std::collections::VecDeque;

/// Messages that are kept to be sent back.
const KEPT: usize = 256;

/// Tells replicas what they said themselves, once more and later: a message that comes back must
/// not count as another one.
pub struct Echo {
    rate_ppm: u32,
    heard: VecDeque<(Address, Packet)>,
}

impl Echo {
    /// Sends something back in this many of a million cases.
    #[must_use]
    pub const fn new(rate_ppm: u32) -> Self {
        Self { rate_ppm, heard: VecDeque::new() }
    }
}

impl Adversary for Echo {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        out.push(Departure { after: 0, to, packet });
        if rng.chance(self.rate_ppm) {
            let own: Vec<&Packet> =
                self.heard.iter().filter(|(from, _)| *from == to).map(|(_, said)| said).collect();
            if !own.is_empty() {
                let packet = (*rng.pick(&own)).clone();
                out.push(Departure { after: rng.below(100_000), to, packet });
            }
        }
    }

    fn hears(&mut self, from: Address, packet: &Packet, _: &mut Rng) -> bool {
        if matches!((from, packet), (Address::Replica(_), Packet::Protocol(..))) {
            self.heard.push_back((from, packet.clone()));
            if self.heard.len() > KEPT {
                self.heard.pop_front();
            }
        }
        true
    }
}
