//! What one thread tells another. Neither ever waits for the other: who finds that much is waiting
//! does nothing that leads to more, and looks again when it is woken.

use pentarchy_io::poll::Waker;
use std::mem::swap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Messages from the replica's thread to a pillar that wait above which a mailbox is full.
pub const TOLD_MESSAGES: usize = 8_192;

/// The same from a pillar to the replica's thread, which takes all of them in one round: so that
/// whoever makes pillars say much makes no round of it long.
pub const SAID_MESSAGES: usize = 1_024;

/// Bytes of what waits above which a mailbox is full.
pub const MAILBOX_BYTES: usize = 16 << 20;

/// Wakes a thread that waits for its sockets, if it does: a thread at work finds what came for it
/// without a system call.
pub struct Bell {
    waker: Waker,
    is_asleep: AtomicBool,
    /// Whether it wants to know when more is durable.
    for_disk: AtomicBool,
}

impl Bell {
    /// Of a thread that waits with the poller of this waker.
    pub fn new(waker: Waker) -> Self {
        Self { waker, is_asleep: AtomicBool::new(false), for_disk: AtomicBool::new(false) }
    }

    /// The thread is about to wait: what it finds in its mailboxes from now on is all that came
    /// without a ring.
    pub fn going_to_sleep(&self) {
        self.is_asleep.store(true, SeqCst);
    }

    /// Whether something of it waits for the disk. To be said before it looks how far that
    /// is, and taken back if nothing does.
    pub fn waits_for_disk(&self, waits: bool) {
        self.for_disk.store(waits, SeqCst);
    }

    /// More is durable.
    fn written(&self) {
        if self.for_disk.load(SeqCst) {
            self.ring();
        }
    }

    /// It waits no more.
    pub fn woken(&self) {
        self.is_asleep.store(false, SeqCst);
    }

    /// Wakes it if it sleeps.
    pub fn ring(&self) {
        if self.is_asleep.swap(false, SeqCst) {
            self.wake();
        }
    }

    /// Wakes it, whether it sleeps or not: for what it does not look for before it waits.
    pub fn wake(&self) {
        // Who cannot be woken looks within 20 ms.
        let _ = self.waker.wake();
    }
}

/// Those of a replica's threads that wait for the disk.
#[derive(Default)]
pub struct Bells {
    /// The replica's, ...
    replica: OnceLock<Arc<Bell>>,
    /// ... and its pillars'.
    pillars: OnceLock<Vec<Arc<Bell>>>,
}

impl Bells {
    /// Of these threads, from now on.
    pub fn set(&self, replica: Arc<Bell>, pillars: Vec<Arc<Bell>>) {
        // Once, when the threads are made.
        let _ = (self.replica.set(replica), self.pillars.set(pillars));
    }

    /// More is durable.
    pub fn written(&self) {
        self.replica.get().into_iter().for_each(|bell| bell.wake());
        self.pillars.get().into_iter().flatten().for_each(|bell| bell.written());
    }
}

/// What can be put into a mailbox.
pub trait Mail {
    /// The bytes that it keeps, though others may keep the same.
    fn bytes(&self) -> usize;
}

struct Waiting<T> {
    messages: Vec<T>,
    bytes: usize,
    messages_max: usize,
}

impl<T> Waiting<T> {
    const fn is_full(&self) -> bool {
        self.messages.len() >= self.messages_max || self.bytes >= MAILBOX_BYTES
    }
}

/// From one thread to one other.
pub struct Mailbox<T> {
    waiting: Mutex<Waiting<T>>,
    from: Arc<Bell>,
    to: Arc<Bell>,
}

impl<T: Mail> Mailbox<T> {
    /// Full with so many messages.
    pub fn new(from: Arc<Bell>, to: Arc<Bell>, messages_max: usize) -> Self {
        let waiting = Mutex::new(Waiting { messages: Vec::new(), bytes: 0, messages_max });
        Self { waiting, from, to }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        // Whoever panicked between two of its statements leaves a list of messages behind.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in all of these, also if it is full.
    pub fn post(&self, messages: &mut Vec<T>) {
        if messages.is_empty() {
            return;
        }
        let bytes: usize = messages.iter().map(Mail::bytes).sum();
        {
            let mut waiting = self.waiting();
            waiting.messages.append(messages);
            waiting.bytes += bytes;
        }
        self.to.ring();
    }

    /// Takes out all there is, into an empty list.
    pub fn take(&self, into: &mut Vec<T>) {
        let was_full = {
            let mut waiting = self.waiting();
            let was_full = waiting.is_full();
            swap(&mut waiting.messages, into);
            waiting.bytes = 0;
            was_full
        };
        if was_full {
            self.from.ring();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting().messages.is_empty()
    }

    /// Whether so much waits that nothing is to be done which leads to more.
    pub fn is_full(&self) -> bool {
        self.waiting().is_full()
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.waiting().messages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_io::poll::{Poller, Token};
    use std::time::Duration;

    impl Mail for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn bell(poller: &Poller) -> Arc<Bell> {
        Arc::new(Bell::new(poller.waker(Token(0)).unwrap()))
    }

    fn is_woken(poller: &mut Poller) -> bool {
        poller.wait(Duration::ZERO).unwrap().count() > 0
    }

    #[test]
    fn only_who_sleeps_is_woken_and_once() {
        let (mut from, mut to) = (Poller::new().unwrap(), Poller::new().unwrap());
        let sleeper = bell(&to);
        let mailbox = Mailbox::new(bell(&from), sleeper.clone(), 9);
        mailbox.post(&mut vec![1]);
        assert!(!is_woken(&mut to), "it is at work");
        sleeper.going_to_sleep();
        assert!(!mailbox.is_empty(), "it looks before it sleeps");
        mailbox.post(&mut vec![2]);
        assert!(is_woken(&mut to));
        mailbox.post(&mut vec![3]);
        assert!(!is_woken(&mut to), "it was woken by then");
        sleeper.going_to_sleep();
        sleeper.woken();
        mailbox.post(&mut Vec::new());
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!((taken, mailbox.len()), (vec![1, 2, 3], 0));
        assert!(!is_woken(&mut from) && !is_woken(&mut to));
    }

    #[test]
    fn who_waits_for_the_disk_is_woken_when_more_is_durable() {
        let [mut replica, mut waits, mut other] = [(); 3].map(|()| Poller::new().unwrap());
        let (waiting, busy) = (bell(&waits), bell(&other));
        let bells = Bells::default();
        bells.written();
        bells.set(bell(&replica), vec![waiting.clone(), busy.clone()]);
        waiting.waits_for_disk(true);
        [&waiting, &busy].into_iter().for_each(|bell| bell.going_to_sleep());
        bells.written();
        assert!(is_woken(&mut replica), "it always looks");
        assert!(is_woken(&mut waits) && !is_woken(&mut other));
        // Whoever is at work looks before it sleeps.
        bells.written();
        assert!(!is_woken(&mut waits));
        waiting.going_to_sleep();
        waiting.waits_for_disk(false);
        bells.written();
        assert!(!is_woken(&mut waits));
    }

    #[test]
    fn who_found_it_full_is_woken_when_it_is_not() {
        for messages in [vec![MAILBOX_BYTES], vec![0; SAID_MESSAGES]] {
            let (mut from, to) = (Poller::new().unwrap(), Poller::new().unwrap());
            let writer = bell(&from);
            let mailbox = Mailbox::new(writer.clone(), bell(&to), SAID_MESSAGES);
            mailbox.post(&mut messages[1..].to_vec());
            assert!(!mailbox.is_full());
            mailbox.post(&mut messages[..1].to_vec());
            assert!(mailbox.is_full());
            writer.going_to_sleep();
            let mut taken = Vec::new();
            mailbox.take(&mut taken);
            assert!(taken.len() == messages.len() && !mailbox.is_full() && is_woken(&mut from));
        }
    }
}
