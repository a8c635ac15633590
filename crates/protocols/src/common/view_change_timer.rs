//! How long a view may take to begin, and whatever is judged in it: twice as long for each view in
//! a row in which nothing became final.

use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChangeTimer {
    /// Whether it runs. Whoever is in no view that works has that, or asks for a later one.
    is_running: bool,
    /// Consecutive views in which nothing new became final; doubles the timeouts.
    doublings: u8,
    /// The last slot that was final when this replica entered its view.
    final_before: Slot,
}

impl ViewChangeTimer {
    /// Of a replica that is in the first view, with so much final.
    #[must_use]
    pub const fn new(last_final: Slot) -> Self {
        Self { is_running: false, doublings: 0, final_before: last_final }
    }

    /// How often timeouts are doubled.
    #[must_use]
    pub const fn doublings(&self) -> u8 {
        self.doublings
    }

    /// Whether it runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// This replica leaves a view, with so much final, for one that gets twice the time that a new
    /// primary gets once a quorum has left. A view that made something final was long enough: if it
    /// did not count, a group with few requests, whose checkpoints are far apart, would wait twice
    /// as long after each failure.
    pub fn view_left(&mut self, was_entered: bool, last_final: Slot) {
        let worked = was_entered
            && (last_final > self.final_before || mutant!("frame.entered-views-worked"))
            && !mutant!("frame.views-that-worked-failed");
        self.doublings = if worked { 1 } else { self.doublings.saturating_add(1) };
    }

    /// It begins for the view. Gives how often it is doubled.
    pub const fn start(&mut self) -> u8 {
        self.is_running = true;
        self.doublings
    }

    /// It begins for the new primary to open the view. Gives how often it is doubled.
    pub const fn start_for_primary(&mut self) -> u8 {
        self.start().saturating_sub(1)
    }

    /// It ran out.
    pub const fn expired(&mut self) {
        self.is_running = false;
    }

    /// The view is entered, with so much final.
    pub const fn view_entered(&mut self, last_final: Slot) {
        (self.is_running, self.final_before) = (false, last_final);
    }

    /// The view works: the next failure starts from short timeouts again.
    pub const fn view_works(&mut self) {
        self.doublings = 0;
    }

    /// The log says that this replica left for a view.
    pub const fn recall_leaving(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
    }

    /// The log is read. It does not say which views made something final, and no group fails for
    /// long because replicas start again.
    pub fn resumed(&mut self) {
        self.doublings = self.doublings.min(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_fail_in_a_row_double_it_and_one_that_worked_does_not_count() {
        let mut timer = ViewChangeTimer::new(Slot(4));
        timer.view_left(true, Slot(4));
        timer.view_left(false, Slot(4));
        assert_eq!((timer.start(), timer.start_for_primary(), timer.is_running()), (2, 1, true));
        timer.view_entered(Slot(6));
        assert!(!timer.is_running());
        timer.view_left(true, Slot(7));
        assert_eq!(timer.doublings(), 1);
        timer.recall_leaving();
        timer.resumed();
        assert_eq!(timer.start(), 1);
        timer.view_works();
        assert_eq!(timer.start_for_primary(), 0);
    }
}
