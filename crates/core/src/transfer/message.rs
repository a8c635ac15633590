//! What replicas say to each other about state, and how a question is answered.

use crate::digest::Digest;
use crate::ids::Slot;
use crate::limits::{CHUNK_BYTES_MAX, CHUNKS_MAX, TRANSFER_ANSWER_NODES_MAX, TRANSFER_NODES_MAX};
use crate::snapshot::Snapshot;
use crate::tree::{Chunk, Inner, Leaf, Node, Place};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;
use bytes::Bytes;

/// A question about a state, or the answer to one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// Send nodes of the tree of your snapshot at this slot.
    AskNodes {
        /// The slot.
        slot: Slot,
        /// I have the state after this slot: leave out what did not change since.
        since: Option<Slot>,
        /// I have nothing of what you list: send what is below as well, as far as it fits.
        below: bool,
        /// Which; none for the top node. At most [`TRANSFER_NODES_MAX`].
        places: Vec<Place>,
    },
    /// Answer to [`Self::AskNodes`]: the first of the nodes that were asked for, each before what
    /// is below it, as many as fit; at most [`TRANSFER_ANSWER_NODES_MAX`].
    Nodes {
        /// The slot.
        slot: Slot,
        /// How many sections the state has.
        sections: u32,
        /// Those of them that are not empty.
        leaves: u32,
        /// The nodes, with their places.
        nodes: Vec<(Place, Part)>,
    },
    /// Send one chunk of a section that has several.
    AskChunk {
        /// The slot.
        slot: Slot,
        /// The section.
        section: u32,
        /// Counts the section's chunks from 0.
        chunk: u32,
    },
    /// Answer to [`Self::AskChunk`].
    Chunk {
        /// The slot.
        slot: Slot,
        /// The section.
        section: u32,
        /// Counts the section's chunks from 0.
        chunk: u32,
        /// At most [`CHUNK_BYTES_MAX`].
        bytes: Bytes,
    },
    /// Answer to a question: there is no such thing here (any more).
    Gone {
        /// The slot.
        slot: Slot,
    },
}

/// What is said of one node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// A leaf of one chunk.
    Section {
        /// Which section.
        section: u32,
        /// All of it, at most [`CHUNK_BYTES_MAX`].
        bytes: Bytes,
    },
    /// A leaf of several chunks, by their digests, at most [`CHUNKS_MAX`].
    Chunks {
        /// Which section.
        section: u32,
        /// The digests.
        digests: Vec<Digest>,
    },
    /// A node with children.
    Children {
        /// Which there are.
        present: u16,
        /// Those whose digests follow. The others are as in the asker's own state.
        listed: u16,
        /// The digests, in order.
        digests: Vec<Digest>,
    },
}

impl Part {
    /// About how many bytes it takes on the wire.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Section { bytes, .. } => bytes.len() + 16,
            Self::Chunks { digests, .. } | Self::Children { digests, .. } => {
                32 * digests.len() + 16
            }
        }
    }

    /// None if it is in a file and cannot be read.
    fn of(node: &Node, since: Option<Slot>) -> Option<Self> {
        match node {
            Node::Leaf(leaf) => Self::of_leaf(leaf),
            Node::Inner(inner) => Some(Self::of_inner(inner, since)),
        }
    }

    fn of_leaf(leaf: &Leaf) -> Option<Self> {
        let section = leaf.section();
        if leaf.chunks().is_empty() {
            return leaf.joined().map(|bytes| Self::Section { section, bytes });
        }
        let digests = leaf.chunks().iter().map(Chunk::digest).collect();
        Some(Self::Chunks { section, digests })
    }

    fn of_inner(inner: &Inner, since: Option<Slot>) -> Self {
        let (mut listed, mut digests) = (0, Vec::new());
        for (number, child) in inner.children() {
            if is_new(child, since) {
                listed |= 1 << number;
                digests.push(child.digest());
            }
        }
        Self::Children { present: inner.present(), listed, digests }
    }
}

impl Message {
    /// The slot that it is about.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        match self {
            Self::AskNodes { slot, .. }
            | Self::Nodes { slot, .. }
            | Self::AskChunk { slot, .. }
            | Self::Chunk { slot, .. }
            | Self::Gone { slot } => *slot,
        }
    }

    /// Whether it is a question, which costs whom it is asked.
    #[must_use]
    pub const fn is_question(&self) -> bool {
        matches!(self, Self::AskNodes { .. } | Self::AskChunk { .. })
    }

    /// The answer to a question, from the snapshot that it is about.
    #[must_use]
    pub fn answer(&self, snapshot: Option<&Snapshot>) -> Self {
        let found = snapshot.and_then(|snapshot| match self {
            Self::AskNodes { since, below, places, .. } => nodes(snapshot, *since, *below, places),
            Self::AskChunk { section, chunk, .. } => {
                let bytes =
                    snapshot.tree.section(*section)?.chunks().get(*chunk as usize)?.read()?;
                let (slot, section, chunk) = (snapshot.slot, *section, *chunk);
                Some(Self::Chunk { slot, section, chunk, bytes })
            }
            _ => None,
        });
        found.unwrap_or(Self::Gone { slot: self.slot() })
    }
}

/// The first of the nodes that are asked for, about as much as a chunk, at least one; each with
/// what is below it, if that is wanted.
fn nodes(
    snapshot: &Snapshot,
    since: Option<Slot>,
    below: bool,
    places: &[Place],
) -> Option<Message> {
    let tree = &snapshot.tree;
    let top = [tree.place()];
    let (mut nodes, mut bytes) = (Vec::new(), 0);
    let mut waiting = Vec::new();
    'places: for place in if places.is_empty() { &top } else { places } {
        let Some(node) = tree.find(*place) else { break };
        waiting.push((*place, node));
        while let Some((place, node)) = waiting.pop() {
            // What cannot be read here is asked of others.
            let Some(part) = Part::of(node, since) else { break 'places };
            bytes += part.size();
            let full = bytes > CHUNK_BYTES_MAX || nodes.len() == TRANSFER_ANSWER_NODES_MAX;
            if full && !nodes.is_empty() {
                break 'places;
            }
            nodes.push((place, part));
            if let Node::Inner(inner) = node
                && below
            {
                let children = inner.children().filter(|(_, child)| is_new(child, since));
                let from = waiting.len();
                waiting.extend(children.map(|(number, child)| (place.child(number), child)));
                waiting[from..].reverse();
            }
        }
    }
    let (slot, sections, leaves) = (snapshot.slot, tree.sections(), tree.leaves());
    (!nodes.is_empty()).then_some(Message::Nodes { slot, sections, leaves, nodes })
}

/// Whether something here or below may have changed since.
fn is_new(node: &Node, since: Option<Slot>) -> bool {
    since.is_none_or(|since| node.changed() > since)
}

impl Wire for Place {
    fn encode(&self, to: &mut Writer) {
        to.u8(self.height);
        to.u32(self.prefix);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (height, prefix) = (from.u8()?, from.u32()?);
        if height <= 8 { Ok(Self { height, prefix }) } else { Err(Malformed) }
    }
}

impl Wire for Part {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Section { section, bytes } => {
                to.u8(0);
                to.u32(*section);
                to.bytes(bytes);
            }
            Self::Chunks { section, digests } => {
                to.u8(1);
                to.u32(*section);
                to.sequence(digests);
            }
            Self::Children { present, listed, digests } => {
                to.u8(2);
                to.u16(*present);
                to.u16(*listed);
                digests.iter().for_each(|digest| digest.encode(to));
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Section { section: from.u32()?, bytes: from.bytes(CHUNK_BYTES_MAX)? }),
            1 => Ok(Self::Chunks { section: from.u32()?, digests: from.sequence(CHUNKS_MAX)? }),
            2 => {
                let (present, listed) = (from.u16()?, from.u16()?);
                if listed & !present != 0 {
                    return Err(Malformed);
                }
                let count = listed.count_ones() as usize;
                if from.remaining() < 32 * count {
                    return Err(Malformed);
                }
                let mut digests = Vec::with_capacity(count);
                for _ in 0..count {
                    digests.push(Digest::decode(from)?);
                }
                Ok(Self::Children { present, listed, digests })
            }
            _ => Err(Malformed),
        }
    }
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::AskNodes { slot, since, below, places } => {
                to.u8(0);
                slot.encode(to);
                to.option(since.as_ref());
                to.u8(u8::from(*below));
                to.sequence(places);
            }
            Self::Nodes { slot, sections, leaves, nodes } => {
                to.u8(1);
                slot.encode(to);
                to.u32(*sections);
                to.u32(*leaves);
                to.sequence(nodes);
            }
            Self::AskChunk { slot, section, chunk } => {
                to.u8(2);
                slot.encode(to);
                to.u32(*section);
                to.u32(*chunk);
            }
            Self::Chunk { slot, section, chunk, bytes } => {
                to.u8(3);
                slot.encode(to);
                to.u32(*section);
                to.u32(*chunk);
                to.bytes(bytes);
            }
            Self::Gone { slot } => {
                to.u8(4);
                slot.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = from.u8()?;
        let slot = Slot::decode(from)?;
        match kind {
            0 => {
                let since = from.option()?;
                let below = match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                };
                let places = from.sequence(TRANSFER_NODES_MAX)?;
                Ok(Self::AskNodes { slot, since, below, places })
            }
            1 => {
                let (sections, leaves) = (from.u32()?, from.u32()?);
                let nodes = from.sequence(TRANSFER_ANSWER_NODES_MAX)?;
                Ok(Self::Nodes { slot, sections, leaves, nodes })
            }
            2 => Ok(Self::AskChunk { slot, section: from.u32()?, chunk: from.u32()? }),
            3 => {
                let (section, chunk) = (from.u32()?, from.u32()?);
                let bytes = from.bytes(CHUNK_BYTES_MAX)?;
                Ok(Self::Chunk { slot, section, chunk, bytes })
            }
            4 => Ok(Self::Gone { slot }),
            _ => Err(Malformed),
        }
    }
}
