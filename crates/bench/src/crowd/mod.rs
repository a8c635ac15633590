//! Many clients on one thread. With a thread for each, a closed loop with many clients measures the
//! scheduler of the machine on which the clients run.
//!
//! What is measured is a core with its connections, as in the product's own client, without the
//! hand-over between the application's thread and the client's.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`member`] | one client |
//! | [`arrivals`], [`alarm`] | when operations of an open workload come; how a wait for them ends |

mod alarm;
mod arrivals;
mod member;

use super::load::{Signals, Tally, Window};
use alarm::Alarm;
use arrivals::Arrivals;
pub use member::Member;
use member::Round;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_io::clock::Clock;
use pentarchy_io::poll::{Poller, Token};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often members are asked whether something is due: cores resend, links are dialled again.
const TICK: Duration = Duration::from_millis(5);

/// The shortest sleep until the next arrival: a wake for each would leave the processor to nobody
/// else.
const NAP: Duration = Duration::from_micros(20);

/// Clients of all threads that connect at a time. Replicas have few places for connections whose
/// other end has not said yet who it is, and hang up on the others.
const CONNECTING_MAX: usize = 16;

const ALARM: Token = Token(usize::MAX);

/// One thread's clients.
pub struct Crowd {
    poller: Poller,
    alarm: Alarm,
    clock: Clock,
    members: Vec<Member>,
    /// Tokens of one member.
    stride: usize,
    /// Those that have something to do.
    listed: Vec<usize>,
    /// Those that do it now.
    busy: Vec<usize>,
    /// Who submits the next arrival.
    turn: usize,
    /// Members that every replica has welcomed.
    connected: usize,
}

/// How a crowd offers load.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Operations in a second of all threads together; none if each completion is replaced.
    pub rate: Option<u64>,
    /// Which thread this is.
    pub thread: usize,
    /// Of how many.
    pub threads: usize,
}

impl Crowd {
    /// Of groups with so many replicas. Has no members yet.
    pub fn new(replicas: usize) -> Outcome<Self> {
        let poller = Poller::new().map_err(cannot)?;
        let alarm = Alarm::new(&poller, ALARM).map_err(cannot)?;
        Ok(Self {
            poller,
            alarm,
            clock: Clock::default(),
            members: Vec::new(),
            stride: replicas,
            listed: Vec::new(),
            busy: Vec::new(),
            turn: 0,
            connected: 0,
        })
    }

    /// The first token of the next member.
    pub const fn next_token(&self) -> usize {
        self.members.len() * self.stride
    }

    /// Adds a client.
    pub fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    /// Connects everyone, and says so; offers load from when there is a window until its end, or
    /// until told to stop. What is outstanding then is abandoned and not counted.
    pub fn run(mut self, share: Share, signals: &Signals) -> Outcome<Tally> {
        let mut tally = Tally::new();
        let mut arrivals = None;
        let mut window = None;
        let mut next_tick = Instant::now();
        loop {
            let now = Instant::now();
            if window.is_none() {
                window = signals.window.get().copied();
                // Everyone is to submit first operations.
                next_tick = now;
                arrivals = window
                    .and(share.rate)
                    .map(|rate| Arrivals::new(now, rate, share.thread, share.threads));
            }
            if window.is_some_and(|window: Window| now >= window.end)
                || signals.stop.load(Ordering::Relaxed)
            {
                tally.shares = self.members.iter().map(|member| member.done).collect();
                return Ok(tally);
            }
            if now >= next_tick {
                next_tick = now + TICK;
                let first = window.is_some() && share.rate.is_none();
                self.list_due(share, |member| first && member.has_room());
            }
            if let Some(arrivals) = &mut arrivals {
                self.submit(arrivals, now, window, &mut tally);
            }
            let replaces = share.rate.is_none();
            let connected = self.round(window, replaces, &mut tally);
            if connected > 0 {
                self.connected += connected;
                signals.connected.fetch_add(connected, Ordering::Relaxed);
                // There is room for others to connect.
                next_tick = now;
            }
            self.wait(arrivals.as_ref(), next_tick).map_err(cannot)?;
        }
    }

    fn list(&mut self, index: usize) {
        if let Some(member) = self.members.get_mut(index)
            && !std::mem::replace(&mut member.is_listed, true)
        {
            self.listed.push(index);
        }
    }

    /// Lists who has something to do by the clock, and whom the caller means.
    fn list_due(&mut self, share: Share, also: impl Fn(&Member) -> bool) {
        let now_ms = self.clock.elapsed_ms();
        let connecting_max = (CONNECTING_MAX / share.threads).max(1);
        let begun = self.members.len().min(self.connected + connecting_max);
        for index in 0..begun {
            if self.members[index].is_due(now_ms) || also(&self.members[index]) {
                self.list(index);
            }
        }
    }

    /// Submits what has come, as far as there is room, to one member after the other.
    fn submit(
        &mut self,
        arrivals: &mut Arrivals,
        now: Instant,
        window: Option<Window>,
        tally: &mut Tally,
    ) {
        while arrivals.next_at() <= now {
            let count = self.members.len();
            let mut turns = (0..count).map(|step| (self.turn + step) % count);
            let Some(index) = turns.find(|index| self.members[*index].has_room()) else { return };
            self.turn = (index + 1) % count;
            let at = arrivals.next_at();
            if window.is_some_and(|window| window.holds(now)) {
                tally.late.record(now - at);
            }
            self.members[index].submit(at);
            self.list(index);
            arrivals.take();
        }
    }

    /// A round of everyone who has something to do. Gives how many have become connected.
    fn round(&mut self, window: Option<Window>, replaces: bool, tally: &mut Tally) -> usize {
        let now_ms = self.clock.elapsed_ms();
        let mut connected = 0;
        std::mem::swap(&mut self.listed, &mut self.busy);
        let mut round = Round { now_ms, window, replaces, poller: &self.poller, tally };
        for index in self.busy.drain(..) {
            let member = &mut self.members[index];
            let was_connected = member.is_connected();
            member.round(&mut round);
            connected += usize::from(member.is_connected() && !was_connected);
            member.is_listed = member.is_readable();
            if member.is_listed {
                self.listed.push(index);
            }
        }
        connected
    }

    fn wait(&mut self, arrivals: Option<&Arrivals>, next_tick: Instant) -> std::io::Result<()> {
        let now = Instant::now();
        let mut timeout = next_tick.saturating_duration_since(now);
        let arrival = arrivals.map(Arrivals::next_at).filter(|at| *at < next_tick);
        match arrival {
            _ if !self.listed.is_empty() => timeout = Duration::ZERO,
            Some(at) if at > now => self.alarm.set((at - now).max(NAP))?,
            Some(_) if self.members.iter().any(Member::has_room) => timeout = Duration::ZERO,
            // Those that have come already wait for room, which a completion makes.
            Some(_) | None => {}
        }
        let Self { poller, members, listed, stride, .. } = self;
        for event in poller.wait(timeout)? {
            let index = event.token().0 / *stride;
            let Some(member) = members.get_mut(index) else { continue };
            member.on_event(event);
            if !std::mem::replace(&mut member.is_listed, true) {
                listed.push(index);
            }
        }
        Ok(())
    }
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::Internal(format!("clients cannot wait for their sockets: {error}"))
}

#[cfg(test)]
mod tests;
