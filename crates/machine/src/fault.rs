//! Misbehaviour on command, to try a group out.
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

/// Another state than the true one.
#[must_use]
pub fn other_state(state: Digest) -> Digest {
    Digest::of(&state.0)
}

/// Another result than the true one.
#[must_use]
pub fn other_result(result: &Bytes) -> Bytes {
    match result.split_last() {
        Some((last, rest)) => [rest, &[last ^ 1]].concat().into(),
        None => Bytes::from_static(b"!"),
    }
}

/// Another reply or event than the true one.
fn other_notice(notice: Notice) -> Notice {
    match notice {
        Notice::Reply(Reply { number, outcome: Outcome::Done(result) }) => {
            Notice::Reply(Reply { number, outcome: Outcome::Done(other_result(&result)) })
        }
        Notice::Event { number, body } => Notice::Event { number, body: other_result(&body) },
        other => other,
    }
}

/// The reply or event that a client is told instead of the true one.
#[must_use]
pub fn told(fault: Fault, notice: Notice) -> Notice {
    match fault {
        Fault::Corrupt | Fault::Equivocate => other_notice(notice),
        Fault::None | Fault::Silent | Fault::Slow(_) => notice,
    }
}

/// The receivers that are shown a statement that the counter certified: they take turns.
#[must_use]
pub fn some_of(receivers: ReplicaSet, turn: u64) -> ReplicaSet {
    let chosen =
        (0u64..).zip(receivers.iter()).filter(|(index, _)| (index + turn).is_multiple_of(2));
    chosen.map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::ReplicaId;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for fault in [Fault::Silent, Fault::Equivocate, Fault::Corrupt, Fault::Slow(7), Fault::None]
        {
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
