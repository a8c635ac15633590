//! What a backup holds against the primary: that it is slower than can be expected
//! ([`super::pace`]), that it was proven to lie, or that it orders otherwise than this replica
//! executed. Says when to look at what waits, when to judge, and what comes of it. A backup that
//! suspects the primary asks for the next view.

use super::fill_demands::FillDemands;
use super::pace::{Demand, LOOK_MILLIS, Opinion, Pace, Work};
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::mutant;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PrimaryMonitor {
    me: ReplicaId,
    pace: Pace,
    /// When the running timer for the next look was set.
    looked: Option<Millis>,
    /// The slots that the primary is to fill, and since when it can.
    fill_demands: FillDemands,
    /// When something was last seen of the pace of this view's primary, and how often asks have
    /// grown older since.
    unseen: (Option<Millis>, u64),
    /// Whether the order that this replica executed, and that of the primary or of a quorum, differ
    /// in this view.
    has_other_order: bool,
    /// Who was proven to lie.
    liars: ReplicaSet,
}

impl PrimaryMonitor {
    /// Nothing is held against any of `n` replicas, of which `f` may be faulty.
    #[must_use]
    pub fn new(me: ReplicaId, n: usize, f: usize) -> Self {
        Self {
            me,
            pace: Pace::new(n, f),
            looked: None,
            fill_demands: FillDemands::default(),
            unseen: (None, 0),
            has_other_order: false,
            liars: ReplicaSet::EMPTY,
        }
    }

    /// Whether something is held against this primary.
    #[must_use]
    pub fn suspects(&self, primary: ReplicaId) -> bool {
        self.is_slow() || self.has_other_order || self.is_led_by_liar(primary)
    }

    /// Whether the primary is slow.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// Whether another replica is this primary, and was proven to lie.
    #[must_use]
    pub fn is_led_by_liar(&self, primary: ReplicaId) -> bool {
        primary != self.me && self.is_liar(primary)
    }

    /// Whether a replica was proven to lie.
    #[must_use]
    pub const fn is_liar(&self, id: ReplicaId) -> bool {
        self.liars.contains(id)
    }

    /// A replica was proven to lie. It is not to lead in this epoch.
    pub fn note_liar(&mut self, liar: ReplicaId) {
        self.liars.insert(liar);
    }

    /// The order of the primary, or of a quorum, is not what this replica executed.
    pub fn note_other_order(&mut self) {
        self.has_other_order = !mutant!("frame.other-order-forgotten");
    }

    /// Whether to look at what waits, and pass on to the primary what waited at the last look too:
    /// with how much has been executed by then.
    pub fn begin_look(&mut self, now: Millis) -> Option<Work> {
        let is_due = self.looked.is_none_or(|at| now.0 >= at.0 + u64::from(LOOK_MILLIS));
        is_due.then(|| {
            self.looked = None;
            self.pace.work()
        })
    }

    /// Something waits. Whether to arm the timer for the next look.
    pub fn start_look_timer(&mut self, now: Millis) -> bool {
        let starts = self.looked.is_none();
        self.looked = self.looked.or(Some(now));
        starts
    }

    /// That timer ran out. The round that follows knows what time it is.
    pub const fn look_timer_expired(&mut self) {
        self.looked = None;
    }

    /// A batch of this primary is executed.
    pub fn executed(&mut self, batch: &Batch, batch_requests: usize) {
        self.pace.executed(batch, batch_requests);
    }

    /// A core beside this one decided a batch: whoever fills slots here has that to do as well.
    pub fn executed_beside(&mut self, batch: &Batch, batch_requests: usize) {
        self.pace.executed_beside(batch, batch_requests);
    }

    /// An envelope of a client waits no longer, with what was demanded of the primary for it.
    pub fn settled(&mut self, client: ClientId, demand: Option<Demand>, now: Millis) {
        self.pace.note(client, demand, now);
    }

    /// Whether it is time to judge.
    pub fn is_due(&mut self, now: Millis) -> bool {
        self.pace.begin(now);
        self.pace.is_due(now)
    }

    /// Judges a primary. All of this is demanded of it, and has not come.
    pub fn judge(
        &mut self,
        primary: ReplicaId,
        demanded: impl Iterator<Item = (ClientId, Demand)>,
        now: Millis,
    ) -> Opinion {
        demanded.for_each(|(client, demand)| self.pace.note(client, Some(demand), now));
        if let Some(demand) = self.fill_demands.first().filter(|demand| demand.since <= now) {
            self.pace.note_filled(demand, now);
        }
        self.pace.judge(primary, now)
    }

    /// Whether [`Self::demand_slots`] would note anything.
    #[must_use]
    pub fn lacks_demands(&self, executed: Slot, room: Slot, heard: Slot) -> bool {
        let is_news = executed < heard && self.fill_demands.is_news(heard);
        is_news || !self.fill_demands.lacking(executed, room).is_empty()
    }

    /// Others wait for the slots up to `heard`, and the primary has room to fill those up to
    /// `room`.
    pub fn demand_slots(&mut self, executed: Slot, room: Slot, heard: Slot, now: Millis) {
        self.fill_demands.hear(heard, now);
        let slots = self.fill_demands.lacking(executed, room);
        self.fill_demands.demand(slots, now, self.pace.all_work());
    }

    /// Slots up to this one are executed.
    pub fn executed_upto(&mut self, executed: Slot, now: Millis) {
        while let Some(demand) = self.fill_demands.pop_filled(executed) {
            self.pace.note_filled(demand, now);
        }
    }

    /// Who is behind cannot tell which slots the primary has filled.
    pub fn forget_slots(&mut self) {
        self.fill_demands.clear();
    }

    /// Asks have grown older. Whether this replica no longer finds the primary slow, because it has
    /// seen nothing of its pace for more than this number of times. Otherwise a faulty replica
    /// could choose, in a quiet time of hours, when to add its ask. If the primary is slow again,
    /// it is suspected again. Whether this replica ticks does not matter: a faulty one could see to
    /// that.
    pub fn asks_grew_older(&mut self, primary: ReplicaId, times_max: u64) -> bool {
        let seen_at = self.pace.seen_at(primary);
        let (before, times) = self.unseen;
        self.unseen = (seen_at, if seen_at == before { times + 1 } else { 0 });
        let forgives = self.unseen.1 > times_max && self.is_slow();
        if forgives {
            self.pace.pause();
        }
        forgives
    }

    /// The view is over. What its primary did is not held against the next one.
    pub fn view_ended(&mut self, now: Millis) {
        self.pace.view_ended(now);
        self.has_other_order = false;
        self.fill_demands.clear();
    }

    /// Asserts that it stays bounded.
    pub fn assert_invariants(&self, window_slots: u64) {
        self.pace.assert_invariants();
        self.fill_demands.assert_invariants(window_slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: ReplicaId = ReplicaId(0);
    const P1: ReplicaId = ReplicaId(1);

    fn monitor() -> PrimaryMonitor {
        PrimaryMonitor::new(ReplicaId(2), 4, 1)
    }

    /// A monitor that found P0 slow, at this time: a slot that P0 is to fill does not come.
    fn suspicious() -> (PrimaryMonitor, Millis) {
        let (mut monitor, mut now) = (monitor(), 1_000);
        monitor.demand_slots(Slot(4), Slot(5), Slot(5), Millis(now));
        for _ in 0..2 {
            assert!(!monitor.is_due(Millis(now)) && !monitor.suspects(P0));
            now += 1_000;
            assert!(monitor.is_due(Millis(now)));
            monitor.judge(P0, core::iter::empty(), Millis(now));
        }
        assert!(monitor.is_slow());
        (monitor, Millis(now))
    }

    #[test]
    fn looks_are_some_time_apart_while_something_waits() {
        let mut monitor = monitor();
        assert!(monitor.begin_look(Millis(10)).is_some() && monitor.start_look_timer(Millis(10)));
        assert!(monitor.begin_look(Millis(14)).is_none() && !monitor.start_look_timer(Millis(14)));
        assert!(monitor.begin_look(Millis(15)).is_some() && monitor.start_look_timer(Millis(15)));
        monitor.look_timer_expired();
        assert!(monitor.begin_look(Millis(16)).is_some());
    }

    #[test]
    fn slots_are_demanded_once_and_until_they_are_filled() {
        let mut monitor = monitor();
        let (room, heard) = (Slot(6), Slot(8));
        assert!(monitor.lacks_demands(Slot(4), room, heard));
        monitor.demand_slots(Slot(4), room, heard, Millis(0));
        assert!(!monitor.lacks_demands(Slot(4), room, heard));
        assert!(monitor.lacks_demands(Slot(4), room, Slot(9)), "others wait for more");
        monitor.executed_upto(Slot(5), Millis(0));
        assert!(monitor.lacks_demands(Slot(5), Slot(7), heard), "there is room for more");
        monitor.assert_invariants(4);
    }

    #[test]
    fn a_slow_primary_is_suspected_until_nothing_is_seen_of_it_or_the_view_ends() {
        let (mut monitor, now) = suspicious();
        let mut again = monitor.clone();
        let times = (1..).find(|_| again.asks_grew_older(P0, 3));
        assert_eq!((times, again.suspects(P0)), (Some(5), false));
        monitor.view_ended(now);
        assert!(!monitor.suspects(P1));
    }

    #[test]
    fn another_order_is_held_against_one_primary_and_a_lie_against_its_author() {
        let mut monitor = monitor();
        monitor.note_other_order();
        assert!(monitor.suspects(P0));
        monitor.view_ended(Millis(0));
        monitor.note_liar(P1);
        monitor.note_liar(ReplicaId(2));
        assert_eq!([0, 1, 2].map(|id| monitor.suspects(ReplicaId(id))), [false, true, false]);
    }
}
