//! A state as a tree of hashes over its sections.
//!
//! A section's number is a path: four bits choose a child at each height. An empty section has no
//! leaf, an empty subtree no node, and a subtree of one leaf is that leaf; so a tree costs what is
//! in it and not how many sections there may be, and equal states have equal trees however they
//! came about. Nodes are shared: a tree that was made from another holds of its own what changed
//! and the paths to it.
//!
//! ```text
//! state := H("state", sections, leaves, digest of the top node, or 32 zero bytes)
//! inner := H("inner", which of the 16 children there are, their digests)
//! leaf  := H("leaf", section, bytes)                      of at most one chunk
//!        | H("leaf of chunks", section, digests of the chunks)
//! ```
//!
//! The tags keep the kinds of nodes apart, and a leaf names its section, so no node can stand in
//! another's place.
//!
//! What a leaf holds may be in memory or in a file ([`crate::blobs`]); its digest and the tree's
//! shape are the same.

mod content;
mod leaf;

pub use leaf::{Chunk, Leaf};

use crate::digest::{Digest, Hasher};
use crate::ids::Slot;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// Children that a node can have.
pub const CHILDREN: usize = 16;

/// Bits of a section's number that choose a child.
const BITS: u32 = CHILDREN.ilog2();

/// Where a node can be: at a height above the sections, over those that begin with some bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Steps from here to a single section: at most 8.
    pub height: u8,
    /// The numbers of the sections below, without what the steps add.
    pub prefix: u32,
}

impl Place {
    /// The place of the top node.
    #[must_use]
    pub const fn top(sections: u32) -> Self {
        let bits = u32::BITS - sections.saturating_sub(1).leading_zeros();
        let steps = bits.div_ceil(BITS);
        Self { height: if steps == 0 { 1 } else { steps as u8 }, prefix: 0 }
    }

    /// The place of one of the children; there is none below a single section.
    #[must_use]
    pub const fn child(self, number: usize) -> Self {
        Self { height: self.height - 1, prefix: (self.prefix << BITS) | number as u32 }
    }

    /// The place above, and which of its children this is.
    #[must_use]
    pub const fn parent(self) -> (Self, usize) {
        let parent = Self { height: self.height + 1, prefix: self.prefix >> BITS };
        (parent, self.prefix as usize % CHILDREN)
    }

    /// Whether a section lies here or below.
    #[must_use]
    pub const fn contains(self, section: u32) -> bool {
        (section as u64 >> (BITS * self.height as u32)) == self.prefix as u64
    }

    /// The first and the last section that may lie here or below.
    #[must_use]
    pub const fn sections(self) -> (u32, u32) {
        let bits = BITS * self.height as u32;
        let (first, behind) = ((self.prefix as u64) << bits, (self.prefix as u64 + 1) << bits);
        (first as u32, (behind - 1) as u32)
    }

    /// The child below which a section lies.
    const fn towards(self, section: u32) -> usize {
        (section as u64 >> (BITS * (self.height as u32 - 1))) as usize % CHILDREN
    }

    /// The child of this place below which another place lies.
    const fn step_to(self, below: Self) -> usize {
        (below.prefix >> (BITS * (self.height - 1 - below.height) as u32)) as usize % CHILDREN
    }
}

/// A node with children.
#[derive(Debug)]
pub struct Inner {
    digest: Digest,
    changed: Slot,
    leaves: u32,
    bytes: u64,
    present: u16,
    children: Box<[Node]>,
}

impl Inner {
    /// The digest of a node, from those of its children, in order.
    #[must_use]
    pub fn digest_of(present: u16, children: impl Iterator<Item = Digest>) -> Digest {
        let mut hasher = Hasher::new("inner");
        hasher.u64(u64::from(present));
        for digest in children {
            hasher.digest(&digest);
        }
        hasher.finish()
    }

    /// Which children there are, one bit for each.
    #[must_use]
    pub const fn present(&self) -> u16 {
        self.present
    }

    /// The children that there are, with their numbers.
    pub fn children(&self) -> impl Iterator<Item = (usize, &Node)> {
        numbers(self.present).zip(&self.children)
    }

    /// The same with children of the same digests.
    const fn with_children(&self, children: Box<[Node]>) -> Self {
        let Self { digest, changed, leaves, bytes, present, .. } = *self;
        Self { digest, changed, leaves, bytes, present, children }
    }

    fn child(&self, number: usize) -> Option<&Node> {
        let below = self.present & ((1 << number) - 1);
        let there = self.present >> number & 1 == 1;
        there.then(|| &self.children[below.count_ones() as usize])
    }
}

/// The numbers of the bits that are set.
pub fn numbers(bits: u16) -> impl Iterator<Item = usize> {
    (0..CHILDREN).filter(move |number| bits >> number & 1 == 1)
}

/// A subtree that is not empty.
#[derive(Clone, Debug)]
pub enum Node {
    /// One section.
    Leaf(Arc<Leaf>),
    /// Several.
    Inner(Arc<Inner>),
}

/// The children of a node that is being put together.
pub type Children = [Option<Node>; CHILDREN];

impl Node {
    /// A leaf as a subtree.
    #[must_use]
    pub fn leaf(leaf: Leaf) -> Self {
        Self::Leaf(Arc::new(leaf))
    }

    /// The subtree of these children, changed in this slot; none if there are none.
    #[must_use]
    pub fn join(children: Children, changed: Slot) -> Option<Self> {
        let mut there = children.iter().flatten();
        match (there.next(), there.next()) {
            (None, _) => return None,
            (Some(Self::Leaf(only)), None) => {
                let only = if only.changed == changed {
                    only.clone()
                } else {
                    // At this place it is new: there was more beside it.
                    Arc::new(only.moved(changed))
                };
                return Some(Self::Leaf(only));
            }
            _ => {}
        }
        let present = children
            .iter()
            .enumerate()
            .fold(0, |present, (number, child)| present | u16::from(child.is_some()) << number);
        let children: Box<[Self]> = children.into_iter().flatten().collect();
        let digest = Inner::digest_of(present, children.iter().map(Self::digest));
        let leaves = children.iter().map(Self::leaves).sum();
        let bytes = children.iter().map(Self::bytes).sum();
        Some(Self::Inner(Arc::new(Inner { digest, changed, leaves, bytes, present, children })))
    }

    /// What stands for it in the node above.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Leaf(leaf) => leaf.digest,
            Self::Inner(inner) => inner.digest,
        }
    }

    /// The slot of the snapshot in which something here or below was changed last, as far as the
    /// replica knows; it is no part of the digest.
    #[must_use]
    pub fn changed(&self) -> Slot {
        match self {
            Self::Leaf(leaf) => leaf.changed,
            Self::Inner(inner) => inner.changed,
        }
    }

    /// Sections below that are not empty.
    #[must_use]
    pub fn leaves(&self) -> u32 {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => inner.leaves,
        }
    }

    /// Bytes of the sections below.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.len() as u64,
            Self::Inner(inner) => inner.bytes,
        }
    }

    /// The sections below that are not empty, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        let mut waiting = alloc::vec![self];
        core::iter::from_fn(move || {
            loop {
                match waiting.pop()? {
                    Self::Leaf(leaf) => return Some(leaf),
                    Self::Inner(inner) => waiting.extend(inner.children.iter().rev()),
                }
            }
        })
    }

    /// The subtree of these leaves, which are in order and lie below the place.
    #[must_use]
    pub fn of(place: Place, leaves: &[Arc<Leaf>], changed: Slot) -> Option<Self> {
        if let [] | [_] = leaves {
            return leaves.first().cloned().map(Self::Leaf);
        }
        let mut children = Children::default();
        for group in leaves.chunk_by(|a, b| place.towards(a.section) == place.towards(b.section)) {
            let number = place.towards(group[0].section);
            children[number] = Self::of(place.child(number), group, changed);
        }
        Self::join(children, changed)
    }
}

/// A section with what it holds from now on; nothing if it is empty.
pub type Change = (u32, Option<Arc<Leaf>>);

/// A whole state.
#[derive(Clone, Debug)]
pub struct Tree {
    sections: u32,
    top: Option<Node>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Tree {}

impl Tree {
    /// A state of so many sections, all of which are empty.
    #[must_use]
    pub const fn new(sections: u32) -> Self {
        Self { sections, top: None }
    }

    /// A state of so many sections under a top node.
    #[must_use]
    pub const fn with_top(sections: u32, top: Option<Node>) -> Self {
        Self { sections, top }
    }

    /// The state of these sections after a slot.
    #[must_use]
    pub fn of(slot: Slot, sections: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut tree = Self::new(0);
        let mut leaves = Vec::new();
        for bytes in sections {
            if !bytes.is_empty() {
                leaves.push(Arc::new(Leaf::new(tree.sections, bytes, slot)));
            }
            tree.sections += 1;
        }
        tree.top = Node::of(tree.place(), &leaves, slot);
        tree
    }

    /// What a checkpoint vouches for.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let top = self.top.as_ref();
        Self::digest_of(self.sections, self.leaves(), top.map(Node::digest).unwrap_or_default())
    }

    /// The digest of a state of so many sections and leaves, from that of the top node.
    #[must_use]
    pub fn digest_of(sections: u32, leaves: u32, top: Digest) -> Digest {
        let mut hasher = Hasher::new("state");
        hasher.u64(u64::from(sections)).u64(u64::from(leaves)).digest(&top).finish()
    }

    /// How many sections there are, the empty ones included.
    #[must_use]
    pub const fn sections(&self) -> u32 {
        self.sections
    }

    /// Sections that are not empty.
    #[must_use]
    pub fn leaves(&self) -> u32 {
        self.top.as_ref().map_or(0, Node::leaves)
    }

    /// The place of the top node.
    #[must_use]
    pub const fn place(&self) -> Place {
        Place::top(self.sections)
    }

    /// The top node; none if all is empty.
    #[must_use]
    pub const fn top(&self) -> Option<&Node> {
        self.top.as_ref()
    }

    /// The sections that are not empty, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.top.iter().flat_map(Node::iter)
    }

    /// Those of these sections that are not empty, in order. Costs as much as they and the paths to
    /// them, however many numbers that are.
    pub fn within(&self, sections: RangeInclusive<u32>) -> impl Iterator<Item = &Arc<Leaf>> {
        let mut waiting: Vec<_> = self.top.iter().map(|top| (self.place(), top)).collect();
        core::iter::from_fn(move || {
            loop {
                let (place, inner) = match waiting.pop()? {
                    (_, Node::Leaf(leaf)) if sections.contains(&leaf.section) => return Some(leaf),
                    (_, Node::Leaf(_)) => continue,
                    (place, Node::Inner(inner)) => (place, inner),
                };
                let from = waiting.len();
                for (number, child) in inner.children() {
                    let (first, last) = place.child(number).sections();
                    if first <= *sections.end() && *sections.start() <= last {
                        waiting.push((place.child(number), child));
                    }
                }
                waiting[from..].reverse();
            }
        })
    }

    /// What is at a place or below it.
    #[must_use]
    pub fn find(&self, place: Place) -> Option<&Node> {
        let mut at = self.place();
        if place.height > at.height {
            return None;
        }
        let mut node = self.top.as_ref()?;
        loop {
            match node {
                Node::Leaf(leaf) => return place.contains(leaf.section).then_some(node),
                Node::Inner(_) if at.height == place.height => {
                    return (at == place).then_some(node);
                }
                Node::Inner(inner) => {
                    let number = at.step_to(place);
                    node = inner.child(number)?;
                    at = at.child(number);
                }
            }
        }
    }

    /// A section; none if it is empty.
    #[must_use]
    pub fn section(&self, section: u32) -> Option<&Leaf> {
        match self.find(Place { height: 0, prefix: section })? {
            Node::Leaf(leaf) => Some(leaf),
            Node::Inner(_) => None,
        }
    }

    /// The state in which these sections were changed in this slot; each stands there once, in
    /// order. Costs as much as they and the paths to them.
    #[must_use]
    pub fn changed(&self, changes: &[Change], slot: Slot) -> Self {
        debug_assert!(changes.is_sorted_by(|a, b| a.0 < b.0), "each section once, in order");
        let top = match changes {
            [] => self.top.clone(),
            changes => update(self.top.as_ref(), self.place(), changes, slot),
        };
        Self { sections: self.sections, top }
    }

    /// The same state, with other leaves of the same digests in place of those that `change` gives
    /// one for. It is asked for each in order.
    #[must_use]
    pub fn replaced(&self, change: &mut impl FnMut(&Arc<Leaf>) -> Option<Leaf>) -> Self {
        let top = self.top.as_ref().map(|top| replace(top, change).unwrap_or_else(|| top.clone()));
        Self { sections: self.sections, top }
    }

    /// The same state, with these leaves in place of those that have their digests.
    #[must_use]
    pub fn replaced_with(&self, leaves: &BTreeMap<u32, Arc<Leaf>>) -> Self {
        let (mut top, place) = (self.top.clone(), self.place());
        for leaf in leaves.values() {
            let theirs = Node::Leaf(leaf.clone());
            top = top.map(|top| take_content(&top, &theirs, place));
        }
        Self { sections: self.sections, top }
    }

    /// The same state, with what another one has of its sections, in memory or in files, wherever
    /// they are the same. Costs as much as what differs, and what was replaced.
    #[must_use]
    pub fn with_content_of(&self, other: &Self) -> Self {
        let (Some(top), Some(theirs)) = (&self.top, &other.top) else { return self.clone() };
        if self.sections != other.sections {
            return self.clone();
        }
        Self { sections: self.sections, top: Some(take_content(top, theirs, self.place())) }
    }

    /// What makes this state of another one that has as many sections, in order.
    #[must_use]
    pub fn changes_since(&self, other: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        compare(other.top.as_ref(), self.top.as_ref(), &mut changes);
        changes
    }
}

/// The subtree with the changes, of which there is at least one.
fn update(old: Option<&Node>, place: Place, changes: &[Change], slot: Slot) -> Option<Node> {
    let mut children = Children::default();
    match old {
        Some(Node::Inner(inner)) => {
            for (number, child) in inner.children() {
                children[number] = Some(child.clone());
            }
        }
        Some(Node::Leaf(leaf)) => {
            let stays = !changes.iter().any(|(section, _)| *section == leaf.section);
            let mut leaves: Vec<Arc<Leaf>> = stays.then(|| leaf.clone()).into_iter().collect();
            leaves.extend(changes.iter().filter_map(|(_, leaf)| leaf.clone()));
            leaves.sort_unstable_by_key(|leaf| leaf.section);
            return Node::of(place, &leaves, slot);
        }
        None => {
            let leaves: Vec<_> = changes.iter().filter_map(|(_, leaf)| leaf.clone()).collect();
            return Node::of(place, &leaves, slot);
        }
    }
    for group in changes.chunk_by(|a, b| place.towards(a.0) == place.towards(b.0)) {
        let number = place.towards(group[0].0);
        let old = children[number].take();
        children[number] = update(old.as_ref(), place.child(number), group, slot);
    }
    Node::join(children, slot)
}

/// The subtree with other leaves; none if it stays as it is.
fn replace(node: &Node, change: &mut impl FnMut(&Arc<Leaf>) -> Option<Leaf>) -> Option<Node> {
    let inner = match node {
        Node::Leaf(leaf) => return change(leaf).map(Node::leaf),
        Node::Inner(inner) => inner,
    };
    let mut is_new = false;
    let children = inner.children.iter().map(|child| {
        let new = replace(child, change);
        is_new |= new.is_some();
        new.unwrap_or_else(|| child.clone())
    });
    let children = children.collect();
    is_new.then(|| Node::Inner(Arc::new(inner.with_children(children))))
}

/// The first subtree, with what the second one, at the same place, has of it.
fn take_content(mine: &Node, theirs: &Node, place: Place) -> Node {
    if mine.digest() == theirs.digest() && mine.changed() == theirs.changed() {
        return theirs.clone();
    }
    match (mine, theirs) {
        (Node::Leaf(leaf), theirs) => {
            let mut same = theirs.iter().filter(|other| other.digest == leaf.digest);
            match same.next() {
                Some(other) => Node::leaf(leaf.with_content_of(other)),
                None => mine.clone(),
            }
        }
        (Node::Inner(inner), theirs) => {
            let children = inner.children().map(|(number, child)| {
                let below = match theirs {
                    Node::Inner(theirs) => theirs.child(number),
                    Node::Leaf(leaf) => (place.towards(leaf.section) == number).then_some(theirs),
                };
                below.map_or_else(
                    || child.clone(),
                    |it| take_content(child, it, place.child(number)),
                )
            });
            Node::Inner(Arc::new(inner.with_children(children.collect())))
        }
    }
}

/// Adds what makes the second subtree of the first. Recursion is as deep as the tree is high.
fn compare(old: Option<&Node>, new: Option<&Node>, changes: &mut Vec<Change>) {
    if old.map(Node::digest) == new.map(Node::digest) {
        return;
    }
    if let (Some(Node::Inner(old)), Some(Node::Inner(new))) = (old, new) {
        for number in numbers(old.present | new.present) {
            compare(old.child(number), new.child(number), changes);
        }
        return;
    }
    let mut before = old.into_iter().flat_map(Node::iter).peekable();
    for leaf in new.into_iter().flat_map(Node::iter) {
        while let Some(gone) = before.next_if(|old| old.section < leaf.section) {
            changes.push((gone.section, None));
        }
        let same = before.next_if(|old| old.section == leaf.section);
        if same.is_none_or(|old| old.digest != leaf.digest) {
            changes.push((leaf.section, Some(leaf.clone())));
        }
    }
    changes.extend(before.map(|gone| (gone.section, None)));
}
