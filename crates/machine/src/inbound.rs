//! What peers sent and nobody has looked at. To check a message costs far more than to send it, up
//! to tens of milliseconds for one with many certificates, so bytes are no measure of what a peer
//! may ask for: each gets as much time in a round as any other, and a peer that sends more waits
//! for the rounds to come. What it sends meanwhile is not read.

use bytes::Bytes;
use pentarchy_core::ids::MemberId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The time that the messages of one peer may take in one round. The one that exceeds it is the
/// last. Well below any timeout, for as many liars as a group may have.
const SHARE: Duration = Duration::from_millis(4);

/// What was found of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It was taken, or refused for a reason that others may have to do with.
    Taken,
    /// The peer said it, and it is not authentic: nobody else can have had a hand in that.
    Forged,
}

/// Messages of peers, in the order in which they came. Of each peer no more than was read at once.
#[derive(Default)]
pub struct Inbound {
    waiting: BTreeMap<MemberId, VecDeque<Bytes>>,
}

impl Inbound {
    /// Takes in what was read of a peer. `is_new`: on a connection that takes the place of the one
    /// before. What the peer said there is lost with it: a peer that connects again and again must
    /// not fill the memory.
    pub fn take(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool) {
        let waiting = self.waiting.entry(peer).or_default();
        if is_new {
            waiting.clear();
        }
        waiting.extend(messages);
    }

    /// Whether something of a peer waits, so that no more is to be read of it.
    pub fn has(&self, peer: MemberId) -> bool {
        self.waiting.get(&peer).is_some_and(|waiting| !waiting.is_empty())
    }

    /// What others than these said is never looked at.
    pub fn retain(&mut self, stays: impl Fn(MemberId) -> bool) {
        self.waiting.retain(|member, _| stays(*member));
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.values().all(VecDeque::is_empty)
    }

    /// Gives every peer its share of a round, by this clock of what `to` is. Of a peer that forges,
    /// nothing else is looked at; these peers are given back.
    pub fn deliver<T, E>(
        &mut self,
        to: &mut T,
        mut clock: impl FnMut(&mut T) -> Duration,
        mut take: impl FnMut(&mut T, MemberId, &Bytes) -> Result<Heard, E>,
    ) -> Result<BTreeSet<MemberId>, E> {
        let mut forgers = BTreeSet::new();
        for (peer, waiting) in &mut self.waiting {
            let Some(mut message) = waiting.pop_front() else { continue };
            let begun = clock(to);
            loop {
                if take(to, *peer, &message)? == Heard::Forged {
                    waiting.clear();
                    forgers.insert(*peer);
                }
                if clock(to).saturating_sub(begun) >= SHARE {
                    break;
                }
                let Some(next) = waiting.pop_front() else { break };
                message = next;
            }
        }
        Ok(forgers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIAR: MemberId = MemberId(1);
    const OTHER: MemberId = MemberId(2);

    /// Has so many messages of each wait, and delivers a round in which each takes a millisecond.
    /// Gives how many of each were looked at.
    fn round(inbound: &mut Inbound, found: Heard) -> ([usize; 2], BTreeSet<MemberId>) {
        let mut of_each = [0; 2];
        let clock =
            |of_each: &mut [usize; 2]| Duration::from_millis((of_each[0] + of_each[1]) as u64);
        let forgers = inbound.deliver(&mut of_each, clock, |of_each, peer, _| {
            of_each[peer.0 as usize - 1] += 1;
            Ok::<_, ()>(if peer == LIAR { found } else { Heard::Taken })
        });
        (of_each, forgers.unwrap())
    }

    fn filled() -> Inbound {
        let mut inbound = Inbound::default();
        let messages = |count| std::iter::repeat_n(Bytes::from_static(b"x"), count);
        inbound.take(LIAR, messages(10), false);
        inbound.take(OTHER, messages(2), false);
        inbound
    }

    #[test]
    fn who_sends_much_waits_and_nobody_else_does() {
        let mut inbound = filled();
        let expected = [[4, 2], [4, 0], [2, 0], [0, 0]];
        for looked_at in expected {
            assert_eq!(round(&mut inbound, Heard::Taken), (looked_at, BTreeSet::new()));
            assert!(!inbound.has(OTHER));
        }
        assert!(inbound.is_empty() && !inbound.has(LIAR));
    }

    #[test]
    fn of_a_forger_nothing_else_is_looked_at() {
        let mut inbound = filled();
        let forgers: BTreeSet<MemberId> = [LIAR].into_iter().collect();
        assert_eq!(round(&mut inbound, Heard::Forged), ([1, 2], forgers));
        assert!(inbound.is_empty());
    }

    #[test]
    fn who_connects_again_and_again_waits_with_what_it_said_last() {
        let mut inbound = filled();
        (0..5).for_each(|_| inbound.take(LIAR, std::iter::repeat_n(Bytes::new(), 3), true));
        assert_eq!(inbound.waiting[&LIAR].len(), 3);
    }
}
