//! A correct replica that is in no working view has armed a timer: the one by which its view is to
//! begin, or, once the replica has asked for another view, the one at which it asks again. A
//! replica with neither timer waits for messages that perhaps no replica ever sends. The checker
//! counts the timers that the host armed, whatever the core believes.

use super::{Broken, Verdict};
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::protocol::{Delay, Status};

/// The property's name.
pub const PROPERTY: &str = "moving_on";

/// The phases in which a replica is not between two views. One that joins has no view yet.
const PHASES: [&str; 3] = ["normal", "catching-up", "joining"];

/// In which views the cores of one replica asked for another one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct MovingOn {
    /// The view of each core, and whether the replica has asked for another one since the core left
    /// for that view. Whose pillar asks does not show, so all of its cores count as asking.
    cores: Vec<(View, bool)>,
}

/// How many timers of a replica lead on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timers {
    /// Those by which a view is to begin.
    pub views: usize,
    /// Those at which a core says again what it asks for.
    pub resends: usize,
}

impl Timers {
    /// Of all timers that a host has armed, by the delays for which it did.
    #[must_use]
    pub fn of(armed: impl Iterator<Item = Delay>) -> Self {
        let mut timers = Self::default();
        for delay in armed {
            timers.views += usize::from(matches!(delay, Delay::ViewChange { .. }));
            timers.resends += usize::from(delay == Delay::Resend);
        }
        timers
    }
}

impl MovingOn {
    /// A replica made a step. Its cores stand so now, and it `asks` for another view if it said so
    /// in this step.
    ///
    /// # Errors
    /// If one of its cores is in no working view, and no timer leads that on.
    pub fn stepped(
        &mut self,
        id: ReplicaId,
        cores: &[Status],
        asks: bool,
        timers: Timers,
    ) -> Verdict {
        self.cores.resize(cores.len(), (View(0), false));
        for ((view, asked), core) in self.cores.iter_mut().zip(cores) {
            // A core leaves its view by the ask of that same step, which asks for no other view.
            *asked = *view == core.view && (*asked || asks);
            *view = core.view;
        }
        let is_between = |core: &Status| !PHASES.contains(&core.phase);
        let between = cores.iter().zip(&self.cores).filter(|(core, _)| is_between(core));
        let waiting = between.clone().filter(|(_, (_, asked))| !asked).count();
        if waiting <= timers.views && between.clone().count() <= timers.views + timers.resends {
            return Ok(());
        }
        let cores: Vec<String> = between
            .map(|(core, (view, asked))| {
                let asked = if *asked { "has asked for another one" } else { "asks for no other" };
                format!("is {} in view {} and {asked}", core.phase, view.0)
            })
            .collect();
        let Timers { views, resends } = timers;
        let detail = format!(
            "{id} {}, with {views} timers of views and {resends} of ticks",
            cores.join(", ")
        );
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bounds::tests::status;

    const NONE: Timers = Timers { views: 0, resends: 0 };
    const TICKS: Timers = Timers { views: 0, resends: 1 };
    const TIMED: Timers = Timers { views: 1, resends: 0 };

    fn core(view: u64, phase: &'static str) -> Status {
        Status { view: View(view), phase, ..status() }
    }

    #[test]
    fn who_left_its_view_needs_a_timer_and_who_asks_for_another_one_only_ticks() {
        let mut checker = MovingOn::default();
        let mut step =
            |core: Status, asks, timers| checker.stepped(ReplicaId(1), &[core], asks, timers);
        step(core(0, "normal"), true, NONE).unwrap();
        // It left by that ask, or by one that it had made before.
        let broken = step(core(1, "changing"), true, TICKS).unwrap_err();
        assert!(
            broken.property == PROPERTY && broken.detail.contains("r1 is changing"),
            "{broken}"
        );
        step(core(1, "changing"), false, TIMED).unwrap();
        step(core(1, "changing"), false, TICKS).unwrap_err();
        step(core(1, "entering"), true, TICKS).unwrap();
        step(core(1, "entering"), false, TICKS).unwrap();
        step(core(1, "entering"), false, NONE).unwrap_err();
        step(core(2, "changing"), false, TICKS).unwrap_err();
        step(core(2, "catching-up"), false, NONE).unwrap();
        step(core(2, "joining"), false, NONE).unwrap();
    }

    #[test]
    fn each_pillar_needs_a_timer_of_its_own() {
        let mut checker = MovingOn::default();
        let all = [core(1, "changing"), core(0, "normal"), core(3, "changing")];
        let mut step = |asks, timers| checker.stepped(ReplicaId(1), &all, asks, timers);
        step(false, TIMED).unwrap_err();
        step(false, Timers { views: 2, resends: 0 }).unwrap();
        step(true, TIMED).unwrap_err();
        step(false, Timers { views: 1, resends: 1 }).unwrap();
    }

    #[test]
    fn the_timers_that_lead_on_are_known_by_their_delays() {
        let view = Delay::ViewChange { doublings: 3 };
        let armed = [Delay::Resend, view, Delay::Millis(4), view, Delay::Request { doublings: 0 }];
        assert_eq!(Timers::of(armed.into_iter()), Timers { views: 2, resends: 1 });
    }
}
