//! Misbehaviour on command, to try a group out. A replica has this door only if it was started with
//! a [`FaultSwitch`], which nothing does but a local cluster made for trying.
//!
//! The lies stay within the fault model: what a replica says under its own keys may be anything,
//! but its trusted counter is used only through its interface. So an equivocating replica cannot
//! certify two statements at one position. It shows its statements to some and not to others, which
//! makes different replicas see different counter values, and gives different answers and
//! checkpoints.

use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::ReplicaSet;
use pentarchy_core::ports::client::{Outcome, Reply};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a replica misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fault {
    /// Not at all.
    #[default]
    None,
    /// It says nothing to anybody, but what its status is.
    Silent,
    /// It tells different replicas different things, and clients and checkpoints something else.
    Equivocate,
    /// It changes a bit in all that it sends.
    Corrupt,
    /// It says everything this many milliseconds late.
    Slow(u32),
}

/// The longest that a replica can be slow.
pub const SLOW_MS_MAX: u32 = 60_000;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Silent => f.write_str("silent"),
            Self::Equivocate => f.write_str("equivocate"),
            Self::Corrupt => f.write_str("corrupt"),
            Self::Slow(ms) => write!(f, "slow {ms}"),
        }
    }
}

impl FromStr for Fault {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "none" => Ok(Self::None),
            "silent" => Ok(Self::Silent),
            "equivocate" => Ok(Self::Equivocate),
            "corrupt" => Ok(Self::Corrupt),
            _ => {
                let ms = text.strip_prefix("slow ").and_then(|ms| ms.parse().ok()).ok_or(())?;
                if ms <= SLOW_MS_MAX { Ok(Self::Slow(ms)) } else { Err(()) }
            }
        }
    }
}

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

/// Another state than the true one.
pub fn other_state(state: Digest) -> Digest {
    Digest::of(&state.0)
}

/// Another result than the true one.
pub fn other_result(result: &Bytes) -> Bytes {
    match result.split_last() {
        Some((last, rest)) => [rest, &[last ^ 1]].concat().into(),
        None => Bytes::from_static(b"!"),
    }
}

/// Another reply or event than the true one.
pub fn other_notice(notice: Notice) -> Notice {
    match notice {
        Notice::Reply(Reply { number, outcome: Outcome::Done(result) }) => {
            Notice::Reply(Reply { number, outcome: Outcome::Done(other_result(&result)) })
        }
        Notice::Event { number, body } => Notice::Event { number, body: other_result(&body) },
        other => other,
    }
}

/// Who is shown a statement that the counter certified: the receivers take turns.
pub fn some_of(receivers: ReplicaSet, turn: u64) -> ReplicaSet {
    let chosen = (0u64..).zip(receivers.iter()).filter(|(index, _)| (index + turn) % 2 == 0);
    chosen.map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::ReplicaId;

    #[test]
    fn what_is_set_is_what_is_said_and_read() {
        let switch = FaultSwitch::default();
        for fault in [Fault::Silent, Fault::Equivocate, Fault::Corrupt, Fault::Slow(7), Fault::None]
        {
            switch.set(fault);
            assert_eq!(switch.get(), fault);
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        for wrong in ["", "slow", "slow x", "slow 60001", "Silent"] {
            assert_eq!(wrong.parse::<Fault>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn receivers_take_turns() {
        let all: ReplicaSet = (1..5).map(ReplicaId).collect();
        let (even, odd) = (some_of(all, 0), some_of(all, 1));
        assert_eq!((even.len(), odd.len()), (2, 2));
        assert!(even.iter().all(|id| !odd.contains(id)));
    }
}
