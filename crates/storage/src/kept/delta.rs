//! A state as what makes it of the one before it: a record of the log, in place of files.

use bytes::Bytes;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::SECTIONS_MAX;
use pentarchy_core::membership::Base;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Change, Leaf};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::sync::Arc;

/// Bytes of each section beside its content: number and length.
const SECTION_HEAD_BYTES: usize = 8;

/// What makes a state of an earlier one.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The earlier one.
    pub base: Base,
    /// The state.
    pub state: Base,
    changes: Vec<Change>,
    bytes: usize,
}

impl Delta {
    /// What changed from one state to a later one, in memory; none if that takes more bytes than
    /// this, or some of it cannot be read.
    pub fn between(old: &Snapshot, new: &Snapshot, bytes_max: usize) -> Option<Self> {
        if new.slot <= old.slot || new.tree.sections() != old.tree.sections() {
            return None;
        }
        let changes = new.tree.changes_since(&old.tree);
        let content = |(_, leaf): &Change| leaf.as_ref().map_or(0, |leaf| leaf.len());
        let bytes = changes.iter().map(|change| SECTION_HEAD_BYTES + content(change)).sum();
        if bytes > bytes_max {
            return None;
        }
        let warm = |(section, leaf): Change| match leaf {
            Some(leaf) if leaf.is_cold() => Some((section, Some(Arc::new(leaf.warmed()?)))),
            leaf => Some((section, leaf)),
        };
        let changes = changes.into_iter().map(warm).collect::<Option<_>>()?;
        Some(Self { base: base_of(old), state: base_of(new), changes, bytes })
    }

    /// About how many bytes it takes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sections that changed.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// The state, made of the earlier one; none if that is another one.
    pub fn apply(&self, old: &Snapshot) -> Option<Snapshot> {
        if base_of(old) != self.base {
            return None;
        }
        let known = self.changes.last().is_none_or(|(last, _)| *last < old.tree.sections());
        let tree = known.then(|| old.tree.changed(&self.changes, self.state.slot))?;
        let Base { slot, state: digest } = self.state;
        (tree.digest() == digest).then_some(Snapshot { slot, digest, tree })
    }
}

/// Slot and digest of a state.
pub const fn base_of(snapshot: &Snapshot) -> Base {
    Base { slot: snapshot.slot, state: snapshot.digest }
}

impl Wire for Delta {
    fn encode(&self, to: &mut Writer) {
        self.base.encode(to);
        self.state.encode(to);
        to.u32(self.changes.len() as u32);
        for (section, leaf) in &self.changes {
            to.u32(*section);
            // A section that is empty has no leaf, and no leaf is empty.
            let content = |leaf: &Arc<Leaf>| leaf.joined().expect("it is in memory");
            to.bytes(&leaf.as_ref().map(content).unwrap_or_default());
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (base, state) = (Base::decode(from)?, Base::decode(from)?);
        let count = from.u32()?;
        let (mut changes, mut bytes): (Vec<Change>, usize) = (Vec::new(), 0);
        for _ in 0..count {
            let (section, content) = (from.u32()?, from.bytes(usize::MAX)?);
            let in_order = changes.last().is_none_or(|(last, _)| *last < section);
            if !in_order || section as usize >= SECTIONS_MAX {
                return Err(Malformed);
            }
            bytes += SECTION_HEAD_BYTES + content.len();
            changes.push((section, leaf(section, &content, state.slot)));
        }
        Ok(Self { base, state, changes, bytes })
    }
}

fn leaf(section: u32, content: &Bytes, slot: Slot) -> Option<Arc<Leaf>> {
    // A copy: a section that stays must not keep its neighbours in memory.
    (!content.is_empty()).then(|| Arc::new(Leaf::new(section, content.to_vec(), slot)))
}

/// Base and state of an encoded one, without its content.
pub fn heads(encoded: &Bytes) -> Result<(Base, Base), Malformed> {
    let mut from = Reader::new(encoded);
    Ok((Base::decode(&mut from)?, Base::decode(&mut from)?))
}

/// Bytes of that.
#[cfg(test)]
const HEADS_BYTES: usize = 2 * (8 + 32);

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::tree::Tree;

    fn state(slot: u64, sections: [&[u8]; 4]) -> Snapshot {
        Snapshot::new(Slot(slot), Tree::of(Slot(slot), sections.map(<[u8]>::to_vec)))
    }

    #[test]
    fn a_state_is_made_of_the_one_before_and_of_no_other() {
        let large = vec![9; 300_000];
        let old = state(64, [b"one", b"", b"three", &large]);
        let new = state(128, [b"one", b"two", b"", &large[..299_999]]);
        let delta = Delta::between(&old, &new, 400_000).expect("it is small enough");
        assert!(Delta::between(&old, &new, 299_999).is_none(), "it is too large");
        assert!(Delta::between(&new, &old, 400_000).is_none(), "that is a step back");
        let bytes = delta.to_bytes();
        assert_eq!(heads(&bytes), Ok((base_of(&old), base_of(&new))));
        let mut read = Delta::from_bytes(&bytes).expect("it was written");
        assert_eq!((read.apply(&old), read.bytes()), (Some(new.clone()), delta.bytes()));
        assert_eq!(read.apply(&new), None);
        assert_eq!(read.apply(&state(64, [b"one", b"", b"four", &large])), None);
        read.changes.truncate(1);
        assert_eq!(read.apply(&old), None, "a part of it is not the state");
        for end in [0, HEADS_BYTES, bytes.len() - 1] {
            assert!(Delta::from_bytes(&bytes.slice(..end)).is_err(), "{end}");
        }
    }
}
