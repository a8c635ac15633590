//! Ctrl-C, between and within measurements.

use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::stop::stop_signal;
use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Remembers that this process is to stop.
pub struct Interrupt {
    signal: Receiver<()>,
    seen: Cell<bool>,
}

impl Interrupt {
    /// Stops when this process is told to.
    pub fn watch() -> Outcome<Self> {
        Ok(Self::new(stop_signal(false)?))
    }

    /// Stops when this yields.
    pub const fn new(signal: Receiver<()>) -> Self {
        Self { signal, seen: Cell::new(false) }
    }

    /// Sleeps. False, and at once, if this process is to stop.
    pub fn sleep_until(&self, at: Instant) -> bool {
        let left = at.saturating_duration_since(Instant::now());
        if !self.seen.get() && self.signal.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            self.seen.set(true);
        }
        !self.seen.get()
    }

    /// Sleeps; fails if this process is to stop.
    pub fn sleep(&self, time: Duration) -> Outcome {
        self.sleep_until(Instant::now() + time).then_some(()).ok_or_else(interrupted)
    }

    /// Fails if this process is to stop.
    pub fn check(&self) -> Outcome {
        self.sleep(Duration::ZERO)
    }
}

/// What a command comes to that is interrupted.
pub fn interrupted() -> Failure {
    Failure::Unwell("interrupted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_this_sleep_and_all_later_ones() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let interrupt = Interrupt::new(receiver);
        assert!(interrupt.sleep_until(Instant::now()));
        sender.send(()).unwrap();
        let far = Instant::now() + Duration::from_secs(3600);
        assert!(!interrupt.sleep_until(far));
        assert!(!interrupt.sleep_until(far));
    }
}
