//! How often a member's device was replaced, and how long it has to wait for the next time.

use crate::ids::Millis;
use crate::limits::{ADMISSION_DOUBLINGS_MAX, ADMISSION_INTERVAL_MILLIS};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};

/// The longest wait between two admissions of one member, and the time after which one of them no
/// longer counts.
const FORGIVEN_MILLIS: u64 = ADMISSION_INTERVAL_MILLIS << ADMISSION_DOUBLINGS_MAX;

/// How often a member was admitted, as far as it still counts, and when it was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Admitted {
    /// Of the last admission, by agreed time.
    at: Millis,
    /// Admissions up to that one, without those that were forgiven by then; at most one more than
    /// the wait may be doubled.
    count: u8,
}

impl Admitted {
    /// Admissions that still count: one fewer for each time without another one that is as long as
    /// the longest wait.
    fn counting(&self, now: Millis) -> u8 {
        let forgiven = now.0.saturating_sub(self.at.0) / FORGIVEN_MILLIS;
        self.count.saturating_sub(u8::try_from(forgiven).unwrap_or(u8::MAX))
    }

    /// Whether the member has waited for long enough to be admitted once more: twice as long as
    /// before the last admission.
    pub fn has_waited(&self, now: Millis) -> bool {
        let Some(doublings) = self.counting(now).checked_sub(1) else { return true };
        let doublings = if mutant!("roster.wait-stays") { 0 } else { doublings };
        now.0.saturating_sub(self.at.0) >= ADMISSION_INTERVAL_MILLIS << doublings
    }

    /// After one more admission.
    pub fn next(&self, now: Millis) -> Self {
        let most = ADMISSION_DOUBLINGS_MAX + 1;
        Self { at: now, count: self.counting(now).saturating_add(1).min(most) }
    }
}

impl Wire for Admitted {
    fn encode(&self, to: &mut Writer) {
        self.at.encode(to);
        to.u8(self.count);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let admitted = Self { at: Millis::decode(from)?, count: from.u8()? };
        let possible = admitted.count <= ADMISSION_DOUBLINGS_MAX + 1;
        possible.then_some(admitted).ok_or(Malformed)
    }
}
