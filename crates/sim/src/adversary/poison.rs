use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::transfer::{Message, Part};
use pentarchy_core::tree::Place;
use pentarchy_core::wire::Wire;

/// Answers state transfer falsely: spoilt, exchanged, stale or missing chunks and
/// nodes.
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
            Message::Chunk { slot, section, chunk, bytes } => match rng.below(4) {
                0 => Message::Gone { slot },
                1 => Message::Chunk { slot, section, chunk: chunk ^ 1, bytes },
                2 => Message::Chunk { slot, section, chunk, bytes: self.stale(bytes, rng) },
                _ => Message::Chunk { slot, section, chunk, bytes: spoil(&bytes, rng) },
            },
            Message::Nodes { slot, sections, leaves, mut nodes } => match rng.below(6) {
                0 => Message::Gone { slot },
                1 => {
                    nodes.clear();
                    Message::Nodes { slot, sections, leaves, nodes }
                }
                2 => Message::Nodes {
                    slot,
                    sections: sections ^ 1,
                    leaves: !leaves,
                    nodes: {
                        self.falsify_node(&mut nodes, rng);
                        nodes
                    },
                },
                3 => {
                    // Its own again, as if that were more.
                    nodes.iter_mut().for_each(|(place, _)| place.prefix ^= 1);
                    Message::Nodes { slot, sections, leaves, nodes }
                }
                _ => {
                    self.falsify_node(&mut nodes, rng);
                    Message::Nodes { slot, sections, leaves, nodes }
                }
            },
            Message::AskNodes { since, below, places, .. } => {
                Message::AskNodes { slot: Slot(rng.below(1 << 40)), since, below, places }
            }
            Message::AskChunk { slot, section, .. } => {
                Message::AskChunk { slot, section, chunk: rng.next_u64() as u32 }
            }
            gone @ Message::Gone { .. } => gone,
        }
    }

    /// Lies about one of the nodes: another content, a child that is not there, one that is said
    /// to be as before, digests of nothing.
    fn falsify_node(&mut self, nodes: &mut [(Place, Part)], rng: &mut Rng) {
        let at = rng.below(nodes.len().max(1) as u64) as usize;
        let Some((_, part)) = nodes.get_mut(at) else { return };
        match part {
            Part::Section { bytes, .. } if rng.percent(50) => {
                *bytes = self.stale(bytes.clone(), rng);
            }
            Part::Section { bytes, .. } => *bytes = spoil(bytes, rng),
            Part::Chunks { digests, .. } => digests.push(Digest([7; 32])),
            Part::Children { present, listed, digests } => {
                let lowest = *listed & listed.wrapping_neg();
                match rng.below(3) {
                    _ if digests.is_empty() => *present = !*present,
                    0 => {
                        *present ^= lowest;
                        *listed ^= lowest;
                        digests.remove(0);
                    }
                    1 => {
                        *listed ^= lowest;
                        digests.remove(0);
                    }
                    _ => digests[0] = Digest([7; 32]),
                }
            }
        }
    }

    /// What it sent last instead of this; something else in any case but the first.
    fn stale(&mut self, bytes: Bytes, rng: &mut Rng) -> Bytes {
        match self.last.replace(bytes.clone()) {
            Some(last) if last == bytes => spoil(&bytes, rng),
            Some(last) => last,
            None => bytes,
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
