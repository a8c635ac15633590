//! What comes out of a replica.

use crate::observation::Observation;
use crate::packet::{Address, Packet};
use pentarchy_core::protocol::{Delay, TimerKey};

/// What a replica does.
pub enum Act {
    /// Sends a packet.
    Send {
        /// To whom.
        to: Address,
        /// What.
        packet: Packet,
    },
    /// Arms a timer, replacing one of the same name.
    Arm {
        /// Which.
        timer: TimerKey,
        /// For how long.
        after: Delay,
    },
    /// Stops a timer.
    Disarm(TimerKey),
    /// Stops all timers: they are of an epoch that is over, and none of them fires late.
    DisarmAll,
    /// Does not listen to somebody for a moment.
    Pause {
        /// To whom.
        whom: Address,
        /// It sent many times its share, or forges. If it goes on, the next moment is longer.
        is_flood: bool,
    },
    /// Lets checkers and traces know.
    Saw(Observation),
}
