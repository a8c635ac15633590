//! Which keys somebody waits for, and which of them changed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;

/// Keys that are watched or waited for. Derived from the sessions; costs nothing while nobody
/// waits for anything.
#[derive(Default)]
pub struct Interest {
    keys: BTreeMap<Bytes, Entry>,
    /// Those that changed, in the order of their first change.
    touched: Vec<Bytes>,
}

#[derive(Default)]
struct Entry {
    /// How many wait for it.
    count: u32,
    touched: bool,
}

impl Interest {
    /// One more waits for a key.
    pub fn add(&mut self, key: &Bytes) {
        self.keys.entry(key.clone()).or_default().count += 1;
    }

    /// One less waits for a key.
    pub fn remove(&mut self, key: &Bytes) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.count -= 1;
            if entry.count == 0 {
                self.keys.remove(key);
            }
        }
    }

    /// Takes note that a key changed, or was created or removed.
    pub fn touch(&mut self, key: &[u8]) {
        if self.keys.is_empty() {
            return;
        }
        let Some(entry) = self.keys.get_mut(key).filter(|entry| !entry.touched) else { return };
        entry.touched = true;
        let (key, _) = self.keys.get_key_value(key).expect("found just now");
        self.touched.push(key.clone());
    }

    /// The keys that changed since the last call.
    pub fn take(&mut self) -> Vec<Bytes> {
        let touched = core::mem::take(&mut self.touched);
        for key in &touched {
            if let Some(entry) = self.keys.get_mut(key) {
                entry.touched = false;
            }
        }
        touched
    }
}
