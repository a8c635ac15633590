//! The signing keys of one replica, as its folder of keys has them: they outlive its process. A key
//! that was erased is gone, also for a replica that starts again and would want it.

use pentarchy_core::change::Change;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::ReplicaId;
use std::sync::{Arc, Mutex, MutexGuard};

/// A key that was made for a change, and is not used yet.
#[derive(Clone, Debug)]
struct Prepared {
    change: Change,
    key: [u8; 32],
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct KeyRing {
    owner: ReplicaId,
    /// The one that signs, and the change for which it was made; none if it is the first one.
    current: ([u8; 32], Option<Change>),
    /// It has left the group, and erased all of them.
    is_retired: bool,
    /// Those that signed before, and are not erased yet.
    former: Vec<([u8; 32], Option<Change>)>,
    prepared: Vec<Prepared>,
    /// How many it has made.
    made: u64,
}

/// The ring of a replica in all of its lives.
#[derive(Clone, Debug)]
pub struct SharedKeyRing(Arc<Mutex<KeyRing>>);

impl SharedKeyRing {
    /// The ring, for as long as somebody looks at it.
    pub fn lock(&self) -> MutexGuard<'_, KeyRing> {
        self.0.lock().expect("a panic ends the world")
    }
}

impl KeyRing {
    /// With the key with which the group began.
    #[must_use]
    pub fn shared(owner: ReplicaId, first: [u8; 32]) -> SharedKeyRing {
        let (former, prepared) = (Vec::new(), Vec::new());
        let ring =
            Self { owner, current: (first, None), is_retired: false, former, prepared, made: 0 };
        SharedKeyRing(Arc::new(Mutex::new(ring)))
    }

    /// The key for a change: made now, unless it was before.
    pub fn prepare(&mut self, change: &Change) -> [u8; 32] {
        if let Some(known) = self.prepared.iter().find(|known| known.change == *change) {
            return known.key;
        }
        self.made += 1;
        let mut hasher = Hasher::new("simulated signing key");
        let mut key = hasher.u64(u64::from(self.owner.0)).u64(self.made).finish().0;
        // As that of an identity does.
        key[0] = self.owner.0 as u8;
        self.prepared.push(Prepared { change: change.clone(), key });
        key
    }

    /// Whether this key was made for a change, and is not used yet.
    #[must_use]
    pub fn has_prepared(&self, key: &[u8; 32]) -> bool {
        self.prepared.iter().any(|known| known.key == *key)
    }

    /// Drops what was made for changes that are void.
    pub fn forget(&mut self, is_void: &dyn Fn(&Change) -> bool) {
        self.prepared.retain(|known| !is_void(&known.change));
    }

    /// From now on the replica signs by this key, if it has it. One that lost power before it was
    /// durable that the next configuration had begun starts again in the one before, and comes to
    /// the next one later.
    pub fn adopt(&mut self, key: &[u8; 32]) {
        if let Some(at) = self.prepared.iter().position(|known| known.key == *key) {
            let Prepared { change, key } = self.prepared.remove(at);
            self.former.push(std::mem::replace(&mut self.current, (key, Some(change))));
        } else if let Some(at) = self.former.iter().position(|(known, _)| known == key) {
            let former = self.former.remove(at);
            let (key, change) = std::mem::replace(&mut self.current, former);
            self.prepared.extend(change.map(|change| Prepared { change, key }));
        }
    }

    /// Erases the keys of earlier configurations.
    pub fn erase_former(&mut self) {
        self.former.clear();
    }

    /// Erases all keys: its owner has left the group.
    pub fn retire(&mut self) {
        self.is_retired = true;
        self.former.clear();
        self.prepared.clear();
    }

    /// How many keys it has of earlier configurations.
    #[must_use]
    pub const fn former(&self) -> usize {
        self.former.len()
    }

    /// How many keys it has.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.former.len() + self.prepared.len() + !self.is_retired as usize
    }

    /// Whether it has this key.
    #[must_use]
    pub fn has(&self, key: &[u8; 32]) -> bool {
        self.current.0 == *key && !self.is_retired
            || self.former.iter().any(|(known, _)| known == key)
            || self.has_prepared(key)
    }

    /// What a replica signs that has lost the key which it would need.
    #[must_use]
    pub fn nothing(digest: &Digest) -> [u8; 64] {
        let mut signature = [0; 64];
        signature[32..].copy_from_slice(&digest.0);
        signature
    }
}
