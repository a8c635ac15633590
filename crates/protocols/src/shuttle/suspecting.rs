//! Whom a replica accuses, and when. Nothing is waited for on a client's word alone: what a client
//! asks for is authentic and was not ordered here.

use super::mode::Mode;
use super::replica::Shuttle;
use super::timer::Timer;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::wedging;
use pentarchy_core::protocol::{Delay, Effects};

/// How long an order may take down the chain, and back up.
const ONCE: Delay = Delay::Request { doublings: 0 };

/// Between two full replicas, how much longer the one further from the head waits for a request, in
/// ticks: it passes the request on to the other one after two.
const PASSED_ON: u16 = 3;

/// How long a checkpoint may take, which is four times as long: it begins when it is done.
const MARK: Delay = Delay::Request { doublings: 2 };

impl<M: Mode> Shuttle<M> {
    /// Tells the authority.
    pub(super) fn accuse(&self, about: ReplicaId, why: &'static str, out: &mut Effects<Self>) {
        if about != self.me {
            out.output(wedging::Output::Accuse { about, why });
        }
    }

    pub(super) fn accuse_predecessor(&self, why: &'static str, out: &mut Effects<Self>) {
        if let Some(before) = self.predecessor() {
            self.accuse(before, why, out);
        }
    }

    /// Starts and stops timers, as it follows from what is waited for. After every event.
    pub(super) fn retime(&mut self, out: &mut Effects<Self>) {
        self.keep_ticking(out);
        self.time_requests(out);
        let open = self.done < self.log.ordered() && !self.is_tail();
        let open = open && !mutant!("shuttle.return-not-timed");
        let returning = open.then(|| self.done.next());
        let before = core::mem::replace(&mut self.timing.returning, returning);
        swap_timer(before, returning, &[Timer::Return, Timer::ReturnLate], ONCE, out);
        let due = self.marks.due.first().copied().filter(|slot| *slot <= self.done);
        let before = core::mem::replace(&mut self.timing.mark, due);
        swap_timer(before, due, &[Timer::Mark, Timer::MarkLate], MARK, out);
    }

    /// The head has nobody before it, and a witness does not know what is settled.
    fn time_requests(&mut self, out: &mut Effects<Self>) {
        let judges = self.is_full(self.me) && !self.is_head();
        let Some(retime) = self.queue.retime(judges) else { return };
        if let Some(arrival) = retime.disarm {
            out.disarm(Timer::Request(arrival));
            out.disarm(Timer::RequestLate(arrival));
        }
        if let Some(arrival) = retime.arm {
            out.arm(Timer::Request(arrival), ONCE);
        }
    }

    pub(super) fn on_timeout(&mut self, timer: Timer, out: &mut Effects<Self>) {
        let behind_head = self.me.0;
        let before_tail = self.membership.n() as u16 - 1 - self.me.0;
        let later = |places: u16| Delay::Resends { times: u8::try_from(places).unwrap_or(u8::MAX) };
        match timer {
            Timer::Tick => self.on_tick(out),
            Timer::Request(arrival) if self.queue.oldest() == Some(arrival) => {
                out.arm(Timer::RequestLate(arrival), later(behind_head * PASSED_ON));
            }
            Timer::RequestLate(arrival) if self.queue.oldest() == Some(arrival) => {
                self.accuse_predecessor("a request is not ordered", out);
                out.arm(Timer::Request(arrival), ONCE);
            }
            Timer::Return(slot) if self.timing.returning == Some(slot) => {
                out.arm(Timer::ReturnLate(slot), later(before_tail));
            }
            Timer::ReturnLate(slot) if self.timing.returning == Some(slot) => {
                if let Some(successor) = self.successor() {
                    self.accuse(successor, "an order does not come back", out);
                }
                out.arm(Timer::Return(slot), ONCE);
            }
            Timer::Mark(slot) if self.timing.mark == Some(slot) => {
                let places = self.hinders_mark(slot).map_or(0, |(_, places)| places);
                out.arm(Timer::MarkLate(slot), later(places));
            }
            Timer::MarkLate(slot) if self.timing.mark == Some(slot) => {
                if let Some((hinders, _)) = self.hinders_mark(slot) {
                    self.accuse(hinders, "a checkpoint is not stable", out);
                }
                out.arm(Timer::Mark(slot), MARK);
            }
            // It is about what came meanwhile.
            _ => {}
        }
    }

    /// Whose fault it looks like that a checkpoint is not stable, and how many replicas further on
    /// that may be. Marks go down from one full replica to the next: who has marked waits for the
    /// next one, and who has no mark of its predecessor for that one. A witness sees nothing of
    /// this, and speaks last. Who lacks its own state blames nobody.
    fn hinders_mark(&self, slot: Slot) -> Option<(ReplicaId, u16)> {
        let (me, last) = (self.me.0, self.membership.f as u16);
        if me > last {
            let places = if mutant!("shuttle.witnesses-do-not-wait") { 0 } else { me };
            return Some((ReplicaId(last), places));
        }
        if self.marks.marked >= slot {
            return (me < last).then(|| (ReplicaId(me + 1), last - me));
        }
        let has_come = self.marks.before.range(slot..).next().is_some();
        self.predecessor().filter(|_| !has_come).map(|before| (before, me))
    }
}

/// Stops the timers of one slot and starts the first of them for another.
fn swap_timer<M: Mode>(
    before: Option<Slot>,
    after: Option<Slot>,
    names: &[fn(Slot) -> Timer],
    delay: Delay,
    out: &mut Effects<Shuttle<M>>,
) {
    if before == after {
        return;
    }
    if let Some(slot) = before {
        names.iter().for_each(|name| out.disarm(name(slot)));
    }
    if let (Some(slot), Some(first)) = (after, names.first()) {
        out.arm(first(slot), delay);
    }
}
