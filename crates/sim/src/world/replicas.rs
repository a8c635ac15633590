//! What happens to replicas: packets, timers, rounds; and what comes of it.

use super::log::What;
use super::moves::Input;
use super::{Armed, Client, Happening, World};
use crate::adversary::{Adversary as _, Busy, Departure};
use crate::checker::moving_on::Timers;
use crate::checker::{Verdict, bounds, counter_loss, leaving, retirement};
use crate::hearing::Hearing;
use crate::node::{Act, ReplicaNode, Statuses};
use crate::observation::Observation;
use crate::packet::{Address, Packet, member_of, place_of};
use crate::quiet;
use crate::swarm::{DiskOptions, Options};
use crate::time::Micros;
use pentarchy_core::authored;
use pentarchy_core::ids::{Millis, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::{Delay, Reject, Status, TimerKey};
use pentarchy_storage::kept::Job;
use std::sync::Arc;

/// Syncs that saving a state takes: of two files, and their folder.
const SYNCS_OF_A_STATE: u64 = 4;

/// A client makes its MACs under members' present keys so long after the last of them has begun
/// with a configuration, and what it sent before has come by then.
const FOLLOWS_WITHIN: Micros = 4_000_000;

/// How long a replica does not listen to somebody for whose words it has no room, ...
const PAUSE: Micros = 20_000;

/// ... and at most, if it is a flood that goes on.
const FLOOD_PAUSE: Micros = 160_000;

/// What a replica did in one event that others look at.
#[derive(Default)]
pub(super) struct Happened {
    /// It executed something.
    ran: bool,
    /// Its epoch ended.
    pub(super) ended: bool,
    /// A checkpoint became stable.
    pub(super) stable: bool,
    /// It has a state that it fetched.
    pub(super) installed: bool,
    /// The epochs that it began.
    began: Vec<Arc<Membership>>,
}

impl Happened {
    fn note(&mut self, seen: &Observation) {
        match seen {
            Observation::Executed { .. } => self.ran = true,
            Observation::Ended(_) => self.ended = true,
            Observation::Stable { .. } => self.stable = true,
            Observation::Installed { .. } => self.installed = true,
            Observation::Began(membership) => self.began.push(membership.clone()),
            _ => {}
        }
    }
}

impl World<'_> {
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
        if index >= self.replicas.len() {
            // A machine that may join some day.
            return Ok(());
        }
        if self.possessed.contains(id) {
            self.deceive(from, &packet);
            return Ok(());
        }
        if self.puts_off(index, || Happening::Arrive { from, to, packet: packet.clone() }) {
            return Ok(());
        }
        let heard_at = self.replicas[index].pauses.get(&from).map_or(0, |pause| pause.until);
        if heard_at > self.now {
            self.schedule(heard_at, Happening::Arrive { from, to, packet });
            return Ok(());
        }
        if self.is_left_unheard(index, from, &packet) || self.hears_later(index, from, &packet) {
            return Ok(());
        }
        self.audit.note(self.now, packet.kind(), u64::from(id.0), packet.bytes());
        let replica = &mut self.replicas[index];
        if let Some(adversary) = &mut replica.adversary
            && !adversary.hears(from, &packet, &mut replica.rng)
        {
            return Ok(());
        }
        if let Some(answer) = replica.adversary.as_mut().and_then(|it| it.turns_down(&packet)) {
            self.transmit(to, from, answer);
            return Ok(());
        }
        let full = replica.rng.chance(self.options.busy_ppm) && !self.healed;
        if let Some(busy) = Busy::answer(&packet).filter(|_| full) {
            self.transmit(to, from, busy);
            return Ok(());
        }
        self.handles(|| Input::Packet(packet.kind(), message_kind(&packet).unwrap_or_default()));
        let acts = self.drive(index, |node, acts| node.on_packet(from, &packet, acts));
        self.want_round(index);
        self.carry_out(index, acts)
    }

    /// A replica does not listen to somebody for a moment: what that one says meanwhile waits.
    fn pause(&mut self, index: usize, whom: Address, is_flood: bool) {
        let pause = self.replicas[index].pauses.entry(whom).or_default();
        if pause.until <= self.now {
            let goes_on = is_flood && self.now <= pause.until + PAUSE;
            pause.lasts = if goes_on { (2 * pause.lasts).clamp(PAUSE, FLOOD_PAUSE) } else { PAUSE };
            pause.until = self.now + pause.lasts;
        }
    }

    /// Lets a replica do something. What becomes of the core of a faulty one is nobody's concern:
    /// if it panics, the replica falls silent.
    fn drive(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut ReplicaNode<'_>, &mut Vec<Act>),
    ) -> Vec<Act> {
        let mut acts = core::mem::take(&mut self.acts);
        let replica = &mut self.replicas[index];
        let node = &mut replica.node;
        node.on_clock(self.now / 1_000, replica.clock.read(self.now));
        let act = || act(node, &mut acts);
        if replica.sound {
            act();
        } else if quiet::catch(act).is_err() {
            replica.crashed = true;
        }
        acts
    }

    pub(super) fn timeout(&mut self, index: usize, timer: TimerKey, arming: u64) -> Verdict {
        if self.puts_off(index, || Happening::Timeout { replica: index, timer, arming }) {
            return Ok(());
        }
        let replica = &mut self.replicas[index];
        if arming < replica.timers_from {
            return Ok(());
        }
        match replica.timers.get(&timer) {
            Some(armed) if armed.arming == arming => {
                replica.timers.remove(&timer);
            }
            // Disarmed, or armed anew. The host may have been about to deliver it nevertheless.
            _ if !replica.rng.chance(self.options.stale_timer_ppm) => return Ok(()),
            _ => {}
        }
        self.audit.note(self.now, 10, index as u64, &timer.1.to_le_bytes());
        self.note(self.place(index), |_| What::Timeout(timer));
        self.handles(|| Input::Timer(timer.0));
        let acts = self.drive(index, |node, acts| node.on_timeout(timer, acts));
        self.want_round(index);
        self.carry_out(index, acts)
    }

    /// Has the disk of a replica begin what waits for it. How long that takes says the world; when
    /// everything has healed, no job takes long.
    fn begin_disk_jobs(&mut self, index: usize) {
        let DiskOptions { sync_us, slow_ppm, slow_log_ppm, slow_us, .. } = self.options.disk;
        for job in Job::ALL {
            let begun = self.sequence + 1;
            let replica = &mut self.replicas[index];
            if !replica.node.kept().is_some_and(|mut kept| kept.begin(job)) {
                continue;
            }
            let syncs = if job == Job::States { SYNCS_OF_A_STATE } else { 1 };
            let slow_ppm = slow_ppm.saturating_mul(syncs as u32);
            let slow_ppm = slow_ppm.max(if job == Job::Log { slow_log_ppm } else { 0 });
            let slow = !self.healed && replica.rng.chance(slow_ppm);
            let takes = replica.rng.around(sync_us * syncs) + if slow { slow_us } else { 0 };
            self.schedule(self.now + takes, Happening::Disk { replica: index, job, begun });
        }
    }

    pub(super) fn disk_done(&mut self, index: usize, job: Job, begun: u64) -> Verdict {
        if begun < self.replicas[index].disk_from
            || self.puts_off(index, || Happening::Disk { replica: index, job, begun })
        {
            return Ok(());
        }
        self.audit.note(self.now, 15, index as u64, &[job as u8]);
        self.handles(|| Input::Disk);
        let acts = self.drive(index, |node, acts| node.on_disk(job, acts));
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
        self.audit.note(self.now, 11, index as u64, &[]);
        self.handles(|| Input::Round);
        let acts = self.drive(index, |node, acts| node.on_round(acts));
        // At least a millisecond on, or a wish that is due would be granted for ever.
        let wakes_at = self.replicas[index].node.wake_at().0.saturating_mul(1_000);
        let at = wakes_at.max(self.now + 1_000);
        self.round_by(index, at);
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
        let id = self.replicas[index].id;
        let faulty = self.replicas[index].adversary.is_some();
        self.tell_whether_it_leads(index);
        let mut load = bounds::Load { acts: caused(&acts), ..bounds::Load::default() };
        let mut verdict = Ok(());
        let asks = acts.iter().any(|act| matches!(act, Act::Saw(seen) if seen.asks()));
        let mut happened = Happened::default();
        for act in acts.drain(..) {
            if let (Act::Saw(seen), true) = (&act, self.log.is_some()) {
                self.note(self.place(index), |world| world.describe(index, seen));
            }
            match act {
                Act::Send { to, packet } => {
                    load.note(&packet);
                    self.send(index, to, packet);
                }
                Act::Arm { timer, after } => self.arm(index, timer, after),
                Act::Disarm(timer) => {
                    self.replicas[index].timers.remove(&timer);
                }
                Act::DisarmAll => {
                    let timers_from = self.sequence + 1;
                    let replica = &mut self.replicas[index];
                    replica.timers.clear();
                    replica.timers_from = timers_from;
                }
                Act::Pause { whom, is_flood } => self.pause(index, whom, is_flood),
                Act::Saw(seen) => {
                    happened.note(&seen);
                    if !faulty {
                        self.cover_seen(index, &seen);
                    }
                    verdict = verdict.and(self.sees(index, seen));
                }
            }
        }
        self.acts = acts;
        let node = &self.replicas[index].node;
        let ran = if happened.ran { node.drain_journal() } else { Vec::new() };
        verdict?;
        self.begin_disk_jobs(index);
        if faulty {
            return Ok(());
        }
        self.cover(index);
        self.oracle.ran(id, ran)?;
        self.look_at_confirmed(index)?;
        let mut began = happened.began.iter();
        began.try_for_each(|members| self.look_who_joins_and_leaves(index, members))?;
        self.look_whether_dead(index);
        self.look_whether_level(index);
        self.look_whether_to_strike(index, &happened);
        self.look_whether_alone(index);
        self.release(index);
        self.look_where_it_stands(index, asks, load)
    }

    /// Something of a replica was seen.
    fn sees(&mut self, index: usize, seen: Observation) -> Verdict {
        let id = self.replicas[index].id;
        let faulty = self.replicas[index].adversary.is_some();
        match seen {
            Observation::Rejected { from, why } => {
                let correct = !faulty
                    && self.is_correct(from)
                    && self.is_known(index, from)
                    && !self.shares_other_keys(index, from, why);
                return self.oracle.refused(id, from, correct, why);
            }
            Observation::Reported(evidence) => {
                let author = place_of(&self.replicas[index].members, evidence.author);
                let author = author.is_some_and(|it| self.is_correct(Address::Replica(it)));
                return self.oracle.reported(id, faulty, &evidence, author);
            }
            Observation::Resumes { epoch, is_answered } => {
                return self.on_resumed(index, epoch, is_answered);
            }
            Observation::Lied { .. } => self.lies += 1,
            Observation::LostCounter => self.end_life(index),
            Observation::Removed { .. } => {
                let id = self.replicas[index].id;
                if self.replicas[index].adversary.is_none() {
                    retirement::left(id, self.rings[usize::from(id.0)].lock().count())?;
                    self.possess(id);
                }
                self.leave(index);
            }
            Observation::Rewound(_) if self.replicas[index].doubtful => self.on_rewound(index),
            seen => {
                if let Observation::Began(membership) = &seen {
                    if membership.configuration != self.replicas[index].members.configuration {
                        self.changed_at = Some(self.now);
                    }
                    self.replicas[index].members = membership.clone();
                    let justification = self.replicas[index].node.core().justification();
                    let rules = self.factories.of(membership).rules;
                    self.oracle.judge_by(membership.epoch, justification, &rules);
                }
                return self.oracle.saw(id, faulty, &seen, self.now, &mut self.audit);
            }
        }
        Ok(())
    }

    /// Whether a correct replica that did this stands where it may.
    fn look_where_it_stands(&mut self, index: usize, asks: bool, load: bounds::Load) -> Verdict {
        let statuses = self.replicas[index].node.statuses();
        self.look_whether_it_moves_on(index, statuses.cores(), asks)?;
        self.look_whether_within_bounds(index, &statuses, load)
    }

    /// A faulty replica's host knows whether the core that it runs leads.
    fn tell_whether_it_leads(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if let Some(adversary) = &mut replica.adversary {
            adversary.leads(replica.node.core().status().primary == replica.node.me());
        }
    }

    /// Whether a timer leads a correct replica on that is in no working view.
    fn look_whether_it_moves_on(&mut self, index: usize, cores: &[Status], asks: bool) -> Verdict {
        let replica = &mut self.replicas[index];
        let timers = Timers::of(replica.timers.values().map(|armed| armed.after));
        let verdict = replica.moving_on.stepped(replica.id, cores, asks, timers);
        if replica.crashed || !replica.node.has_spoken() { Ok(()) } else { verdict }
    }

    /// What a correct replica did, holds and would show.
    fn look_whether_within_bounds(
        &mut self,
        index: usize,
        statuses: &Statuses,
        mut load: bounds::Load,
    ) -> Verdict {
        let replica = &mut self.replicas[index];
        let (id, node) = (replica.id, &mut replica.node);
        counter_loss::goes_on(id, !replica.crashed && node.counter_failure().1)?;
        if node.is_due_to_show(statuses) {
            leaving::shown(id, node.shows_what_it_accepts())?;
        }
        (load.relays, load.checked) = (node.take_relayed(), node.take_checked());
        let node = &self.replicas[index].node;
        load.timers = self.replicas[index].timers.len();
        load.snapshots = node.executor().snapshots();
        load.sessions = node.executor().clients();
        load.started_at = node.started_at();
        self.oracle.stands(id, &statuses.whole, &load, self.now)
    }

    pub(super) fn arm(&mut self, index: usize, timer: TimerKey, after: Delay) {
        let (arming, millis) = (self.sequence + 1, self.options.timeouts.millis(after));
        let replica = &mut self.replicas[index];
        let due = Millis(replica.clock.read(self.now).0 + millis);
        let at = replica.clock.when(due, self.now).max(self.now + 1);
        replica.timers.insert(timer, Armed { arming, at, after });
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
            self.transmit_at(self.now + after, from, to, packet);
        }
    }

    pub(super) fn transmit(&mut self, from: Address, to: Address, packet: Packet) {
        self.transmit_at(self.now, from, to, packet);
    }

    /// Sends a packet from a place, or a client, to wherever the addressee is.
    fn transmit_at(&mut self, at: Micros, from: Address, to: Address, packet: Packet) {
        if let Address::Replica(id) = to {
            for copy in self.options.n..self.replicas.len() {
                if self.replicas[copy].id == id && copy != usize::from(id.0) {
                    let copy = Address::Replica(ReplicaId(copy as u16));
                    self.launch(at, from, copy, packet.clone());
                }
            }
        }
        self.launch(at, from, to, packet);
    }

    fn launch(&mut self, at: Micros, from: Address, to: Address, packet: Packet) {
        let leaves_at = self.leaves_at(at, from, to, &packet);
        let arrivals = leaves_at.map(|at| self.network.arrivals(at, from, to));
        let arrivals = arrivals.unwrap_or_default();
        let who = match from {
            Address::Replica(place) => self.place(usize::from(place.0)),
            Address::Client(index) => super::log::Place::Client(index),
        };
        let (kind, bytes) = (packet.kind(), packet.bytes().len());
        self.note(who, |world| {
            let text = world.describe_packet(who, &packet);
            What::Departs { to, kind, bytes, arrivals, text }
        });
        let from = match from {
            Address::Replica(place) => Address::Replica(self.replicas[usize::from(place.0)].id),
            client => client,
        };
        let [first, second] = arrivals;
        if let Some(at) = second {
            self.messages += 1;
            self.schedule(at, Happening::Arrive { from, to, packet: packet.clone() });
        }
        if let Some(at) = first {
            self.messages += 1;
            self.schedule(at, Happening::Arrive { from, to, packet });
        }
    }

    /// When a message begins its way: at once, unless the world draws that this replica does not
    /// hear it, or not yet. None if it never does.
    fn leaves_at(&self, at: Micros, from: Address, to: Address, packet: &Packet) -> Option<Micros> {
        if self.reaches(from, to, packet) {
            return Some(at);
        }
        let Options { hears_late_us: late, heal_at, .. } = self.options;
        (late > 0).then(|| (at + late).min(heal_at.max(at)))
    }

    /// Whether what a replica says is for this one to hear, where a world draws that.
    fn reaches(&self, from: Address, to: Address, packet: &Packet) -> bool {
        let Options { hearing: number, n, f, .. } = self.options;
        if number == 0 || self.healed {
            return true;
        }
        let (Address::Replica(from), Address::Replica(to)) = (from, to) else { return true };
        let Some(kind) = message_kind(packet) else { return true };
        let view = self.replicas[usize::from(from.0)].node.core().status().view;
        Hearing { number, n, f }.reaches(view, kind, from, to)
    }

    pub(super) fn is_correct(&self, address: Address) -> bool {
        match address {
            Address::Replica(id) => {
                let replica = self.replicas.get(usize::from(id.0));
                replica.is_some_and(|replica| replica.adversary.is_none())
            }
            Address::Client(index) => usize::from(index) < self.clients.len(),
        }
    }

    /// Whether a replica may refuse a client's request because the client made its MACs for another
    /// configuration. The client hears of that, and makes others.
    fn shares_other_keys(&self, index: usize, address: Address, why: Reject) -> bool {
        // What a replica passes on has convinced that replica in the same configuration.
        let Address::Client(client) = address else { return false };
        let number = self.replicas[index].members.number();
        let is_behind = |client: &Client<'_>| client.node.configuration() != number;
        let differs = self.clients.get(usize::from(client)).is_none_or(is_behind);
        let late = FOLLOWS_WITHIN + 1_000 * self.options.workload.follow_late_ms;
        let may_differ = differs || self.changed_at.is_some_and(|at| self.now < at + late);
        why == Reject::BadRequest && self.crypto.shares_keys() && may_differ
    }

    /// Whether this is a client, or has a place in the epoch of a replica.
    fn is_known(&self, index: usize, address: Address) -> bool {
        match address {
            Address::Replica(id) => member_of(&self.replicas[index].members, id).is_some(),
            Address::Client(_) => true,
        }
    }
}

/// A number for the kind of a protocol's message: the first byte of its body, 0 if it is malformed.
/// None if the packet is none of a protocol.
fn message_kind(packet: &Packet) -> Option<u8> {
    let Packet::Protocol(_, wire) = packet else { return None };
    let body = authored::divide(wire).map(|(_, _, body)| body);
    Some(body.and_then(|mut body| body.u8()).unwrap_or_default())
}

/// How many of these acts their event caused. What waited for a slow disk leaves all at once, each
/// message to each of its receivers, and is not what this event caused.
fn caused(acts: &[Act]) -> usize {
    let mut leaves = false;
    let is_caused = |act: &&Act| {
        let is_sent = matches!(
            act,
            Act::Send { .. } | Act::Saw(Observation::Said { .. } | Observation::Relayed { .. })
        );
        leaves = matches!(act, Act::Saw(Observation::Left { .. })) || (leaves && is_sent);
        !leaves
    };
    acts.iter().filter(is_caused).count()
}
