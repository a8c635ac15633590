use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::ids::Epoch;

/// Packets that are kept for repetition.
const KEPT: usize = 256;

/// Sends what it should, and now and then something old again, to anyone of the same kind, even
/// what others had sent to it. This replica often marks a message of an earlier epoch as one of the
/// present epoch: the ingress of each receiver would drop it otherwise.
pub struct Replay {
    repeat_ppm: u32,
    old: Vec<Packet>,
    /// The last epoch in which the replica inside said something.
    epoch: Epoch,
}

impl Replay {
    /// Repeats something in this many of a million cases.
    #[must_use]
    pub const fn new(repeat_ppm: u32) -> Self {
        Self { repeat_ppm, old: Vec::new(), epoch: Epoch(0) }
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
        if let Packet::Protocol(epoch, _) = &packet {
            self.epoch = *epoch;
        }
        out.push(Departure { after: 0, to, packet });
        if rng.chance(self.repeat_ppm) {
            let packet = match rng.pick(&self.old).clone() {
                Packet::Protocol(epoch, bytes) if epoch != self.epoch && rng.percent(70) => {
                    Packet::Protocol(self.epoch, bytes)
                }
                packet => packet,
            };
            let for_client = matches!(packet, Packet::ToClient(..));
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
