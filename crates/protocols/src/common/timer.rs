//! What a replica waits for.

use pentarchy_core::ids::{Slot, View};
use pentarchy_core::protocol::{TimerKey, TimerName};

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The oldest waiting envelope, by its arrival number, to execute.
    Request(u64),
    /// This view to be entered.
    ViewChange(View),
    /// The next report to peers.
    Resend,
    /// Our clock to reach a proposal's time.
    Clock,
    /// A proposal that others have taken up.
    Gap,
    /// Envelopes that a proposal names.
    Fetch,
    /// The next look at what the primary has not ordered.
    Look,
    /// This slot to become final.
    Final(Slot),
    /// Slots up to this one to be ordered, empty or not.
    Fill(Slot),
    /// What others ask for to grow older.
    Asks,
}

impl TimerName for Timer {
    fn to_key(self) -> TimerKey {
        match self {
            Self::Request(arrival) => (0, arrival),
            Self::ViewChange(view) => (1, view.0),
            Self::Resend => (2, 0),
            Self::Clock => (3, 0),
            Self::Gap => (4, 0),
            Self::Fetch => (5, 0),
            Self::Look => (6, 0),
            Self::Final(slot) => (7, slot.0),
            Self::Fill(slot) => (8, slot.0),
            Self::Asks => (9, 0),
        }
    }
    fn from_key((kind, subject): TimerKey) -> Self {
        match kind {
            0 => Self::Request(subject),
            1 => Self::ViewChange(View(subject)),
            2 => Self::Resend,
            3 => Self::Clock,
            4 => Self::Gap,
            5 => Self::Fetch,
            7 => Self::Final(Slot(subject)),
            8 => Self::Fill(Slot(subject)),
            9 => Self::Asks,
            _ => Self::Look,
        }
    }
}
