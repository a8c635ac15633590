//! Misbehaviour on command. A replica does this only if it was started with a [`FaultSwitch`],
//! which nothing does but a local cluster made for trying.

pub use pentarchy_machine::fault::{Fault, SLOW_MS_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Turns faults of a running replica on and off, from any thread.
#[derive(Clone, Default, Debug)]
pub struct FaultSwitch(Arc<AtomicU64>);

impl FaultSwitch {
    /// From the next round on the replica misbehaves like this.
    pub fn set(&self, fault: Fault) {
        let (kind, ms) = match fault {
            Fault::None => (0, 0),
            Fault::Silent => (1, 0),
            Fault::Equivocate => (2, 0),
            Fault::Corrupt => (3, 0),
            Fault::Slow(ms) => (4, ms),
        };
        self.0.store(kind << 32 | u64::from(ms), Ordering::Relaxed);
    }

    /// What is set.
    #[must_use]
    pub fn get(&self) -> Fault {
        let set = self.0.load(Ordering::Relaxed);
        match set >> 32 {
            1 => Fault::Silent,
            2 => Fault::Equivocate,
            3 => Fault::Corrupt,
            4 => Fault::Slow(set as u32),
            _ => Fault::None,
        }
    }
}

/// One bit changed, somewhere in the middle.
pub fn corrupted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_read() {
        let switch = FaultSwitch::default();
        for fault in [Fault::Silent, Fault::Equivocate, Fault::Corrupt, Fault::Slow(7), Fault::None]
        {
            switch.set(fault);
            assert_eq!(switch.get(), fault);
        }
    }
}
