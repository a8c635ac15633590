//! Pieces: what a tree is cut into on disk. A subtree that is small is one piece, however many
//! sections it has, so that the list of a snapshot stays short.

use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::CHUNK_BYTES_MAX;
use pentarchy_core::tree::{Leaf, Node, Place, Tree};
use pentarchy_core::wire::{Malformed, Reader, Writer};
use std::sync::Arc;

/// What a piece of several sections takes at most.
const SMALL_BYTES: u64 = 64 << 10;

/// The number and the length of a section.
pub const SECTION_HEAD_BYTES: usize = 8;

/// The largest piece: a section of one chunk.
pub const PIECE_BYTES_MAX: usize = CHUNK_BYTES_MAX + SECTION_HEAD_BYTES;

/// A part of a tree.
pub enum Piece<'a> {
    /// A subtree, at a place.
    Small(Place, &'a Node),
    /// A section of several chunks, which are pieces of their own.
    Large(&'a Leaf),
}

/// The pieces of a tree, in the order of their sections.
pub fn pieces(tree: &Tree) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    if let Some(top) = tree.top() {
        cut(tree.place(), top, &mut pieces);
    }
    pieces
}

fn cut<'a>(place: Place, node: &'a Node, pieces: &mut Vec<Piece<'a>>) {
    match node {
        Node::Leaf(leaf) if !leaf.chunks().is_empty() => pieces.push(Piece::Large(leaf)),
        Node::Inner(inner)
            if node.bytes() + u64::from(node.leaves()) * SECTION_HEAD_BYTES as u64
                > SMALL_BYTES =>
        {
            inner.children().for_each(|(number, child)| cut(place.child(number), child, pieces));
        }
        _ => pieces.push(Piece::Small(place, node)),
    }
}

/// The bytes of these sections are in files, and cannot be read there or are not what they were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Absent {
    pub sections: Vec<u32>,
}

/// The bytes of a small piece.
pub fn encode(node: &Node) -> Result<Vec<u8>, Absent> {
    let (mut to, mut sections) = (Writer::default(), Vec::new());
    for leaf in node.iter() {
        let Some(bytes) = leaf.joined() else {
            sections.push(leaf.section());
            continue;
        };
        to.u32(leaf.section());
        to.bytes(&bytes);
    }
    if sections.is_empty() { Ok(to.into_vec()) } else { Err(Absent { sections }) }
}

/// The leaves of a small piece, whose subtree is at this place and has this digest.
pub fn decode(
    place: Place,
    digest: &Digest,
    bytes: &Bytes,
    slot: Slot,
) -> Result<Vec<Arc<Leaf>>, Malformed> {
    let mut from = Reader::new(bytes);
    let mut leaves: Vec<Arc<Leaf>> = Vec::new();
    while from.remaining() > 0 {
        let (section, content) = (from.u32()?, from.bytes(CHUNK_BYTES_MAX)?);
        // A copy: a section that stays must not keep its neighbours in memory.
        let content = Bytes::copy_from_slice(&content);
        leaves.push(Arc::new(Leaf::small(section, content, slot)));
    }
    let ordered = leaves.is_sorted_by(|a, b| a.section() < b.section());
    if !ordered || !leaves.iter().all(|leaf| place.contains(leaf.section())) {
        return Err(Malformed);
    }
    let found = Node::of(place, &leaves, slot).map(|node| node.digest());
    if found == Some(*digest) { Ok(leaves) } else { Err(Malformed) }
}
