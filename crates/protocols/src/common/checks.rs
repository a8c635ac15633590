//! Checks of what others say that need no replica state.

use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verifier;
use pentarchy_core::batch::Proposal;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::{BATCH_INLINE_BYTES, BATCH_REQUESTS_MAX, REPLICAS_MAX};
use pentarchy_core::protocol::Reject;
use pentarchy_core::request::Envelope;

/// The highest slot that at least `f + 1` of these reach; 0 if there are fewer.
#[must_use]
pub fn vouched(slots: impl Iterator<Item = Slot>, f: usize) -> Slot {
    let (mut highest, mut count) = ([Slot(0); REPLICAS_MAX], 0);
    for (place, slot) in highest.iter_mut().zip(slots) {
        *place = slot;
        count += 1;
    }
    let highest = &mut highest[..count];
    highest.sort_unstable();
    highest.iter().rev().nth(f).copied().unwrap_or_default()
}

/// Checks that each of these was made by its client.
///
/// # Errors
/// [`Reject::BadRequest`] if one was not.
pub fn requests<'a>(
    verifier: &dyn Verifier,
    envelopes: impl Iterator<Item = &'a Arc<Envelope>>,
) -> Result<(), Reject> {
    let envelopes: Vec<&Envelope> = envelopes.map(|envelope| &**envelope).collect();
    if verifier.envelopes(&envelopes) { Ok(()) } else { Err(Reject::BadRequest) }
}

/// What every correct primary keeps to, whatever else the batch names.
///
/// # Errors
/// The first bound that is broken, or [`Reject::BadRequest`].
pub fn batch(verifier: &dyn Verifier, proposal: &Proposal) -> Result<(), Reject> {
    let inline: usize = proposal.whole().map(|envelope| envelope.len()).sum();
    let requests_whole: usize = proposal.whole().map(|envelope| envelope.requests.len()).sum();
    let too_much = inline > BATCH_INLINE_BYTES || requests_whole > BATCH_REQUESTS_MAX;
    if too_much || proposal.repeats_itself() || proposal.whole().any(|envelope| envelope.is_large())
    {
        return Err(Reject::OutOfBounds);
    }
    requests(verifier, proposal.whole())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fewer_than_f_plus_one_say_does_not_count() {
        let vouched = |slots: &[u64], f| vouched(slots.iter().copied().map(Slot), f).0;
        assert_eq!(vouched(&[], 1), 0);
        assert_eq!(vouched(&[u64::MAX], 1), 0, "one liar");
        assert_eq!(vouched(&[7, u64::MAX], 1), 7);
        assert_eq!(vouched(&[u64::MAX, 3, 9, u64::MAX], 2), 9);
        assert_eq!(vouched(&[5], 0), 5);
    }
}
