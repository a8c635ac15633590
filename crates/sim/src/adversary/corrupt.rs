use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::Bytes;

/// Flips, cuts or adds bytes in what it sends to replicas. Receivers must refuse it.
pub struct Corrupt {
    rate_ppm: u32,
}

impl Corrupt {
    /// Spoils this many of a million packets.
    #[must_use]
    pub const fn new(rate_ppm: u32) -> Self {
        Self { rate_ppm }
    }
}

impl Adversary for Corrupt {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        let to_replica = matches!(to, Address::Replica(_));
        let packet = if to_replica && rng.chance(self.rate_ppm) {
            packet.with(spoil(packet.bytes(), rng))
        } else {
            packet
        };
        out.push(Departure { after: 0, to, packet });
    }
}

fn spoil(bytes: &Bytes, rng: &mut Rng) -> Bytes {
    let mut bytes = bytes.to_vec();
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    match rng.below(4) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, rng.next_u64() as u8),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
    Bytes::from(bytes)
}
