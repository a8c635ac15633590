//! A clock that ends a wait for sockets. The poller counts in milliseconds, in which an open
//! workload may have hundreds of arrivals.

use pentarchy_io::poll::{Poller, SourceFd, Token};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::time::Duration;

/// See the [module](self).
pub struct Alarm(OwnedFd);

impl Alarm {
    /// An alarm that ends this poller's waits, with an event of this token.
    pub fn new(poller: &Poller, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        poller.register_readable(&mut SourceFd(&timer.as_raw_fd()), token)?;
        Ok(Self(timer))
    }

    /// Ends a wait after this time; earlier settings are void.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of 0 would switch it off.
        let after = after.max(Duration::from_nanos(1));
        let (tv_sec, tv_nsec) = (after.as_secs().cast_signed(), after.subsec_nanos().into());
        let setting = Itimerspec { it_interval: none, it_value: Timespec { tv_sec, tv_nsec } };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_ends_a_wait_again_and_again() {
        let mut poller = Poller::new().unwrap();
        let alarm = Alarm::new(&poller, Token(7)).unwrap();
        for _ in 0..3 {
            let (begun, after) = (Instant::now(), Duration::from_micros(300));
            alarm.set(after).unwrap();
            let mut events = poller.wait(Duration::from_secs(60)).unwrap();
            assert_eq!(events.next().map(|event| event.token()), Some(Token(7)));
            assert!(begun.elapsed() >= after);
        }
    }
}
