//! What a replica has seen of each of the others, for an operator who asks which one to suspect and
//! whether the group can go on. No protocol decides by it.

use pentarchy_core::ids::MemberId;
use std::collections::{BTreeMap, BTreeSet};

/// What happens is counted in periods of so many milliseconds: the present one and the one before
/// count.
const PERIOD_MS: u64 = 10_000;

/// A replica that wants to be admitted asks five times a second. One that has not asked for so many
/// milliseconds does not ask any more.
const ASKED_MS: u64 = 10_000;

/// How often something happened lately, by the peer to which it is due.
#[derive(Clone, Default)]
pub struct Lately(BTreeMap<MemberId, Recent>);

/// A count of the present period and of the one before.
#[derive(Clone, Copy, Default)]
struct Recent {
    period: u64,
    before: u64,
    present: u64,
}

impl Recent {
    const fn at(self, period: u64) -> Self {
        if period == self.period {
            self
        } else if period == self.period + 1 {
            Self { period, before: self.present, present: 0 }
        } else {
            Self { period, before: 0, present: 0 }
        }
    }
}

impl Lately {
    /// Only these count any more.
    pub fn retain(&mut self, stays: impl Fn(MemberId) -> bool) {
        self.0.retain(|member, _| stays(*member));
    }

    /// It happened.
    pub fn add(&mut self, peer: MemberId, now_ms: u64) {
        let recent = self.0.entry(peer).or_default();
        *recent = recent.at(now_ms / PERIOD_MS);
        recent.present += 1;
    }

    /// How often, in the last 10 seconds at least and 20 at most, for each peer with any.
    pub fn counts(&self, now_ms: u64) -> BTreeMap<u32, u64> {
        let counts = self.0.iter().map(|(peer, recent)| {
            let Recent { before, present, .. } = recent.at(now_ms / PERIOD_MS);
            (peer.0, before + present)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// When each of the others was last heard, and when each member last asked to be admitted as a new
/// life.
#[derive(Default)]
pub struct Others {
    heard_ms: BTreeMap<MemberId, u64>,
    asked_ms: BTreeMap<MemberId, u64>,
    is_lost: bool,
    /// Those that said so far that they have another configuration.
    otherwise_configured: BTreeSet<MemberId>,
}

impl Others {
    /// A peer said that it has another configuration than this replica. Whether it is the first
    /// time.
    pub fn on_other_configuration(&mut self, peer: MemberId) -> bool {
        self.otherwise_configured.insert(peer)
    }

    /// Something came from a peer.
    pub fn on_message(&mut self, peer: MemberId, now_ms: u64) {
        self.heard_ms.insert(peer, now_ms);
    }

    /// A member, which may be this replica, asks to be admitted in the present epoch.
    pub fn on_asked(&mut self, member: MemberId, now_ms: u64) {
        self.asked_ms.insert(member, now_ms);
    }

    /// A member that was not admitted in the epoch before asks again. Of others than the epoch's
    /// members nothing is remembered. Nobody waited before now for those that came.
    pub fn begin_epoch(
        &mut self,
        stays: impl Fn(MemberId) -> bool,
        came: impl Iterator<Item = MemberId>,
        now_ms: u64,
    ) {
        self.heard_ms.retain(|member, _| stays(*member));
        self.heard_ms.extend(came.map(|member| (member, now_ms)));
        self.asked_ms.clear();
        self.is_lost = false;
        self.otherwise_configured.clear();
    }

    /// Milliseconds since something came from each of these; since the start, if nothing has.
    pub fn silent_ms(
        &self,
        others: impl Iterator<Item = MemberId>,
        now_ms: u64,
    ) -> BTreeMap<u32, u64> {
        let heard = |peer: &MemberId| self.heard_ms.get(peer).copied().unwrap_or(0);
        others.map(|peer| (peer.0, now_ms.saturating_sub(heard(&peer)))).collect()
    }

    /// The members that have lost what they promised and ask to be admitted as new incarnations.
    pub fn asking(&self, now_ms: u64) -> Vec<u32> {
        let asked = self.asked_ms.iter();
        let asking = asked.filter(|(_, at)| now_ms.saturating_sub(**at) < ASKED_MS);
        asking.map(|(member, _)| member.0).collect()
    }

    /// Whether that was so when it was last looked at.
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether more than `f` members ask: those that are left are too few to admit anybody. Each of
    /// those that ask has lost its memory or lies about it, so more than `f` are faulty. True if
    /// that is news.
    pub fn look(&mut self, f: usize, now_ms: u64) -> bool {
        let is_lost = self.asking(now_ms).len() > f;
        let is_news = is_lost && !self.is_lost;
        self.is_lost = is_lost;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);

    #[test]
    fn what_happened_long_ago_does_not_count() {
        let mut refused = Lately::default();
        refused.add(A, 1);
        refused.add(A, PERIOD_MS);
        refused.add(B, 2 * PERIOD_MS);
        assert_eq!(refused.counts(PERIOD_MS), BTreeMap::from([(1, 2)]));
        assert_eq!(refused.counts(2 * PERIOD_MS), BTreeMap::from([(1, 1), (2, 1)]));
        assert_eq!(refused.counts(4 * PERIOD_MS), BTreeMap::new());
    }

    #[test]
    fn a_group_is_lost_while_more_than_f_ask_to_be_admitted() {
        let mut others = Others::default();
        others.on_asked(A, 0);
        assert!(!others.look(1, 0) && !others.is_lost());
        others.on_asked(B, 100);
        assert!(others.look(1, 100) && others.is_lost());
        assert!(!others.look(1, 200) && others.is_lost(), "it is news once");
        assert!(!others.look(2, 200) && !others.is_lost());
        assert!(!others.look(1, ASKED_MS) && !others.is_lost(), "the first one asks no more");
        others.on_asked(A, ASKED_MS);
        others.begin_epoch(|_| true, [].into_iter(), 0);
        assert!(!others.look(1, ASKED_MS) && !others.is_lost());
    }

    #[test]
    fn silence_is_counted_from_the_last_message_or_from_the_start() {
        let mut others = Others::default();
        others.on_message(A, 400);
        let silent = others.silent_ms([A, B].into_iter(), 1_000);
        assert_eq!(silent, BTreeMap::from([(1, 600), (2, 1_000)]));
        const C: MemberId = MemberId(3);
        others.begin_epoch(|member| member != A, [C].into_iter(), 5_000);
        let silent = others.silent_ms([A, B, C].into_iter(), 6_000);
        assert_eq!(silent, BTreeMap::from([(1, 6_000), (2, 6_000), (3, 1_000)]));
    }
}
