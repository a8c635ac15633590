//! Giving numbers up. An application that waits no longer must know whether its request can still
//! run. So the number is asked for once more, of everyone, with a fence for its operation
//! ([`FENCE`]): whichever of the two is ordered first settles the number, and replicas tell which
//! by its outcome, as they tell every outcome. Nobody need have seen the request for that.
//!
//! * A replica where the request waits takes no fence for it: of two envelopes that claim a number
//!   the first stays. So what can be ordered is, and what cannot is not in the way of its fence.
//! * Whatever was sent is sent again until it is settled, given up or not: other requests may be in
//!   the same envelope.
//! * What was not sent is complete at once, and so is a query, which changes nothing. What an
//!   earlier core of the client may have sent, to former members, is sent and fenced.
//!
//! The cost is bounded: a number is fenced once, and at most [`CLIENT_FENCES_MAX`] envelopes of
//! fences are under way, each of a few bytes for each number.

use super::{
    Bytes, Draft, ENVELOPE_REQUESTS_MAX, Effect, Outcome, Pending, Request, Vec, VecDeque,
    VotingClient,
};
use pentarchy_core::limits::{CLIENT_FENCES_MAX, ENVELOPE_INLINE_BYTES};
use pentarchy_core::mutant;
use pentarchy_core::request::FENCE;

/// Numbers in one envelope of fences: it is ordered whole, by whoever is primary.
const NUMBERS_MAX: usize = {
    let fitting = (ENVELOPE_INLINE_BYTES - 64) / (Draft::REQUEST_HEADER_BYTES + FENCE.len());
    if fitting < ENVELOPE_REQUESTS_MAX { fitting } else { ENVELOPE_REQUESTS_MAX }
};

impl VotingClient {
    /// The application waits no longer for a number.
    pub(super) fn on_give_up(&mut self, number: u64, out: &mut Vec<Effect>) {
        let may_be_sent = number < self.sent_below && !mutant!("client.forgets-what-was-sent");
        match self.pending.get(&number) {
            Some(Pending::Waiting(_) | Pending::Asked { .. }) if may_be_sent => {
                self.order_query(number);
                if !self.given_up.contains(&number) {
                    self.given_up.push_back(number);
                }
            }
            Some(Pending::Waiting(_) | Pending::Asked { .. }) => {
                self.pending.remove(&number);
                out.push(Effect::Completed { number, outcome: Outcome::GivenUp });
            }
            Some(Pending::Sent { fence: None, .. }) if !self.given_up.contains(&number) => {
                self.given_up.push_back(number);
            }
            Some(Pending::Sent { .. }) | None => {}
        }
    }

    /// Sends fences for what was given up and is sent, as far as their envelopes go.
    pub(super) fn send_fences(&mut self, out: &mut Vec<Effect>) {
        let pending = &self.pending;
        let waits = |number: &u64| matches!(pending.get(number), Some(Pending::Waiting(_)));
        let (waiting, sent): (VecDeque<u64>, VecDeque<u64>) =
            core::mem::take(&mut self.given_up).into_iter().partition(waits);
        self.given_up = sent;
        while !self.given_up.is_empty() && self.fences < CLIENT_FENCES_MAX {
            let mut requests = Vec::new();
            while requests.len() < NUMBERS_MAX
                && let Some(number) = self.given_up.pop_front()
            {
                // It may be settled meanwhile.
                if let Some(Pending::Sent { fence, .. }) = self.pending.get_mut(&number) {
                    *fence = Some(self.next_draft);
                    requests.push(Request { number, operation: Bytes::from_static(FENCE) });
                }
            }
            if !requests.is_empty() {
                requests.sort_unstable_by_key(|request| request.number);
                self.fences += 1;
                self.send_to(self.replicas, requests, true, out);
            }
        }
        self.given_up.extend(waiting);
    }
}
