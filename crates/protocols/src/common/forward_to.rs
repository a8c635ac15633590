//! Whom a primary leaves out. Others pass its proposals on.

/// Ticks for which a peer that lacked a proposal is shown every further one at once. A primary that
/// leaves somebody out would else cost the group a repair for each slot.
const SHOW_TICKS: u64 = 20;

/// The same, at most. It doubles each time that the peer lacks one again soon after, because to
/// find that out takes a repair, and may take the transfer of a state.
const SHOW_TICKS_MAX: u64 = SHOW_TICKS << 10;

/// Whether a peer is shown every proposal at once, because it was left out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ForwardTo {
    /// Up to this tick.
    until: u64,
    /// For how long after it lacked one the last time.
    ticks: u64,
}

impl ForwardTo {
    /// The peer was found to lack one in this tick.
    pub fn lacked(&mut self, now: u64) {
        if now >= self.until + self.ticks {
            self.ticks = SHOW_TICKS;
        } else if now >= self.until {
            self.ticks = (2 * self.ticks).min(SHOW_TICKS_MAX);
        }
        self.until = now + self.ticks;
    }

    /// Whether it is shown every one in this tick.
    #[must_use]
    pub const fn is_on(&self, now: u64) -> bool {
        self.until > now
    }
}
