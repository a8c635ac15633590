//! What happens to replicas: packets, timers, rounds; and what comes of it.

use super::{Happening, World};
use crate::adversary::Departure;
use crate::checker::Verdict;
use crate::node::{Act, Address, Observation, Packet};
use crate::time::Micros;
use pentarchy_core::ids::{Millis, ReplicaId};
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::protocol::TimerKey;
use pentarchy_core::wire::Wire;

impl World {
    /// True if the replica cannot take an event now; it is put off until the pause ends.
    pub(super) fn puts_off(&mut self, index: usize, happening: impl FnOnce() -> Happening) -> bool {
        let replica = &self.replicas[index];
        if replica.crashed {
            return true;
        }
        let until = replica.paused_until;
        if until > self.now {
            self.schedule(until, happening());
            return true;
        }
        false
    }

    pub(super) fn arrive(&mut self, from: Address, to: Address, packet: Packet) -> Verdict {
        let id = match to {
            Address::Replica(id) => id,
            Address::Client(client) => {
                return self.client_arrive(from, usize::from(client), &packet);
            }
        };
        let index = usize::from(id.0);
        if self.puts_off(index, || Happening::Arrive { from, to, packet: packet.clone() }) {
            return Ok(());
        }
        self.audit.note(self.now, packet.kind(), u64::from(id.0), packet.bytes());
        let replica = &mut self.replicas[index];
        if let Some(adversary) = &mut replica.adversary
            && !adversary.hears(from, &packet, &mut replica.rng)
        {
            return Ok(());
        }
        let full = replica.rng.chance(self.options.busy_ppm) && !self.healed;
        if let Some(busy) = busy(&packet).filter(|_| full) {
            self.transmit(to, from, busy);
            return Ok(());
        }
        let mut acts = core::mem::take(&mut self.acts);
        self.replicas[index].node.on_packet(from, &packet, &mut acts);
        self.want_round(index);
        self.carry_out(index, acts)
    }

    pub(super) fn timeout(&mut self, index: usize, timer: TimerKey, arming: u64) -> Verdict {
        if self.puts_off(index, || Happening::Timeout { replica: index, timer, arming }) {
            return Ok(());
        }
        let replica = &mut self.replicas[index];
        match replica.timers.get(&timer) {
            Some(armed) if *armed == arming => {
                replica.timers.remove(&timer);
            }
            // Disarmed, or armed anew. The host may have been about to deliver it nevertheless.
            _ if !replica.rng.chance(self.options.stale_timer_ppm) => return Ok(()),
            _ => {}
        }
        self.audit.note(self.now, 10, index as u64, &timer.1.to_le_bytes());
        self.note(ReplicaId(index as u16), |_| format!("timeout {timer:?}"));
        let mut acts = core::mem::take(&mut self.acts);
        self.replicas[index].node.on_timeout(timer, &mut acts);
        self.want_round(index);
        self.carry_out(index, acts)
    }

    pub(super) fn round(&mut self, index: usize) -> Verdict {
        if self.replicas[index].round_at != Some(self.now) {
            return Ok(());
        }
        if self.puts_off(index, || Happening::Round(index)) {
            let until = self.replicas[index].paused_until;
            self.replicas[index].round_at = Some(until);
            return Ok(());
        }
        let replica = &mut self.replicas[index];
        replica.round_at = None;
        let now = replica.clock.read(self.now);
        self.audit.note(self.now, 11, index as u64, &[]);
        let mut acts = core::mem::take(&mut self.acts);
        replica.node.on_round(now, &mut acts);
        if let Some(time) = replica.node.wake_at() {
            // At least a millisecond on, or a wish that is due would be granted for ever.
            let at = replica.clock.when(time, self.now).max(self.now + 1_000);
            self.round_by(index, at);
        }
        self.carry_out(index, acts)
    }

    pub(super) fn want_round(&mut self, index: usize) {
        let span = self.options.round_us;
        let at = self.now + self.replicas[index].rng.below(span + 1);
        self.round_by(index, at);
    }

    pub(super) fn round_by(&mut self, index: usize, at: Micros) {
        let replica = &mut self.replicas[index];
        if replica.round_at.is_none_or(|known| at < known) {
            replica.round_at = Some(at);
            self.schedule(at, Happening::Round(index));
        }
    }

    pub(super) fn carry_out(&mut self, index: usize, mut acts: Vec<Act>) -> Verdict {
        let id = ReplicaId(index as u16);
        let faulty = self.replicas[index].adversary.is_some();
        let count = acts.len();
        let mut packet_bytes = 0;
        let mut verdict = Ok(());
        for act in acts.drain(..) {
            if let Act::Saw(seen) = &act {
                self.note(id, |world| world.describe(id, seen));
            }
            match act {
                Act::Send { to, packet } => {
                    packet_bytes = packet_bytes.max(packet.bytes().len());
                    self.send(index, to, packet);
                }
                Act::Arm { timer, after } => {
                    self.arm(index, timer, self.options.timeouts.millis(after))
                }
                Act::Disarm(timer) => {
                    self.replicas[index].timers.remove(&timer);
                }
                Act::Saw(Observation::Rejected { from, why }) => {
                    let correct = !faulty && self.is_correct(from);
                    verdict = verdict.and(self.oracle.refused(id, from, correct, why));
                }
                Act::Saw(seen) => {
                    verdict = verdict.and(self.oracle.saw(id, faulty, &seen, &mut self.audit))
                }
            }
        }
        self.acts = acts;
        let replica = &self.replicas[index];
        let ran = replica.node.drain_journal();
        verdict?;
        if faulty {
            return Ok(());
        }
        self.oracle.ran(id, ran)?;
        let status = replica.node.core().status();
        self.oracle.bounds(id, &status, (count, packet_bytes, replica.timers.len()))
    }

    pub(super) fn arm(&mut self, index: usize, timer: TimerKey, millis: u64) {
        let arming = self.sequence + 1;
        let replica = &mut self.replicas[index];
        replica.timers.insert(timer, arming);
        let due = Millis(replica.clock.read(self.now).0 + millis);
        let at = replica.clock.when(due, self.now).max(self.now + 1);
        self.schedule(at, Happening::Timeout { replica: index, timer, arming });
    }

    pub(super) fn send(&mut self, index: usize, to: Address, packet: Packet) {
        let from = Address::Replica(ReplicaId(index as u16));
        let replica = &mut self.replicas[index];
        let Some(adversary) = &mut replica.adversary else {
            return self.transmit(from, to, packet);
        };
        let mut departures = Vec::new();
        adversary.on_send(to, packet, &mut replica.rng, &mut departures);
        for Departure { after, to, packet } in departures {
            for at in self.network.arrivals(self.now + after, from, to).into_iter().flatten() {
                self.messages += 1;
                self.schedule(at, Happening::Arrive { from, to, packet: packet.clone() });
            }
        }
    }

    pub(super) fn transmit(&mut self, from: Address, to: Address, packet: Packet) {
        let [first, second] = self.network.arrivals(self.now, from, to);
        if let Some(at) = second {
            self.messages += 1;
            self.schedule(at, Happening::Arrive { from, to, packet: packet.clone() });
        }
        if let Some(at) = first {
            self.messages += 1;
            self.schedule(at, Happening::Arrive { from, to, packet });
        }
    }

    pub(super) fn is_correct(&self, address: Address) -> bool {
        match address {
            Address::Replica(id) => self.replicas[usize::from(id.0)].adversary.is_none(),
            Address::Client(_) => true,
        }
    }
}

fn busy(packet: &Packet) -> Option<Packet> {
    let Packet::ToReplica(bytes) = packet else { return None };
    match ToReplica::from_bytes(bytes) {
        Ok(ToReplica::Request(envelope)) => {
            let number = envelope.requests.first()?.number;
            Some(Packet::ToClient(ToClient::Busy { number }.to_bytes()))
        }
        _ => None,
    }
}
