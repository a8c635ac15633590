//! How far a replica has come on its way to be level, for who waits at a terminal.

use crate::progress::shown;
use crate::status::report::ReplicaReport;
use indicatif::ProgressBar;
use std::cell::Cell;

/// A progress bar on stderr; where that is no terminal there is none.
pub struct Approach {
    bar: ProgressBar,
    /// The slot at which it began.
    from: Cell<Option<u64>>,
}

impl Default for Approach {
    fn default() -> Self {
        let bar = shown(ProgressBar::new(0), "{bar:30} {elapsed} {msg}");
        Self { bar, from: Cell::new(None) }
    }
}

impl Approach {
    /// It does not answer yet.
    pub fn wait(&self) {
        self.bar.set_message("waiting until it answers");
        self.bar.tick();
    }

    /// It answers, and has this far to go.
    pub fn show(&self, replica: &ReplicaReport, goal: u64) {
        let known = &replica.known;
        let from = self.from.get().unwrap_or(known.executed);
        self.from.set(Some(from));
        match &known.catch_up {
            Some(state) if state.chunks_total > 0 => {
                self.bar.set_length(state.chunks_total);
                self.bar.set_position(state.chunks_have);
            }
            _ => {
                self.bar.set_length(goal.saturating_sub(from));
                self.bar.set_position(known.executed.saturating_sub(from));
            }
        }
        let phase = known.phase.clone();
        self.bar.set_message(known.approach().unwrap_or(phase));
    }

    /// It is level.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
