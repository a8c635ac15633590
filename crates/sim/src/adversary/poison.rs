use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::transfer::Message;
use pentarchy_core::wire::Wire;

/// Answers state transfer falsely: spoilt, exchanged, stale or missing chunks and manifests.
pub struct Poison {
    rate_ppm: u32,
    /// The last chunk that it sent, to send again in place of another one.
    last: Option<Bytes>,
}

impl Poison {
    /// Falsifies this many of a million answers.
    #[must_use]
    pub const fn new(rate_ppm: u32) -> Self {
        Self { rate_ppm, last: None }
    }

    fn falsify(&mut self, truth: Message, rng: &mut Rng) -> Message {
        match truth {
            Message::Chunk { slot, index, bytes } => match rng.below(4) {
                0 => Message::Gone { slot },
                1 => Message::Chunk { slot, index: index ^ 1, bytes },
                2 => {
                    let stale = self.last.replace(bytes.clone()).unwrap_or(bytes);
                    Message::Chunk { slot, index, bytes: stale }
                }
                _ => Message::Chunk { slot, index, bytes: spoil(&bytes, rng) },
            },
            Message::Manifest { slot, mut manifest } => {
                match rng.below(3) {
                    0 => return Message::Gone { slot },
                    1 => drop(manifest.0.pop()),
                    _ => {
                        let digests = manifest.0.iter_mut().flat_map(|section| &mut section.0);
                        digests.take(1).for_each(|digest| *digest = Digest([7; 32]));
                    }
                }
                Message::Manifest { slot, manifest }
            }
            Message::AskManifest { .. } => Message::AskManifest { slot: Slot(rng.below(1 << 40)) },
            Message::AskChunk { slot, .. } => {
                Message::AskChunk { slot, index: rng.next_u64() as u32 }
            }
            gone @ Message::Gone { .. } => gone,
        }
    }
}

impl Adversary for Poison {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        let packet = match &packet {
            Packet::Transfer(bytes) if rng.chance(self.rate_ppm) => {
                match Message::from_bytes(bytes) {
                    Ok(truth) => Packet::Transfer(self.falsify(truth, rng).to_bytes()),
                    Err(_) => packet,
                }
            }
            _ => packet,
        };
        out.push(Departure { after: 0, to, packet });
    }
}

fn spoil(bytes: &Bytes, rng: &mut Rng) -> Bytes {
    let mut bytes = bytes.to_vec();
    match bytes.len() as u64 {
        0 => bytes.push(0),
        length => bytes[rng.below(length) as usize] ^= 1 << rng.below(8),
    }
    Bytes::from(bytes)
}
