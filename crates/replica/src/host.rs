//! The rounds.

use crate::assembly::{Assembled, assemble};
use crate::config::ReplicaConfig;
use crate::driver::SocketDriver;
use crate::error::{Fatal, StartError};
use crate::fault::FaultSwitch;
use crate::pillars::Pillars;
use crate::process;
use crate::reading::{Reader, tell_links};
use crate::rescue::Rescue;
use crate::rounds::wait_ms;
use crate::status::StatusReport;
use crate::watch::Watch;
use bytes::Bytes;
use pentarchy_core::ids::MemberId;
use pentarchy_io::buffers;
use pentarchy_machine::fault::Fault;
use pentarchy_machine::{Driver as _, Machine, ROUND_MS, Surroundings};
use pentarchy_storage::kept::Writer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, error_span, info, warn};

/// One replica. It does nothing until it is [run](Self::run).
pub struct Replica {
    driver: SocketDriver,
    machine: Machine<'static, Writer>,
    pillars: Pillars,
    faults: Option<FaultSwitch>,
    /// What the switch was set to.
    fault: Fault,
    /// Of its trusted counter, if that is another one than this.
    counter_process: Option<u32>,
    reader: Reader,
    watch: Watch,
    rescue: Rescue,
    /// Questions there that were answered.
    answered: u64,
}

impl Replica {
    /// Checks the configuration, listens, and starts the core.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn new(config: ReplicaConfig) -> Result<Self, StartError> {
        let Assembled { driver, machine, pillars } = assemble(config)?;
        Ok(Self {
            driver,
            machine,
            pillars,
            faults: None,
            fault: Fault::None,
            counter_process: None,
            reader: Reader::default(),
            watch: Watch::default(),
            rescue: Rescue::default(),
            answered: 0,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.driver.network.local_addr()
    }

    /// A window on this replica for other threads.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// A way to save what this replica has, once the group cannot go on.
    #[must_use]
    pub fn rescue(&self) -> Rescue {
        self.rescue.clone()
    }

    /// Says in its status in which process its trusted counter is, if that is another one.
    #[must_use]
    pub fn with_counter_process(mut self, id: Option<u32>) -> Self {
        self.counter_process = id;
        self
    }

    /// Has it misbehave as the switch says: for replicas that are there to be tried out.
    #[must_use]
    pub fn with_faults(mut self, switch: FaultSwitch) -> Self {
        self.faults = Some(switch);
        self
    }

    /// Works until `stop` is set, which is noticed within 20 ms. Threads of its own that it starts
    /// have ended then.
    ///
    /// # Errors
    /// [`Fatal`] if it must not go on. Then the process should end.
    ///
    /// # Panics
    /// With a thread of its own that has.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        buffers::keep(self.driver.network.limits().spare_bytes);
        self.pillars.start(self.faults.as_ref())?;
        let result = self.rounds(stop);
        // What ended it first is what is told.
        let ended = self.pillars.end();
        result.and(ended)
    }

    fn rounds(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        while !stop.load(Ordering::Relaxed) {
            // All lines of the log from in here name the replica.
            let epoch = self.epoch();
            let MemberId(member) = self.machine.member();
            let _span = error_span!("replica", replica = member, epoch).entered();
            while self.epoch() == epoch && !stop.load(Ordering::Relaxed) {
                self.round()?;
                if self.rescue.serve(|| self.machine.give_away()) {
                    info!("the replica saves its state for a rescue and stops");
                    return self.keep_for_rescue(stop);
                }
            }
        }
        Ok(())
    }

    /// Keeps the state that was given away, and gives it again, until `stop` is set: perhaps nobody
    /// could write it down.
    fn keep_for_rescue(&mut self, stop: &AtomicBool) -> Result<(), Fatal> {
        let ended = self.pillars.end();
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(ROUND_MS));
            self.rescue.serve(|| self.machine.give_away());
        }
        ended
    }

    /// Runs it on a thread of its own.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn(mut self) -> std::io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name(format!("replica-{}", self.machine.member().0))
            .spawn(move || {
                let result = self.run(&seen);
                match &result {
                    Err(removed) if removed.is_removal() => info!(%removed, "the replica ends"),
                    Err(fatal) => error!(%fatal, "the replica ends"),
                    Ok(()) => {}
                }
                result
            })?;
        Ok(Running { stop, thread })
    }

    fn epoch(&self) -> u64 {
        self.machine.epoch().0
    }

    fn round(&mut self) -> Result<(), Fatal> {
        let has_heard = self.pillars.before_wait();
        // Behind that: a pillar that is done from here on wakes it.
        let is_reading = !self.machine.waits_for_disk() && !self.pillars.is_behind();
        let is_late = is_reading && (has_heard || self.machine.has_inbound());
        let timeout = if is_late { Duration::ZERO } else { self.timeout() };
        let waited = self.driver.network.wait(timeout, is_reading);
        self.pillars.after_wait()?;
        let mut happened = waited? || is_late;
        let (begun, asked) = (self.driver.elapsed(), self.watch.asked());
        self.misbehave();
        let now_ms = self.driver.begin_round(self.faults.is_some().then_some(self.fault));
        let Self { driver, machine, pillars, reader, .. } = self;
        machine.begin_round(now_ms, self.fault, driver)?;
        driver.network.open(now_ms);
        tell_links(driver, machine);
        if is_reading {
            happened |= pillars.hear(|pillar, said| machine.on_pillar(pillar, said, driver))?;
            reader.read(driver, now_ms, machine);
            machine.deliver_peers(driver)?;
            pillars.hand_over(driver.network.take_handed());
        }
        let now = driver.clock.now();
        machine.deliver_clients(now, driver)?;
        while let Some(timer) = driver.timers.pop(now_ms) {
            happened = true;
            machine.on_timeout(timer, driver)?;
        }
        let now = driver.clock.now();
        machine.end_round(happened, now, driver)?;
        self.answer_operators();
        let Self { driver, machine, pillars, .. } = self;
        machine.to_pillars().for_each(|(pillar, told)| pillars.tell(pillar, told.into()));
        pillars.post();
        driver.network.flush(now_ms);
        if happened {
            machine.on_written(begun, driver.elapsed());
        }
        if asked > self.answered {
            self.answered = asked;
            let report = self.status();
            self.watch.answer(asked, report);
        }
        Ok(())
    }

    /// Looks what the fault switch says, if there is one.
    fn misbehave(&mut self) {
        let Some(switch) = &self.faults else { return };
        let fault = switch.get();
        if fault != self.fault {
            warn!(%fault, "misbehaving on command");
            self.fault = fault;
        }
    }

    fn timeout(&self) -> Duration {
        let machine = Some(self.machine.wake_at().0);
        let now_ms = self.driver.clock.elapsed_ms();
        Duration::from_millis(wait_ms([self.driver.next_ms(), machine], now_ms))
    }

    /// Tells the status to clients that asked for it.
    fn answer_operators(&mut self) {
        let asked = self.machine.take_status_questions();
        if asked.is_empty() {
            return;
        }
        let report = self.status();
        let json = Bytes::from(serde_json::to_vec(&report).unwrap_or_default());
        for client in asked {
            self.machine.answer_status(client, json.clone(), &mut self.driver);
        }
    }

    /// What this replica says of itself.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        self.machine.status(&Surroundings {
            elapsed: self.driver.elapsed(),
            links: self.driver.report(),
            process: process::report(self.counter_process),
            pillars: self.pillars.report(),
        })
    }
}

/// A replica that runs on a thread of its own.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Fatal>>,
}

impl Running {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Has it end, and waits for that.
    ///
    /// # Errors
    /// [`Fatal`] if it had ended by itself.
    ///
    /// # Panics
    /// If its thread panicked.
    pub fn stop(self) -> Result<(), Fatal> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
