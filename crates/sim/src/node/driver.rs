//! What drives a machine in a simulated world: what the machine asks for becomes [`Act`]s, and so
//! does what it does, for those that watch.

use super::{Act, SharedDevice, SharedKept};
use crate::node::informed::Informed;
use crate::observation::Observation;
use crate::packet::{Address, Packet, member_at};
use crate::service::Journal;
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Position;
use pentarchy_core::erased::{CoreEffect, CoreEvent};
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, MemberId, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Reject, TimerKey, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Wire as _, Writer};
use pentarchy_machine::{Driver, HangUp, Kind, NoticeLog, Observed, Pause, Sent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Events that one event may cause inside one replica before something must be wrong.
const CHAIN_MAX: usize = 100_000;

/// What the driver of one replica knows and keeps.
pub(super) struct Watch {
    pub id: ReplicaId,
    pub clients: Arc<[ClientId]>,
    pub journal: Journal,
    pub device: SharedDevice,
    /// What outlives a crash, if anything does.
    pub kept: Option<SharedKept>,
    /// Of the core.
    pub membership: Arc<Membership>,
    pub is_faulty: bool,
    /// Whether the epoch counts by its device.
    pub is_admitted: bool,
    /// Milliseconds of a clock that nobody can set.
    pub elapsed_ms: u64,
    /// Events that the core consumed.
    pub steps: u64,
    /// Events that the present event may still cause.
    chain: usize,
    /// Whether the core has no reason to pass on much because of the event that it takes.
    draws_little: bool,
    /// The most messages of others that it passed on to one peer because of such an event.
    pub relayed: usize,
    /// The most envelopes of one client that were checked together.
    pub checked: usize,
    /// What the device of each other replica had certified last of what the core was handed in its
    /// epoch. The machine notes the same for itself: this is what it is compared with.
    pub handed: BTreeMap<ReplicaId, Position>,
    /// What clients are told of what is observed next.
    notices: Notices,
    /// Of which slots its clients know.
    informed: Informed,
    /// What the core of a faulty replica said in the present event.
    pub said: Vec<Bytes>,
    /// Those on whose links the machine hung up in the present event, or who left the group.
    pub hung_up: Vec<Address>,
    /// The members that joined in the present event.
    pub came: Vec<MemberId>,
    /// Those to whom it has no connection.
    pub down: BTreeSet<Address>,
    /// It has ended for another reason than its disk.
    pub has_ended: bool,
}

impl Watch {
    pub fn new(
        id: ReplicaId,
        clients: Arc<[ClientId]>,
        journal: Journal,
        device: SharedDevice,
        kept: Option<SharedKept>,
        membership: Arc<Membership>,
    ) -> Self {
        Self {
            id,
            clients,
            journal,
            device,
            kept,
            membership,
            is_faulty: false,
            is_admitted: true,
            elapsed_ms: 0,
            steps: 0,
            chain: 0,
            draws_little: false,
            relayed: 0,
            checked: 0,
            handed: BTreeMap::new(),
            notices: Notices::default(),
            informed: Informed::default(),
            said: Vec::new(),
            hung_up: Vec::new(),
            came: Vec::new(),
            down: BTreeSet::new(),
            has_ended: false,
        }
    }

    /// Another event comes from outside.
    pub const fn begin(&mut self, is_admitted: bool) {
        (self.chain, self.is_admitted) = (CHAIN_MAX, is_admitted);
    }

    /// Whether the power has failed: then nothing that the machine does counts any more.
    pub fn is_dead(&self) -> bool {
        self.has_ended || self.kept.as_ref().is_some_and(|kept| kept.borrow().is_dead())
    }

    /// What the service ran since the last call.
    pub fn drain_journal(&self) -> Vec<(Slot, ClientId, u64)> {
        core::mem::take(&mut *self.journal.lock().expect("no panic while writing"))
    }

    fn index(&self, client: &ClientId) -> Option<u16> {
        self.clients.iter().position(|known| known == client).map(|index| index as u16)
    }
}

/// What clients are told of one batch.
#[derive(Default)]
pub(super) struct Notices {
    replies: Vec<(ClientId, Vec<Reply>)>,
    events: Vec<(ClientId, u64, Bytes)>,
}

impl NoticeLog for Notices {
    fn note(&mut self, client: &ClientId, notice: &Notice) {
        match notice {
            Notice::Reply(reply) => self.note_open(client, reply),
            Notice::Event { number, body } => self.events.push((*client, *number, body.clone())),
        }
    }

    fn note_open(&mut self, client: &ClientId, reply: &Reply) {
        match self.replies.last_mut() {
            Some((last, replies)) if last == client => replies.push(reply.clone()),
            _ => self.replies.push((*client, vec![reply.clone()])),
        }
    }
}

/// Of one event.
pub(super) struct SimDriver<'a> {
    pub watch: &'a mut Watch,
    pub out: &'a mut Vec<Act>,
}

impl SimDriver<'_> {
    fn saw(&mut self, seen: Observation) {
        self.out.push(Act::Saw(seen));
    }

    fn takes(&mut self, event: &CoreEvent) {
        let watch = &mut *self.watch;
        assert!(watch.chain > 0, "{} goes on talking to itself", watch.id);
        (watch.chain, watch.steps) = (watch.chain - 1, watch.steps + 1);
        watch.draws_little = draws_little(event);
        if let CoreEvent::Message(incoming) = event
            && let Some((author, _, ui)) = incoming.certified()
        {
            let last = watch.handed.entry(*author).or_insert(ui.position);
            *last = ui.position.max(*last);
        }
    }

    fn checks(&mut self, envelopes: &[Arc<Envelope>]) {
        let mut counts: BTreeMap<ClientId, usize> = BTreeMap::new();
        for envelope in envelopes {
            *counts.entry(envelope.client).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        self.watch.checked = self.watch.checked.max(most);
    }

    fn asks(&mut self, effects: &[CoreEffect]) {
        if self.watch.draws_little {
            self.watch.relayed = self.watch.relayed.max(relays_to_one(effects));
        }
    }

    fn sent(&mut self, sent: &Sent<'_>) {
        let Sent { core, to, incoming, wire, digest, ui } = sent;
        if let Some(ui) = *ui {
            let epoch = self.watch.device.lock().expect("a panic ends the world").epoch();
            self.saw(Observation::Certified { epoch, ui, digest: *digest });
        }
        let topic = core.topic(incoming).map(Box::new);
        let (ballots, shows) = (core.ballots(incoming), core.shows(incoming).map(Box::new));
        let incoming = (*incoming).clone();
        self.saw(Observation::Said { to: *to, incoming, topic, ballots, shows });
        if self.watch.is_faulty {
            self.watch.said.push((*wire).clone());
        }
    }

    /// What clients are told of what was just executed for good, or became final.
    fn tells(&mut self) {
        let Notices { replies, events } = core::mem::take(&mut self.watch.notices);
        replies.iter().for_each(|(client, replies)| self.answers(client, replies));
        for (client, number, body) in events {
            self.saw(Observation::Told { client, number, body });
        }
    }

    fn answers(&mut self, client: &ClientId, replies: &[Reply]) {
        if !replies.is_empty() && self.watch.clients.contains(client) {
            self.saw(Observation::Replied { client: *client, replies: replies.to_vec() });
        }
    }

    /// What it executed may be taken back.
    fn speculated(&mut self, place: Place, batch: &Arc<Batch>) {
        let ran =
            self.watch.drain_journal().into_iter().map(|(_, client, number)| (client, number));
        let (ran, told) = (ran.collect(), core::mem::take(&mut self.watch.notices).replies);
        let (slot, history, batch) = (place.slot, place.history, batch.clone());
        self.saw(Observation::Speculated { slot, batch, history, ran, told });
    }

    /// What waits for the disk, and goes on.
    fn waits(&mut self, seen: &Observed<'_>) {
        let Some(kept) = &self.watch.kept else { return };
        let mut kept = kept.borrow_mut();
        let left = match seen {
            Observed::Held => return kept.holds(),
            Observed::Rests => return kept.executed_something(),
            Observed::HeldAnswer => return kept.holds_answer(),
            Observed::Leaves => kept.leaves(),
            Observed::LeavesAnswer => Some(kept.answers()),
            Observed::Vouches(slot) => Some(kept.vouches(*slot)),
            _ => None,
        };
        self.out.extend(left.map(Act::Saw));
    }

    /// What it executed, and what became of that.
    fn executes(&mut self, seen: &Observed<'_>) {
        match *seen {
            Observed::Executed { slot, batch } => {
                self.watch.informed.executed(slot, batch);
                self.saw(Observation::Executed { slot, batch: batch.clone() });
                self.tells();
            }
            Observed::Speculated { place, batch } => {
                self.watch.informed.speculated(place.slot, batch);
                self.speculated(place, batch);
            }
            Observed::Committed(upto) => {
                self.watch.informed.committed(upto);
                self.saw(Observation::Committed { upto });
                self.tells();
            }
            Observed::RolledBack(after) => {
                // What stays ran before.
                self.watch.drain_journal();
                self.watch.informed.rolled_back(after);
                self.saw(Observation::RolledBack { after });
            }
            _ => self.waits(seen),
        }
    }

    /// States, views and epochs.
    fn stands(&mut self, seen: &Observed<'_>) {
        if let Observed::Began(membership) = seen {
            let before = self.watch.membership.clone();
            let members = membership.members.iter().map(|it| it.id);
            self.watch.came.extend(members.filter(|id| before.index_of(*id).is_none()));
            self.watch.membership = (*membership).clone();
            self.watch.handed.clear();
            self.watch.informed = Informed::default();
        }
        if let Observed::Installed(slot, _) = *seen {
            self.watch.informed.installed(slot);
        }
        self.saw(match *seen {
            Observed::Checkpointed(slot, state) => Observation::Checkpointed { slot, state },
            Observed::Stable(slot, state) => Observation::Stable { slot, state },
            Observed::Fetching(slot, state) => Observation::Fetching { slot, state },
            Observed::Installed(slot, state) => Observation::Installed { slot, state },
            Observed::Entered(view, reason) => Observation::Entered { view, reason },
            Observed::Diverged(slot) => Observation::Diverged { slot },
            Observed::Ended(handover) => Observation::Ended(handover.clone()),
            Observed::Began(membership) => Observation::Began(membership.clone()),
            Observed::Resumes { epoch, is_answered } => Observation::Resumes { epoch, is_answered },
            Observed::Petitions(envelope) => {
                let [request] = &envelope.requests[..] else { return };
                let (number, operation) = (request.number, request.operation.clone());
                Observation::Asked { number, operation }
            }
            _ => return self.executes(seen),
        });
    }
}

impl Driver for SimDriver<'_> {
    type Notices = Notices;

    fn send_peer(&mut self, peer: MemberId, _: Kind, encode: impl FnOnce(&mut Writer)) {
        let to = Address::of(peer);
        if !self.watch.is_dead() && !self.watch.down.contains(&to) {
            let mut writer = Writer::default();
            encode(&mut writer);
            let packet = Packet::from_link(&writer.into_bytes());
            self.out.push(Act::Send { to, packet });
        }
    }

    fn send_client(&mut self, client: &ClientId, message: &ToClient) -> bool {
        if let Some(index) = self.watch.index(client)
            && !self.watch.is_dead()
            && !self.watch.down.contains(&Address::Client(index))
        {
            let confirmed = self.watch.informed.confirmed(message);
            let supports = self.watch.informed.tell(client, message);
            self.out.extend(confirmed.into_iter().chain(supports).map(Act::Saw));
            let begun = self.watch.membership.stated.as_ref().map_or(0, |stated| stated.number);
            let packet = Packet::ToClient(begun, message.to_bytes());
            self.out.push(Act::Send { to: Address::Client(index), packet });
        }
        true
    }

    fn hang_up(&mut self, client: &ClientId, why: HangUp) {
        let why = match why {
            HangUp::Malformed => Reject::Malformed,
            HangUp::NotItsOwn | HangUp::NotAuthentic => Reject::BadRequest,
        };
        if let Some(index) = self.watch.index(client) {
            self.saw(Observation::Rejected { from: Address::Client(index), why });
            self.watch.hung_up.push(Address::Client(index));
        }
    }

    fn pause_client(&mut self, client: &ClientId, pause: Pause) {
        if let Some(index) = self.watch.index(client) {
            let (whom, is_flood) = (Address::Client(index), pause == Pause::Flood);
            self.out.push(Act::Pause { whom, is_flood });
        }
    }

    fn pause_peer(&mut self, peer: MemberId) {
        self.out.push(Act::Pause { whom: Address::of(peer), is_flood: true });
    }

    fn on_members(&mut self, membership: &Membership) {
        let members = self.watch.membership.members.iter().map(|it| it.id);
        let left = members.filter(|id| membership.index_of(*id).is_none());
        self.watch.hung_up.extend(left.map(Address::of));
    }

    fn peer_queued_bytes(&self, _: MemberId) -> usize {
        0
    }

    fn client_queued_bytes(&self, _: &ClientId) -> usize {
        0
    }

    fn arm(&mut self, timer: TimerKey, after: Delay) {
        self.out.push(Act::Arm { timer, after });
    }

    fn disarm(&mut self, timer: TimerKey) {
        self.out.push(Act::Disarm(timer));
    }

    fn disarm_all(&mut self) {
        self.out.push(Act::DisarmAll);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.watch.elapsed_ms)
    }

    fn observe(&mut self, seen: Observed<'_>) {
        if let Observed::Takes(event) = seen {
            return self.takes(event);
        }
        if self.watch.is_dead() {
            return;
        }
        match seen {
            Observed::Asks(effects) => self.asks(effects),
            Observed::Checks(envelopes) => self.checks(envelopes),
            Observed::Sent(sent) => self.sent(&sent),
            Observed::Relayed { to, kind, wire } => {
                self.saw(Observation::Relayed { to, kind, wire: wire.clone() });
            }
            Observed::Reported(evidence) => self.saw(Observation::Reported(*evidence)),
            // A replica that is not admitted understands nothing of what the others say.
            Observed::Rejected(..) if !self.watch.is_admitted => {}
            Observed::Rejected(peer, why) => {
                self.saw(Observation::Rejected { from: Address::of(peer), why });
            }
            Observed::Answered(client, replies) => self.answers(client, replies),
            Observed::Query(client, number) => {
                self.saw(Observation::Queried { client: *client, number });
            }
            Observed::Answer(client, number, state) => {
                self.saw(Observation::Answered { client: *client, number, state });
            }
            Observed::Told { message: ToClient::Committed(place), executed } => {
                if place.slot <= executed {
                    self.watch.informed.confirms(*place);
                }
            }
            _ => self.stands(&seen),
        }
    }

    fn on_notices(&mut self, notices: Notices) {
        self.watch.notices = notices;
    }

    fn on_own_refused(&mut self, _: Kind, why: Reject) {
        let me = member_at(self.watch.id);
        self.observe(Observed::Rejected(me, why));
    }

    fn leaves_out_refused(&self) -> bool {
        self.watch.is_faulty
    }
}

/// Whether a replica has no reason to pass on much because of this. A report is answered with all
/// that its sender lacks, which has a bound of its own.
fn draws_little(event: &CoreEvent) -> bool {
    match event {
        CoreEvent::Message(incoming) => incoming.kind() != "report",
        CoreEvent::Client(..) => true,
        CoreEvent::Timeout(_) | CoreEvent::Input(_) => false,
    }
}

/// The most messages of others that are passed on to one peer. None are counted where a view was
/// entered: what had come early is dealt with then, each message by itself.
fn relays_to_one(effects: &[CoreEffect]) -> usize {
    let entered =
        |effect: &CoreEffect| matches!(effect, CoreEffect::Output(Output::Entered { .. }));
    if effects.iter().any(entered) {
        return 0;
    }
    let mut counts: BTreeMap<ReplicaId, usize> = BTreeMap::new();
    let mut to_all = 0;
    for effect in effects {
        match effect {
            CoreEffect::Relay { to: To::One(id), .. } => *counts.entry(*id).or_default() += 1,
            CoreEffect::Relay { to: To::Set(set), .. } => {
                set.iter().for_each(|id| *counts.entry(id).or_default() += 1);
            }
            CoreEffect::Relay { .. } => to_all += 1,
            _ => {}
        }
    }
    counts.values().max().copied().unwrap_or_default() + to_all
}
