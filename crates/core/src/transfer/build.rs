//! A tree that is being put together from the top down, out of what others send and what is here.
//!
//! Nothing is taken in whose digest does not stand in the node above it, or is the state's. So
//! whatever is here is right, whoever sent it.

use super::message::Part;
use crate::blobs::TempBlobs;
use crate::digest::Digest;
use crate::ids::Slot;
use crate::limits::CHUNK_BYTES_MAX;
use crate::mutant;
use crate::snapshot::Snapshot;
use crate::tree::{CHILDREN, Children, Chunk, Inner, Leaf, Node, Place, Tree, numbers};
use alloc::boxed::Box;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

/// Something that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Item {
    /// The top node, wherever it is.
    Top,
    /// A node.
    Node(Place),
    /// A chunk of a section.
    Chunk(u32, u32),
}

/// Something that is not here yet.
#[derive(Debug)]
struct Want {
    digest: Digest,
    /// The question in which it is asked for.
    ask: Option<u64>,
}

/// A node whose children are not all here.
#[derive(Debug)]
struct Open {
    present: u16,
    children: Children,
    missing: u32,
}

/// A section whose chunks are not all here.
#[derive(Debug)]
struct Large {
    place: Place,
    digests: Vec<Digest>,
    missing: u32,
}

/// Why something was not taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is not asked for, or here already.
    NotWanted,
    /// What it leaves out is not as in the state that is here: the source has to send all.
    OtherBase,
    /// It is not what the digest stands for.
    Wrong,
}

/// What is left of a tree that was not finished: for the next one.
#[derive(Debug, Default)]
pub struct Scraps {
    /// A mixture of the state that was here and what was fetched; none if nothing was.
    pub tree: Option<Tree>,
    /// Chunks of sections of which others are missing.
    pub chunks: BTreeMap<Digest, Chunk>,
}

/// The tree.
pub struct Build {
    /// Where what comes is put, if it is not to be in memory.
    spool: Option<Arc<dyn TempBlobs>>,
    slot: Slot,
    state: Digest,
    /// The state that is here, from which sources leave out what did not change.
    base: Option<Snapshot>,
    /// What need not be fetched.
    known: Tree,
    /// Whether that is more than [`Self::base`].
    has_scraps: bool,
    /// Chunks from before, each used at most once.
    spare: BTreeMap<Digest, Chunk>,
    /// Sections of the state and leaves among them, once the top node is here.
    shape: Option<(u32, u32)>,
    wanted: BTreeMap<Item, Want>,
    /// Those of them that are in no question.
    waiting: usize,
    /// What is to be asked for next, the last first: so what was begun is finished, and what
    /// waits stays small. May hold what is not wanted any more.
    stack: Vec<Item>,
    open: BTreeMap<Place, Open>,
    large: BTreeMap<u32, Large>,
    chunks: BTreeMap<Digest, Chunk>,
    leaves: u32,
    done: Option<Tree>,
}

impl Build {
    /// The tree of a state, of which only the digest is known.
    pub fn new(slot: Slot, state: Digest, base: Option<Snapshot>, scraps: Scraps) -> Self {
        let base = base.filter(|base| base.slot < slot);
        let has_scraps = scraps.tree.is_some();
        let known = scraps.tree.or_else(|| base.as_ref().map(|base| base.tree.clone()));
        Self {
            spool: None,
            slot,
            state,
            base,
            known: known.unwrap_or_else(|| Tree::new(0)),
            has_scraps,
            spare: scraps.chunks,
            shape: None,
            wanted: BTreeMap::from([(Item::Top, Want { digest: state, ask: None })]),
            waiting: 1,
            stack: Vec::from([Item::Top]),
            open: BTreeMap::new(),
            large: BTreeMap::new(),
            chunks: BTreeMap::new(),
            leaves: 0,
            done: None,
        }
    }

    /// The same, which puts what comes there.
    pub fn with_spool(self, spool: Option<Arc<dyn TempBlobs>>) -> Self {
        Self { spool, ..self }
    }

    /// The slot of the state that is here, if it is of use.
    pub fn since(&self) -> Option<Slot> {
        self.base.as_ref().map(|base| base.slot)
    }

    /// Leaves of the state, 0 until that is known, and those that are here.
    pub fn leaves(&self) -> (u32, u32) {
        (self.shape.map_or(0, |(_, leaves)| leaves), self.leaves)
    }

    /// Takes the tree if it is finished.
    pub const fn take_done(&mut self) -> Option<Tree> {
        self.done.take()
    }

    /// Whether all that a source lists that leaves out what did not change since then is new here:
    /// it may as well send what is below.
    pub const fn is_blank(&self, since: Option<Slot>) -> bool {
        !self.has_scraps && (since.is_some() || self.known.top().is_none())
    }

    /// Things that are waiting to be asked for.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// What is to be asked for in a question: some nodes, or the top, or a chunk.
    pub fn next(&mut self, ask: u64, nodes_max: usize) -> Vec<Item> {
        let mut items = Vec::new();
        while let Some(item) = self.stack.pop() {
            let free = self.wanted.get_mut(&item).filter(|want| want.ask.is_none());
            let Some(want) = free else { continue };
            if !items.is_empty() && !matches!(item, Item::Node(_)) {
                self.stack.push(item);
                break;
            }
            want.ask = Some(ask);
            self.waiting -= 1;
            items.push(item);
            if items.len() >= nodes_max || !matches!(item, Item::Node(_)) {
                break;
            }
        }
        items
    }

    /// Whether something that was asked for in a question is still to come.
    pub fn waits_for(&self, ask: u64, items: &[Item]) -> bool {
        items.iter().any(|item| self.wanted.get(item).is_some_and(|want| want.ask == Some(ask)))
    }

    /// What was asked for in a question and did not come has to be asked for again.
    pub fn take_back(&mut self, ask: u64, items: &[Item]) {
        for item in items.iter().rev() {
            if let Some(want) = self.wanted.get_mut(item).filter(|want| want.ask == Some(ask)) {
                want.ask = None;
                self.waiting += 1;
                self.stack.push(*item);
            }
        }
    }

    /// Whether something is not here yet.
    pub fn wants(&self, item: Item) -> bool {
        self.wanted.contains_key(&item)
    }

    /// What a source says of the top node, and of the state's sections and leaves.
    pub fn on_top(
        &mut self,
        (sections, leaves): (u32, u32),
        place: Place,
        part: Part,
    ) -> Result<(), Refused> {
        if !self.wants(Item::Top) {
            return Err(Refused::NotWanted);
        }
        if place != Place::top(sections) {
            return Err(Refused::Wrong);
        }
        let state = self.state;
        let fits = |top| Tree::digest_of(sections, leaves, top) == state;
        let checked = self.checked(place, part, fits)?;
        self.came(Item::Top);
        self.shape = Some((sections, leaves));
        self.take_in(place, checked);
        Ok(())
    }

    /// What a source says of another node.
    pub fn on_node(&mut self, place: Place, part: Part) -> Result<(), Refused> {
        let want = self.wanted.get(&Item::Node(place)).ok_or(Refused::NotWanted)?;
        let wanted = want.digest;
        let checked = self.checked(place, part, |digest| digest == wanted)?;
        self.came(Item::Node(place));
        self.take_in(place, checked);
        Ok(())
    }

    /// What a source says is a chunk.
    pub fn on_chunk(&mut self, section: u32, chunk: u32, bytes: Bytes) -> Result<(), Refused> {
        let item = Item::Chunk(section, chunk);
        let want = self.wanted.get(&item).ok_or(Refused::NotWanted)?;
        let digest = want.digest;
        believed(Digest::of(&bytes) == digest)?;
        self.came(item);
        let chunk = Chunk::new(digest, bytes);
        let chunk = match &self.spool {
            Some(spool) => chunk.spooled(&**spool),
            None => chunk,
        };
        self.chunks.insert(digest, chunk);
        if let Entry::Occupied(mut large) = self.large.entry(section) {
            large.get_mut().missing -= 1;
            if large.get().missing == 0 {
                let large = large.remove();
                self.finish_large(section, &large);
            }
        }
        Ok(())
    }

    fn checked(
        &self,
        place: Place,
        part: Part,
        fits: impl Fn(Digest) -> bool,
    ) -> Result<Checked, Refused> {
        match part {
            Part::Section { section, bytes } => {
                // A copy: the bytes must not keep a whole message in memory.
                let leaf = Leaf::small(section, Bytes::copy_from_slice(&bytes), self.slot);
                believed(place.contains(section) && fits(leaf.digest()))?;
                Ok(Checked::Leaf(leaf))
            }
            Part::Chunks { section, digests } => {
                let digest = Leaf::digest_of_chunks(section, digests.iter());
                let right = place.contains(section) && fits(digest);
                if right { Ok(Checked::Large(section, digests)) } else { Err(Refused::Wrong) }
            }
            Part::Children { present, listed, digests } => {
                if place.height == 0 || listed & !present != 0 {
                    return Err(Refused::Wrong);
                }
                let mut all = Box::new([Digest::default(); CHILDREN]);
                let mut told = digests.into_iter();
                for number in numbers(present) {
                    all[number] = match listed >> number & 1 {
                        1 => told.next().ok_or(Refused::Wrong)?,
                        _ => self.in_base(place.child(number)).ok_or(Refused::OtherBase)?,
                    };
                }
                let digest = Inner::digest_of(present, numbers(present).map(|child| all[child]));
                if fits(digest) || mutant!("transfer.manifest-not-checked") {
                    return Ok(Checked::Inner(present, all));
                }
                Err(if listed == present { Refused::Wrong } else { Refused::OtherBase })
            }
        }
    }

    fn in_base(&self, place: Place) -> Option<Digest> {
        self.base.as_ref()?.tree.find(place).map(Node::digest)
    }

    fn take_in(&mut self, place: Place, checked: Checked) {
        match checked {
            Checked::Leaf(leaf) => {
                self.leaves += 1;
                let leaf = match &self.spool {
                    Some(spool) => leaf.spooled(&**spool),
                    None => leaf,
                };
                self.put(place, Some(Node::leaf(leaf)));
            }
            Checked::Large(section, digests) => self.begin_large(place, section, digests),
            Checked::Inner(present, digests) => self.open(place, present, &digests),
        }
    }

    fn open(&mut self, place: Place, present: u16, digests: &[Digest; CHILDREN]) {
        let mut open = Open { present, children: Children::default(), missing: 0 };
        for number in numbers(present) {
            let (child, digest) = (place.child(number), digests[number]);
            match self.known.find(child).filter(|node| node.digest() == digest) {
                Some(node) => {
                    self.leaves += node.leaves();
                    open.children[number] = Some(node.clone());
                }
                None => {
                    open.missing += 1;
                    self.want(Item::Node(child), digest);
                }
            }
        }
        if open.missing == 0 {
            let node = Node::join(open.children, self.slot);
            self.put(place, node);
        } else {
            self.open.insert(place, open);
        }
    }

    fn want(&mut self, item: Item, digest: Digest) {
        self.wanted.insert(item, Want { digest, ask: None });
        self.waiting += 1;
        self.stack.push(item);
    }

    /// Something that is wanted is here, and may not even have been asked for.
    fn came(&mut self, item: Item) {
        let want = self.wanted.remove(&item);
        self.waiting -= usize::from(want.is_some_and(|want| want.ask.is_none()));
    }

    fn begin_large(&mut self, place: Place, section: u32, digests: Vec<Digest>) {
        let known = self.known.section(section).map(Leaf::chunks).unwrap_or_default();
        let known: BTreeMap<Digest, &Chunk> = known.iter().map(|it| (it.digest(), it)).collect();
        let mut missing = BTreeMap::new();
        for (number, digest) in (0u32..).zip(&digests) {
            if self.chunks.contains_key(digest) {
                continue;
            }
            // What is in a file may be there no more, and others have it.
            let is_here = |chunk: &Chunk| !chunk.is_cold() || chunk.read().is_some();
            let here = known.get(digest).map(|chunk| Chunk::clone(chunk)).filter(is_here);
            match here.or_else(|| self.spare.remove(digest).filter(is_here)) {
                Some(chunk) => drop(self.chunks.insert(*digest, chunk)),
                None => drop(missing.entry(*digest).or_insert(number)),
            }
        }
        let large = Large { place, digests, missing: missing.len() as u32 };
        if missing.is_empty() {
            return self.finish_large(section, &large);
        }
        let mut missing: Vec<_> = missing.into_iter().collect();
        missing.sort_unstable_by_key(|(_, number)| core::cmp::Reverse(*number));
        for (digest, number) in missing {
            self.want(Item::Chunk(section, number), digest);
        }
        self.large.insert(section, large);
    }

    /// All chunks of a section are here.
    fn finish_large(&mut self, section: u32, large: &Large) {
        let chunk = |digest: &Digest| self.chunks.get(digest).cloned();
        let chunks = large.digests.iter().filter_map(chunk).collect();
        let others = self.large.values().flat_map(|large| &large.digests);
        let others: BTreeSet<&Digest> = others.collect();
        for digest in large.digests.iter().filter(|digest| !others.contains(digest)) {
            self.chunks.remove(digest);
        }
        self.leaves += 1;
        self.put(large.place, Some(Node::leaf(Leaf::of_chunks(section, chunks, self.slot))));
    }

    /// A subtree is here: puts it in its place, and so what becomes whole by that.
    fn put(&mut self, mut place: Place, mut node: Option<Node>) {
        let Some((sections, _)) = self.shape else { return };
        while place != Place::top(sections) {
            let (parent, number) = place.parent();
            let Some(open) = self.open.get_mut(&parent) else { return };
            open.children[number] = node;
            open.missing -= 1;
            if open.missing > 0 {
                return;
            }
            let Some(open) = self.open.remove(&parent) else { return };
            node = Node::join(open.children, self.slot);
            place = parent;
        }
        self.done = Some(Tree::with_top(sections, node));
    }

    /// Ends it before it is finished, and keeps what may be of use.
    pub fn into_scraps(mut self) -> Scraps {
        let mut chunks = core::mem::take(&mut self.chunks);
        let spare = core::mem::take(&mut self.spare).into_iter();
        let room = SPARE_CHUNKS_MAX.saturating_sub(chunks.len());
        chunks.extend(spare.take(room));
        let tree = match self.shape {
            Some((sections, _)) => {
                let top = self.mixture(Place::top(sections));
                Some(Tree::with_top(sections, top))
            }
            None => self.has_scraps.then_some(self.known),
        };
        Scraps { tree, chunks }
    }

    /// What was fetched below a place, and elsewhere what was known.
    fn mixture(&mut self, place: Place) -> Option<Node> {
        let Some(open) = self.open.remove(&place) else {
            return self.known.find(place).cloned();
        };
        let mut children = open.children;
        for number in numbers(open.present) {
            if children[number].is_none() {
                children[number] = self.mixture(place.child(number));
            }
        }
        Node::join(children, self.slot)
    }
}

/// Whether bytes are taken for what a digest stands for.
fn believed(right: bool) -> Result<(), Refused> {
    if right || mutant!("transfer.chunk-not-checked") { Ok(()) } else { Err(Refused::Wrong) }
}

/// Chunks of former wishes that are kept beside those of the last one, at most: 16 MiB.
const SPARE_CHUNKS_MAX: usize = (16 << 20) / CHUNK_BYTES_MAX;

/// What a digest vouches for.
enum Checked {
    Leaf(Leaf),
    Large(u32, Vec<Digest>),
    Inner(u16, Box<[Digest; CHILDREN]>),
}
