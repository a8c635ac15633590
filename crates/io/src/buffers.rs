//! Large buffers that are used again.
//!
//! A megabyte that is allocated and freed with every message is taken from the system and given
//! back page by page each time, which costs more than to decrypt it. A thread that has said how
//! much it may [`keep`] gets its large buffers from those that it has used before. All others get
//! theirs from the allocator: whoever drops a message on another thread frees it.

use bytes::Bytes;
use std::cell::RefCell;

/// Buffers from this size on are used again; the allocator is quick with smaller ones.
pub const LARGE_BYTES: usize = 64 << 10;

/// The largest buffer that is kept.
const KEPT_BYTES_MAX: usize = 5 << 20;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare::new()) };
}

/// The spare buffers of a thread. They hold what they held: it was this process's anyway, and is
/// written over before anyone reads it.
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Spare {
    const fn new() -> Self {
        Self { buffers: Vec::new(), bytes: 0, bytes_max: 0 }
    }

    /// The smallest spare buffer that has room for so many bytes, and not for many more: a message
    /// that is kept for long must not keep a buffer of several times its size.
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = |capacity: usize| (bytes..=bytes + bytes / 4).contains(&capacity);
        let sizes = self.buffers.iter().enumerate().map(|(index, it)| (it.capacity(), index));
        let (capacity, index) = sizes.filter(|(capacity, _)| fits(*capacity)).min()?;
        self.bytes -= capacity;
        Some(self.buffers.swap_remove(index))
    }

    /// Keeps a buffer. The oldest give way.
    fn give(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if !(LARGE_BYTES..=KEPT_BYTES_MAX.min(self.bytes_max)).contains(&capacity) {
            return;
        }
        while self.bytes + capacity > self.bytes_max {
            self.bytes -= self.buffers.remove(0).capacity();
        }
        self.bytes += capacity;
        self.buffers.push(buffer);
    }
}

/// From now on this thread keeps so many bytes of large buffers.
pub fn keep(bytes_max: usize) {
    SPARE.with_borrow_mut(|spare| {
        *spare = Spare { bytes_max, ..Spare::new() };
    });
}

/// A buffer of this length. What is in it is to be written over.
#[must_use]
pub fn filled(length: usize) -> Vec<u8> {
    if length < LARGE_BYTES {
        return vec![0; length];
    }
    // In steps of an eighth at most, so that buffers of nearly equal lengths serve each other.
    let step = length.next_power_of_two() / 16;
    let capacity = length.next_multiple_of(step);
    let spare = SPARE.try_with(|spare| spare.borrow_mut().take(length)).ok().flatten();
    let mut buffer = spare.unwrap_or_else(|| vec![0; capacity]);
    // Only what this buffer never held is cleared.
    buffer.resize(length.max(buffer.len()), 0);
    buffer.truncate(length);
    buffer
}

/// An empty buffer with room for this length, if there is a spare one.
#[must_use]
pub fn empty(length: usize) -> Vec<u8> {
    if length < LARGE_BYTES {
        return Vec::new();
    }
    let spare = SPARE.try_with(|spare| spare.borrow_mut().take(length)).ok().flatten();
    let mut buffer = spare.unwrap_or_default();
    buffer.clear();
    buffer
}

/// Takes a buffer back.
pub fn give(buffer: Vec<u8>) {
    if buffer.capacity() >= LARGE_BYTES {
        // At the end of a thread there is nobody left to keep it.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().give(buffer));
    }
}

/// What is in a buffer, to be shared. The buffer comes back once nobody has a part of it.
#[must_use]
pub fn shared(buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() < LARGE_BYTES {
        Bytes::from(buffer)
    } else {
        Bytes::from_owner(Lent(buffer))
    }
}

struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn kept() -> usize {
        SPARE.with_borrow(|spare| {
            assert_eq!(spare.bytes, spare.buffers.iter().map(Vec::capacity).sum::<usize>());
            spare.bytes
        })
    }

    #[test]
    fn a_large_buffer_comes_back_when_the_last_part_of_it_is_gone() {
        keep(4 * MIB);
        let buffer = filled(MIB);
        let place = buffer.as_ptr();
        let whole = shared(buffer);
        let part = whole.slice(5..10);
        drop(whole);
        assert_eq!(kept(), 0);
        drop(part);
        assert_eq!(kept(), MIB);
        let again = filled(MIB - MIB / 10);
        assert_eq!((again.as_ptr(), again.len(), kept()), (place, MIB - MIB / 10, 0));
        give(again);
        assert_eq!(filled(MIB / 2).capacity(), MIB / 2, "not one of twice the size");
        let empty = empty(MIB);
        assert_eq!((empty.as_ptr(), empty.len()), (place, 0));
    }

    #[test]
    fn no_more_is_kept_than_was_said_and_nothing_small() {
        keep(4 * MIB);
        (0..10).map(|_| filled(MIB)).collect::<Vec<_>>().into_iter().for_each(give);
        assert_eq!(kept(), 4 * MIB);
        give(filled(3 * MIB));
        assert_eq!(kept(), 4 * MIB, "older ones gave way");
        give(filled(10 * MIB));
        give(filled(1000));
        assert_eq!(kept(), 4 * MIB);
        std::thread::spawn(|| {
            give(filled(MIB));
            assert_eq!(kept(), 0, "this thread did not ask for it");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_used_buffer_has_the_length_that_is_asked_for() {
        keep(4 * MIB);
        give(vec![7; LARGE_BYTES]);
        let mut short = filled(LARGE_BYTES);
        short.truncate(10);
        give(short);
        assert_eq!(filled(LARGE_BYTES).len(), LARGE_BYTES);
    }
}
