//! Requests for a view change: who asks for which view. `f + 1` who ask make everybody leave for
//! it, so that neither a liar nor one slow replica can depose a primary, and nobody leaves alone.
//! Asking for a view asks for every lower one too, or replicas that time out at different moments
//! might never agree on a number.
//!
//! A signed ask convinces whoever is shown it that it was said, and not that it still is: a liar
//! could keep those of correct replicas, and play them when it likes. So in a view that works an
//! ask counts only for a while after its author *itself* said so, or if its author has left. What
//! others show is needed for the proof that a VIEW-CHANGE carries. See decision 7.

use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::mutant;

/// Times that asks grow older until one that is heard no more counts no more. Whoever asks repeats
/// it at its ticks, and answers with it to reports; a replica with nothing open has no ticks, so
/// the age of asks has its own timer.
pub const ASK_AGE_MAX: u64 = 4;

/// Ticks after which asks grow older: half a second.
pub const ASK_AGE_TICKS: u8 = 10;

/// Ticks for which a replica has to show that it left, before it is followed although too few stand
/// by their asks. A correct one may have left by asks that were withdrawn meanwhile; a liar, too,
/// can show such asks.
const PATIENCE_TICKS: u64 = 40;

/// How often that doubles for a replica that was followed so.
const DOUBLINGS_MAX: u8 = 2;

/// What each replica asked for, and what this one may ask again. `M` is a protocol's message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewRequests<M> {
    me: ReplicaId,
    /// One entry for each replica.
    replicas: Vec<Asked>,
    /// How often asks have grown older.
    age: u64,
    /// Whether the timer runs by which they grow older.
    is_timed: bool,
    /// The highest view for which this replica asks.
    asked: Option<View>,
    /// Whether it decided to ask by itself: hand-written schedules have it ask for no reason.
    has_reason: bool,
    /// Its request, once that has come back, to send again.
    own: Option<Verified<M>>,
    /// The view for which it asked last, of the asks that it withdrew: one that comes back later
    /// does not count.
    withdrawn: View,
}

/// What one replica asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Asked {
    /// The highest view for which its signature is here, that, and the age at which it came.
    signed: Option<(View, Signature, u64)>,
    /// The highest view for which it asked itself, and the age at which it last said so.
    stands: Option<(View, u64)>,
    /// The highest view for which it left.
    left: View,
    /// From which tick to which it showed that it left for a view above this replica's.
    shown: Option<(u64, u64)>,
    /// How often it was followed alone.
    followed: u8,
}

impl Asked {
    /// The view for which it asks, or for which it has left.
    fn wants(&self) -> View {
        self.stands.map_or(View(0), |(view, _)| view).max(self.left)
    }
}

impl<M> ViewRequests<M> {
    /// Nobody of `n` replicas has asked.
    #[must_use]
    pub fn new(me: ReplicaId, n: usize) -> Self {
        Self {
            me,
            replicas: vec![Asked::default(); n],
            age: 0,
            is_timed: false,
            asked: None,
            has_reason: false,
            own: None,
            withdrawn: View(0),
        }
    }

    /// This replica has a reason to ask for a view. Whether it is to say so: it may have asked for
    /// that, or a higher one, already. What others show of it does not count: it may be an ask that
    /// was withdrawn, or one from before a crash, which nobody repeats.
    pub fn start_asking(&mut self, view: View) -> bool {
        let is_new = self.asked < Some(view);
        if is_new {
            (self.asked, self.has_reason) = (Some(view), true);
        }
        is_new
    }

    /// Whether this replica no longer asks for a view when its request for that comes back.
    #[must_use]
    pub fn has_withdrawn(&self, view: View) -> bool {
        self.asked.is_none() && view <= self.withdrawn
    }

    /// A request of this replica came back.
    pub fn came_back(&mut self, request: Verified<M>, view: View) {
        self.own = Some(request);
        self.asked = self.asked.max(Some(view));
    }

    /// Whether this replica asks for a view.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Whether this replica asks for a view above this one.
    #[must_use]
    pub fn asks_above(&self, view: View) -> bool {
        self.asked > Some(view)
    }

    /// The request to send again to whoever is in this view.
    #[must_use]
    pub fn to_repeat(&self, view: View) -> Option<&Verified<M>> {
        self.own.as_ref().filter(|_| self.asks_above(view))
    }

    /// This replica no longer asks for another view.
    pub fn withdraw(&mut self) {
        if let Some(asked) = self.asked.take() {
            (self.own, self.withdrawn, self.has_reason) = (None, asked, false);
            let me = self.me;
            let entry = self.entry(me);
            (entry.signed, entry.stands) = (None, None);
        }
    }

    fn entry(&mut self, id: ReplicaId) -> &mut Asked {
        &mut self.replicas[usize::from(id.0)]
    }

    /// Somebody shows that a replica asked.
    pub fn show(&mut self, author: ReplicaId, view: View, signature: Signature) {
        let now = self.age;
        let signed = &mut self.entry(author).signed;
        match signed {
            Some((before, _, at)) if *before >= view => *at = now,
            _ => *signed = Some((view, signature, now)),
        }
    }

    /// A VIEW-CHANGE shows by whose requests its author left. Of those whom it names, who stands by
    /// that says so itself.
    pub fn show_all(&mut self, requests: &[(ReplicaId, (View, Signature))]) {
        for (author, (view, signature)) in requests {
            self.show(*author, *view, *signature);
        }
    }

    /// A replica itself asks.
    pub fn hear(&mut self, author: ReplicaId, view: View, signature: Signature) {
        self.show(author, view, signature);
        let now = self.age;
        let stands = &mut self.entry(author).stands;
        let before = stands.map_or(View(0), |(before, _)| before);
        *stands = Some((before.max(view), now));
    }

    /// A replica has left for a view. It cannot come back.
    pub fn leaves(&mut self, author: ReplicaId, view: View) {
        let left = &mut self.entry(author).left;
        *left = view.max(*left);
    }

    /// The highest view for which a replica itself asks.
    #[must_use]
    pub fn of(&self, id: ReplicaId) -> Option<View> {
        self.replicas[usize::from(id.0)].stands.map(|(view, _)| view)
    }

    /// The highest view that this many replicas ask for, as far as can be shown to others. Whoever
    /// is in no view that works has nothing to lose, and takes `any` ask that was signed.
    #[must_use]
    pub fn wanted_by(&self, count: usize, any: bool) -> Option<View> {
        let signed = self.replicas.iter().flat_map(|it| it.signed).map(|(view, ..)| view);
        let signed = nth_highest(signed.collect(), count)?;
        if any {
            return Some(signed);
        }
        let wanted = nth_highest(self.replicas.iter().map(Asked::wants).collect(), count)?;
        Some(wanted.min(signed))
    }

    /// Asks for a view or a higher one, at most this many.
    #[must_use]
    pub fn proof(&self, view: View, count: usize) -> Vec<(ReplicaId, (View, Signature))> {
        let asked = (0u16..).map(ReplicaId).zip(&self.replicas);
        asked
            .filter_map(|(id, it)| {
                let (asked, signature, _) = it.signed.filter(|(asked, ..)| *asked >= view)?;
                Some((id, (asked, signature)))
            })
            .take(count)
            .collect()
    }

    /// Whether a replica has shown for long enough that it left for a view above this replica's. It
    /// does so again in this tick.
    pub fn is_left_behind(&mut self, author: ReplicaId, tick: u64) -> bool {
        let entry = self.entry(author);
        let goes_on = entry.shown.filter(|(_, last)| tick <= last + PATIENCE_TICKS);
        let since = goes_on.map_or(tick, |(since, _)| since);
        entry.shown = Some((since, tick));
        let is_over = tick >= since + (PATIENCE_TICKS << entry.followed);
        if is_over {
            entry.followed = DOUBLINGS_MAX.min(entry.followed + 1);
        }
        is_over
    }

    /// Whether to arm the timer by which asks grow older, so that what others ask for is forgotten
    /// once they no longer do, also if nothing is open and this replica does not tick. Its own ask
    /// may end so too, if it is for a slow primary.
    pub fn start_timer(&mut self, is_slow: bool) -> bool {
        let asks = |it: &Asked| it.signed.is_some() || it.stands.is_some();
        let mut all = (0u16..).map(ReplicaId).zip(&self.replicas);
        let starts = !self.is_timed
            && (self.is_asking() && is_slow || all.any(|(id, it)| id != self.me && asks(it)));
        self.is_timed |= starts;
        starts
    }

    /// That timer ran out: asks have grown older. In the seeded bug only those of a replica whose
    /// ticks go on.
    pub fn timer_expired(&mut self, ticks: bool) {
        self.is_timed = false;
        if ticks || !mutant!("frame.asks-outlast-quiet") {
            self.age += 1;
        }
    }

    /// Forgets what others asked for and no longer do: those who still want another view say so
    /// again. A suspicion that has passed must not add up with a new one to a quorum.
    pub fn expire(&mut self) {
        let (me, now) = (self.me, self.age);
        let is_old = |heard: u64| now > heard + ASK_AGE_MAX;
        let others = (0u16..).map(ReplicaId).zip(&mut self.replicas).filter(|(id, _)| *id != me);
        for (_, it) in others {
            it.signed = it.signed.filter(|(.., heard)| !is_old(*heard));
            it.stands = it.stands.filter(|(_, heard)| !is_old(*heard));
        }
    }

    /// This replica entered a view: who asked for that, or for a lower one, has it. And this
    /// replica may have asked for the view behind, because this one was late.
    pub fn view_entered(&mut self, view: View) {
        self.grant(view);
        self.expire();
        if !self.asks_above(view) || !mutant!("frame.ask-outlives-entry") {
            self.withdraw();
        }
    }

    fn grant(&mut self, view: View) {
        for it in &mut self.replicas {
            it.signed = it.signed.filter(|(asked, ..)| *asked > view);
            it.stands = it.stands.filter(|(asked, _)| *asked > view);
            it.shown = None;
        }
    }

    /// Asserts, of a view that works, that this replica asks for another one only for as long as it
    /// has a reason to, and that it will find the primary slow no longer than it can see that.
    pub fn assert_end(&self, has_reason: bool, is_slow: bool) {
        if self.asked.is_some() && self.has_reason {
            assert!(has_reason, "asks for another view for no reason");
            assert!(!is_slow || self.is_timed, "an objection has no end");
        }
    }
}

fn nth_highest(mut views: Vec<View>, count: usize) -> Option<View> {
    views.sort_unstable_by(|a, b| b.cmp(a));
    views.get(count.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: Signature = Signature([0; 64]);

    /// Of r0 among so many replicas.
    fn requests(n: usize) -> ViewRequests<()> {
        ViewRequests::new(ReplicaId(0), n)
    }

    #[test]
    fn an_own_request_that_comes_back_after_it_was_withdrawn_does_not_count() {
        let mut asks = requests(3);
        assert!(
            asks.start_asking(View(2)) && asks.asks_above(View(1)) && !asks.asks_above(View(2))
        );
        assert!(!asks.has_withdrawn(View(2)));
        asks.withdraw();
        assert!(asks.has_withdrawn(View(2)) && !asks.has_withdrawn(View(3)) && !asks.is_asking());
    }

    #[test]
    fn the_timer_runs_while_others_ask_or_the_own_ask_is_for_a_slow_primary() {
        let mut asks = requests(3);
        asks.hear(ReplicaId(0), View(1), SIGNED);
        assert!(!asks.start_timer(true), "somebody else played an ask of this replica");
        asks.start_asking(View(1));
        assert!(!asks.start_timer(false) && asks.start_timer(true) && !asks.start_timer(true));
        asks.timer_expired(true);
        asks.hear(ReplicaId(1), View(1), SIGNED);
        assert!(asks.start_timer(false));
    }

    #[test]
    fn to_ask_for_a_view_is_to_ask_for_every_lower_one() {
        let mut asks = requests(4);
        asks.hear(ReplicaId(0), View(5), SIGNED);
        asks.hear(ReplicaId(0), View(3), SIGNED);
        asks.hear(ReplicaId(2), View(4), SIGNED);
        let wanted = |count| asks.wanted_by(count, false);
        assert_eq!((wanted(1), wanted(2)), (Some(View(5)), Some(View(4))));
        assert_eq!(asks.wanted_by(3, true), None);
        assert_eq!(asks.proof(View(4), 3).len(), 2);
        assert_eq!(asks.proof(View(5), 3).len(), 1);
        assert!(asks.start_asking(View(5)) && !asks.start_asking(View(4)));
        asks.withdraw();
        assert_eq!((asks.of(ReplicaId(0)), asks.wanted_by(1, false)), (None, Some(View(4))));
    }

    #[test]
    fn what_is_no_longer_said_is_forgotten() {
        let mut asks = requests(3);
        for id in 0..3 {
            asks.hear(ReplicaId(id), View(1), SIGNED);
            asks.timer_expired(true);
        }
        // r1 asked at age 1.
        (3..=ASK_AGE_MAX).for_each(|_| asks.timer_expired(true));
        asks.expire();
        assert_eq!(asks.wanted_by(3, false), Some(View(1)));
        asks.timer_expired(true);
        asks.expire();
        let left = [0, 1, 2].map(|id| asks.of(ReplicaId(id)).is_some());
        assert_eq!(left, [true, false, true]);
        asks.grant(View(1));
        assert!(asks.of(ReplicaId(2)).is_none() && asks.wanted_by(1, true).is_none());
    }

    #[test]
    fn what_others_show_proves_and_does_not_count() {
        let mut asks = requests(3);
        asks.hear(ReplicaId(0), View(1), SIGNED);
        asks.show(ReplicaId(1), View(1), SIGNED);
        assert_eq!((asks.wanted_by(2, true), asks.proof(View(1), 2).len()), (Some(View(1)), 2));
        assert_eq!(asks.wanted_by(2, false), Some(View(0)));
        // Who has left stands by it.
        asks.leaves(ReplicaId(1), View(2));
        assert_eq!(asks.wanted_by(2, false), Some(View(1)));
    }

    #[test]
    fn who_left_alone_is_followed_after_a_while_and_then_after_longer() {
        let mut asks = requests(3);
        let mut followed =
            |from: u64| (from..).find(|tick| asks.is_left_behind(ReplicaId(1), *tick));
        let after = |from, followed: Option<u64>| followed.expect("sooner or later") - from;
        let waits = [1_000, 2_000, 3_000, 4_000].map(|from| after(from, followed(from)));
        assert_eq!(waits, [1, 2, 4, 4].map(|times| times * PATIENCE_TICKS));
    }
}
