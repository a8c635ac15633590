use super::{Address, Adversary, Departure, Packet, Rng};

/// Packets that are kept for repetition.
const KEPT: usize = 256;

/// Sends what it should, and now and then something old again, to anyone of the same kind, even
/// what others had sent to it.
pub struct Replay {
    repeat_ppm: u32,
    old: Vec<Packet>,
}

impl Replay {
    /// Repeats something in this many of a million cases.
    #[must_use]
    pub const fn new(repeat_ppm: u32) -> Self {
        Self { repeat_ppm, old: Vec::new() }
    }

    fn keep(&mut self, packet: &Packet, rng: &mut Rng) {
        if self.old.len() < KEPT {
            self.old.push(packet.clone());
        } else {
            self.old[rng.below(KEPT as u64) as usize] = packet.clone();
        }
    }
}

impl Adversary for Replay {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        self.keep(&packet, rng);
        out.push(Departure { after: 0, to, packet });
        if rng.chance(self.repeat_ppm) {
            let packet = rng.pick(&self.old).clone();
            let for_client = matches!(packet, Packet::ToClient(_));
            if for_client == matches!(to, Address::Client(_)) {
                out.push(Departure { after: rng.below(100_000), to, packet });
            }
        }
    }

    fn hears(&mut self, _: Address, packet: &Packet, rng: &mut Rng) -> bool {
        if !matches!(packet, Packet::ToReplica(_)) {
            self.keep(packet, rng);
        }
        true
    }
}
