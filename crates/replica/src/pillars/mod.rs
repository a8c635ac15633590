//! The pillars of a replica, each on a thread of its own with its trusted counter and its
//! connections. The replica's thread has the part of the core that merges what they agree on, and
//! everything else. If anything is kept, all write to one log, and each has what it says wait for
//! its own entries.
//!
//! Threads tell each other things through [mailboxes](mailbox), and none waits for another. A
//! pillar always takes what it is told; it reads its peers while there is room for what it says.
//! The replica reads its sockets, and takes what pillars say, while there is room for what each is
//! told. So a pillar that is slow holds up the others as any slow core holds up its sockets, and no
//! two can wait for each other.

pub mod mailbox;
pub mod pillar;
pub mod report;

use crate::driver::SocketDriver;
use crate::error::Fatal;
use crate::fault::FaultSwitch;
use crate::network::Handed;
use crate::status::ThreadReport;
use mailbox::{Bell, Mailbox, SAID_MESSAGES, TOLD_MESSAGES};
use pentarchy_core::ids::ReplicaId;
use pentarchy_machine::PillarInstance;
use pentarchy_machine::pillar::{FromPillar, Prepared};
use pentarchy_machine::report::{PillarsReport, Report};
use pentarchy_storage::kept::LogHandle;
use pillar::{Letter, PillarThread};
use report::Latest;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;
use tracing::{error, error_span};

/// What the replica's thread has of one pillar.
struct Handle {
    /// Until it is started.
    pillar: Option<Box<PillarThread>>,
    thread: Option<JoinHandle<Result<(), Fatal>>>,
    bell: Arc<Bell>,
    told: Arc<Mailbox<Letter>>,
    said: Arc<Mailbox<FromPillar>>,
    /// What it is to be told at the end of the round.
    telling: Vec<Letter>,
    /// The status report of the pillar.
    latest: Latest,
    prepared: Prepared,
    /// What it last said, and when.
    report: (Report, ThreadReport),
    reported: Instant,
}

/// All pillars with threads of their own; none if the order is not split.
pub struct Pillars {
    me: ReplicaId,
    /// Of the replica's thread.
    bell: Arc<Bell>,
    handles: Vec<Handle>,
    stop: Arc<AtomicBool>,
    /// One has ended by itself.
    ended: Arc<AtomicBool>,
    /// Room for what one says.
    heard: Vec<FromPillar>,
}

impl Pillars {
    /// Without any, for a replica's thread that is woken like this.
    pub fn none(me: ReplicaId, bell: Arc<Bell>) -> Self {
        Self {
            me,
            bell,
            handles: Vec::new(),
            stop: Arc::default(),
            ended: Arc::default(),
            heard: Vec::new(),
        }
    }

    /// Takes in one more, with its sockets.
    pub fn add(
        &mut self,
        instance: PillarInstance<LogHandle>,
        driver: SocketDriver,
    ) -> io::Result<()> {
        let bell = Arc::new(Bell::new(driver.network.waker()?));
        let prepared = instance.prepared();
        let told = Arc::new(Mailbox::new(self.bell.clone(), bell.clone(), TOLD_MESSAGES));
        let said = Arc::new(Mailbox::new(bell.clone(), self.bell.clone(), SAID_MESSAGES));
        let pillar = PillarThread::new(instance, driver, bell.clone(), told.clone(), said.clone());
        self.handles.push(Handle {
            latest: pillar.latest.clone(),
            prepared,
            pillar: Some(Box::new(pillar)),
            thread: None,
            bell,
            told,
            said,
            telling: Vec::new(),
            report: Default::default(),
            reported: Instant::now(),
        });
        Ok(())
    }

    /// What queries must not miss of each.
    pub fn prepared(&self) -> Vec<Prepared> {
        self.handles.iter().map(|handle| handle.prepared.clone()).collect()
    }

    /// What wakes them.
    pub fn bells(&self) -> Vec<Arc<Bell>> {
        self.handles.iter().map(|handle| handle.bell.clone()).collect()
    }

    /// Starts their threads. They misbehave as the switch says.
    pub fn start(&mut self, faults: Option<&FaultSwitch>) -> io::Result<()> {
        for (number, handle) in self.handles.iter_mut().enumerate() {
            let Some(mut pillar) = handle.pillar.take() else { continue };
            pillar.faults = faults.cloned();
            let (me, stop) = (self.me.0, self.stop.clone());
            let ending = Ending { ended: self.ended.clone(), bell: self.bell.clone() };
            let thread = Builder::new().name(format!("pillar-{me}.{number}"));
            handle.thread = Some(thread.spawn(move || {
                let _ending = ending;
                let _span = error_span!("replica", replica = me, pillar = number).entered();
                let result = pillar.run(&stop);
                if let Err(fatal) = &result {
                    error!(%fatal, "the pillar ends");
                }
                result
            })?);
        }
        Ok(())
    }

    /// The replica's thread is about to wait for its sockets. Says whether there is something to do
    /// before.
    pub fn before_wait(&self) -> bool {
        if self.handles.is_empty() {
            return false;
        }
        self.bell.going_to_sleep();
        self.handles.iter().any(|handle| !handle.said.is_empty())
    }

    /// It has waited.
    ///
    /// # Panics
    /// With a pillar that has.
    pub fn after_wait(&mut self) -> Result<(), Fatal> {
        if self.handles.is_empty() {
            return Ok(());
        }
        self.bell.woken();
        if self.ended.load(Ordering::SeqCst) { self.end() } else { Ok(()) }
    }

    /// Whether some pillar has so much to do that nothing is to be done which leads to more.
    pub fn is_behind(&self) -> bool {
        self.handles.iter().any(|handle| handle.told.is_full())
    }

    /// What pillars say, in the order of each. Whether it was anything to act on.
    pub fn hear<E>(
        &mut self,
        mut take: impl FnMut(u8, FromPillar) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (mut heard, mut any) = (std::mem::take(&mut self.heard), false);
        for (number, handle) in (0..).zip(&mut self.handles) {
            if let Some(report) = handle.latest.take() {
                (handle.report, handle.reported) = (report, Instant::now());
            }
            handle.said.take(&mut heard);
            any |= !heard.is_empty();
            heard.drain(..).try_for_each(|said| take(number, said))?;
        }
        self.heard = heard;
        Ok(any)
    }

    /// A pillar is to be told something at the end of the round.
    pub fn tell(&mut self, pillar: u8, told: Letter) {
        if let Some(handle) = self.handles.get_mut(usize::from(pillar)) {
            handle.telling.push(told);
        }
    }

    /// Somebody dialled pillars.
    pub fn hand_over(&mut self, handed: Vec<Handed>) {
        for connection in handed {
            self.tell(connection.pillar, Letter::Connection(connection.into()));
        }
    }

    /// The round is over.
    pub fn post(&mut self) {
        self.handles.iter_mut().for_each(|handle| handle.told.post(&mut handle.telling));
    }

    /// How they are.
    pub fn report(&self) -> PillarsReport<'_> {
        let thread = |handle: &Handle| {
            let silent_ms = handle.reported.elapsed().as_millis();
            let silent_ms = u64::try_from(silent_ms).unwrap_or(u64::MAX);
            ThreadReport { silent_ms, ..handle.report.1.clone() }
        };
        PillarsReport {
            reports: self.handles.iter().map(|handle| &handle.report.0).collect(),
            threads: self.handles.iter().map(thread).collect(),
            mail: self.mail(),
        }
    }

    /// How many messages wait in the fullest mailbox of what pillars are told, and how many may;
    /// and of what they say. None if there are none.
    fn mail(&self) -> Option<[(usize, usize); 2]> {
        let told = self.handles.iter().map(|it| it.told.len()).max()?;
        let said = self.handles.iter().map(|it| it.said.len()).max()?;
        Some([(told, TOLD_MESSAGES), (said, SAID_MESSAGES)])
    }

    /// Ends all threads, and waits for that.
    ///
    /// # Panics
    /// With the first that has.
    pub fn end(&mut self) -> Result<(), Fatal> {
        self.stop.store(true, Ordering::SeqCst);
        let mut result = Ok(Ok(()));
        for handle in &mut self.handles {
            handle.pillar = None;
            handle.bell.ring();
            if let Some(thread) = handle.thread.take() {
                let ended = thread.join();
                if matches!(result, Ok(Ok(()))) {
                    result = ended;
                }
            }
        }
        match result {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Drop for Pillars {
    /// Nobody is left who could be told how they ended.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for handle in &mut self.handles {
            handle.bell.ring();
            let _ = handle.thread.take().map(JoinHandle::join);
        }
    }
}

/// Says that a thread ends, also if it panics.
struct Ending {
    ended: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Group;
    use pentarchy_core::ports::replica::Input;
    use pentarchy_io::poll::Poller;
    use pentarchy_machine::pillar::ToPillar;
    use pillar::tests::{bell, driver, silent};
    use std::time::Duration;

    /// The replica waits while much is to be done by a pillar, and is woken when it is done.
    #[test]
    fn who_waits_for_a_pillar_that_is_behind_is_woken() {
        let (group, _listener) = Group::new();
        let mut poller = Poller::new().unwrap();
        let mut pillars = Pillars::none(ReplicaId(0), bell(&poller));
        pillars.add(silent(&group), driver(group.of_pillar(0, 0))).unwrap();
        (0..TOLD_MESSAGES).for_each(|_| {
            assert!(!pillars.is_behind());
            pillars.tell(0, ToPillar::Input(Box::new(Input::Compact)).into());
        });
        pillars.post();
        assert!(
            pillars.is_behind()
                && pillars.mail().is_some_and(|[(told, _), _]| told == TOLD_MESSAGES)
        );
        pillars.before_wait();
        pillars.start(None).unwrap();
        let woken = poller.wait(Duration::from_secs(30)).unwrap().count();
        assert_eq!(woken, 1);
        pillars.after_wait().unwrap();
        let begun = Instant::now();
        while pillars.is_behind() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does nothing");
        }
        assert!(pillars.end().is_ok() && pillars.report().threads.len() == 1);
    }
}
