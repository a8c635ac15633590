//! What a replica waits for.

use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::{TimerKey, TimerName};

/// What a replica waits for. What ends in an accusation is waited for twice: for the time-out, and
/// then a little longer the further the replica is from where the fault would be, so that the
/// neighbour of the fault speaks first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The next look at what neighbours lack.
    Tick,
    /// The envelope with this arrival number to be ordered here.
    Request(u64),
    /// The same, a little longer.
    RequestLate(u64),
    /// This slot to be done.
    Return(Slot),
    /// The same, a little longer.
    ReturnLate(Slot),
    /// The checkpoint at this slot to be stable.
    Mark(Slot),
    /// The same, a little longer.
    MarkLate(Slot),
}

impl TimerName for Timer {
    fn to_key(self) -> TimerKey {
        match self {
            Self::Tick => (0, 0),
            Self::Request(arrival) => (1, arrival),
            Self::RequestLate(arrival) => (2, arrival),
            Self::Return(slot) => (3, slot.0),
            Self::ReturnLate(slot) => (4, slot.0),
            Self::Mark(slot) => (5, slot.0),
            Self::MarkLate(slot) => (6, slot.0),
        }
    }
    fn from_key((kind, subject): TimerKey) -> Self {
        match kind {
            1 => Self::Request(subject),
            2 => Self::RequestLate(subject),
            3 => Self::Return(Slot(subject)),
            4 => Self::ReturnLate(Slot(subject)),
            5 => Self::Mark(Slot(subject)),
            6 => Self::MarkLate(Slot(subject)),
            _ => Self::Tick,
        }
    }
}
