//! Where each peer is, as far as this replica has heard, and what it was sent since the last tick:
//! a question is small, its answer is not, and whoever asks may be lying. Says who is stuck, who is
//! level, who is left out by the primary, and who may be sent something more.

use super::checks::vouched;
use super::forward_to::ForwardTo;
use super::message::{More, Report};
use super::reply_quota::ReplyQuota;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::RESEND_BYTES_MAX;
use pentarchy_core::mutant;

/// How often a proposal that others have taken up is asked for out of turn; then ticks have to do.
const GAP_ASKS: u8 = 4;

/// How often a peer that is stuck is sent what it lacks of its slots between two ticks: once for
/// its own tick, and as often as it asks out of turn.
const SLOT_ANSWERS_MAX: u8 = 1 + GAP_ASKS;

/// See the [module](self). `M` is what a protocol's reports say beside what all say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peers<M> {
    me: ReplicaId,
    f: usize,
    /// Messages about slots that a peer is sent again between two ticks: whom a primary leaves out
    /// of every slot needs as many.
    repeated_max: usize,
    /// One entry for each replica.
    peers: Vec<Peer<M>>,
    /// Ticks since the start; rotates whom to ask.
    ticks: u64,
    /// Whether the timer for the next tick runs, at which a report goes out.
    is_timed: bool,
    /// The slot whose proposal is waited for although others have it, and how often it was asked
    /// for out of turn; counted only while its timer runs.
    gap: Option<(Slot, u8)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Peer<M> {
    /// Its last report, and what this replica had executed by then.
    heard: Option<(Report<M>, Slot)>,
    /// The last slot for which it is known to have voted.
    voted: Slot,
    /// Whether it is shown every proposal of the view at once.
    forward_to: ForwardTo,
    sent: Sent,
}

/// What a peer was sent since the last tick.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Sent {
    /// Whether it was sent what it lacks of what was said about views and checkpoints.
    is_answered: bool,
    /// How often it was sent what it lacks of its slots.
    slot_answers: u8,
    /// Messages about slots that it was sent again, and their bytes.
    repeated: (usize, usize),
    /// What it was sent because it asked for it by its digest.
    quota: ReplyQuota,
}

impl<M: More> Peers<M> {
    /// None has been heard of `n` replicas, of which `f` may be faulty. Each may be sent so many
    /// messages about slots again between two ticks.
    #[must_use]
    pub fn new(me: ReplicaId, (n, f): (usize, usize), repeated_max: usize) -> Self {
        let (forward_to, sent) = (ForwardTo::default(), Sent::default());
        let peer = Peer { heard: None, voted: Slot(0), forward_to, sent };
        Self { me, f, repeated_max, peers: vec![peer; n], ticks: 0, is_timed: false, gap: None }
    }

    fn entry(&mut self, id: ReplicaId) -> &mut Peer<M> {
        &mut self.peers[usize::from(id.0)]
    }

    /// Takes note of where a peer is, and says whether it is stuck. A report is old by the time it
    /// arrives, so one alone shows nothing. But who says the same twice has a gap; and so has who
    /// lacks at the second one still what had been decided here at the first, however much of later
    /// slots came meanwhile.
    pub fn hear(&mut self, from: ReplicaId, report: Report<M>, executed: Slot) -> bool {
        let heard = &mut self.entry(from).heard;
        let Some((before, decided)) = heard.replace((report, executed)) else { return false };
        let reached = |it: Report<M>| (it.executed, it.prepared, it.more.reached());
        let lags = report.executed == before.executed
            && report.executed < decided
            && !mutant!("frame.stuck-only-if-idle");
        lags || reached(before) == reached(report)
    }

    /// The last report of each peer.
    pub fn reports(&self) -> impl Iterator<Item = &Report<M>> {
        self.peers.iter().filter_map(|peer| peer.heard.as_ref()).map(|(report, _)| report)
    }

    /// The last slot that somebody correct reports as final.
    #[must_use]
    pub fn last_final(&self) -> Slot {
        vouched(self.reports().map(Report::last_final), self.f)
    }

    /// The peers whose last report says this.
    pub fn that_say(&self, this: impl Fn(&Report<M>) -> bool) -> ReplicaSet {
        let says = |peer: &Peer<M>| peer.heard.as_ref().is_some_and(|(report, _)| this(report));
        let peers = (0u16..).map(ReplicaId).zip(&self.peers);
        peers.filter(|(_, peer)| says(peer)).map(|(id, _)| id).collect()
    }

    /// A replica voted in a slot of the window.
    pub fn note_voted(&mut self, author: ReplicaId, slot: Slot) {
        let voted = &mut self.entry(author).voted;
        *voted = slot.max(*voted);
    }

    /// The last slot for which somebody correct voted.
    #[must_use]
    pub fn last_voted(&self) -> Slot {
        vouched(self.peers.iter().map(|peer| peer.voted), self.f)
    }

    /// Whether to arm the timer for the next tick.
    pub fn start_timer(&mut self) -> bool {
        !core::mem::replace(&mut self.is_timed, true)
    }

    /// Whether the timer for the next tick runs.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// What peers were sent before a tick does not count against what they are sent after it.
    pub fn begin_tick(&mut self) {
        self.is_timed = mutant!("frame.resends-once");
        self.peers.iter_mut().for_each(|peer| peer.sent = Sent::default());
        self.ticks += 1;
    }

    /// Ticks since the start.
    #[must_use]
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// A different peer at each tick.
    #[must_use]
    pub fn peer_of_tick(&self) -> ReplicaId {
        let n = self.peers.len() as u64;
        let offset = 1 + self.ticks % (n - 1).max(1);
        ReplicaId(((u64::from(self.me.0) + offset) % n) as u16)
    }

    /// Whether to send a peer what it lacks of what was said about views and checkpoints.
    pub fn may_answer(&mut self, from: ReplicaId) -> bool {
        !core::mem::replace(&mut self.entry(from).sent.is_answered, true)
    }

    /// Every peer may be answered again before the next tick, which may never come.
    pub fn answer_again(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.sent.is_answered = false);
    }

    /// Whether to send a peer that is stuck what it lacks of its slots.
    pub fn may_answer_slots(&mut self, from: ReplicaId) -> bool {
        let answers = &mut self.entry(from).sent.slot_answers;
        let may = *answers < SLOT_ANSWERS_MAX;
        *answers += u8::from(may);
        may
    }

    /// Whether to send a peer what it asked for by this digest, of so many bytes.
    pub fn may_send(&mut self, from: ReplicaId, digest: Digest, bytes: usize) -> bool {
        self.entry(from).sent.quota.takes(digest, bytes)
    }

    /// Counts a message about a slot that a peer is sent again, of so many bytes; false if it has
    /// been sent enough until the next tick.
    pub fn may_repeat(&mut self, to: ReplicaId, bytes: usize) -> bool {
        let messages_max = self.repeated_max;
        let (messages, sent) = &mut self.entry(to).sent.repeated;
        *messages += 1;
        *sent += bytes;
        *messages <= messages_max && (*messages == 1 || *sent <= RESEND_BYTES_MAX)
    }

    /// A peer lacked a proposal of another primary: for a while it is shown each at once.
    pub fn lacked(&mut self, peer: ReplicaId) {
        let ticks = self.ticks;
        self.entry(peer).forward_to.lacked(ticks);
    }

    /// A view begins, whose primary has left nobody out.
    pub fn forget_left_out(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.forward_to = ForwardTo::default());
    }

    /// Who lacked a proposal a short while ago and is to be shown one of so many bytes that just
    /// came from its primary. What may be sent again between two ticks bounds this too.
    pub fn left_out(
        &mut self,
        primary: ReplicaId,
        bytes: usize,
    ) -> impl Iterator<Item = ReplicaId> {
        let (ticks, messages_max) = (self.ticks, self.repeated_max);
        let peers = (0u16..).map(ReplicaId).zip(&mut self.peers);
        peers.filter_map(move |(id, Peer { forward_to, sent, .. })| {
            let (messages, sent) = &mut sent.repeated;
            let room = *messages < messages_max && *sent < RESEND_BYTES_MAX;
            let is_shown = forward_to.is_on(ticks) && id != primary && room;
            if is_shown {
                (*messages, *sent) = (*messages + 1, *sent + bytes);
            }
            is_shown.then_some(id)
        })
    }

    /// The proposal of a slot has not come that others have taken up. Whether to give it a moment,
    /// and then to ask.
    pub fn open_gap(&mut self, slot: Slot) -> bool {
        let opens = self.gap.is_none();
        self.gap = self.gap.or(Some((slot, 0)));
        opens
    }

    /// That moment is over, and this replica lacks the proposal of a slot. Whether to ask for it
    /// out of turn, and to give it another moment.
    pub fn ask_out_of_turn(&mut self, lacks: Option<Slot>) -> bool {
        let asks = self.gap.filter(|(slot, asked)| lacks == Some(*slot) && *asked < GAP_ASKS);
        self.gap = asks.map(|(slot, asked)| (slot, asked + 1));
        self.gap.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

    const P1: ReplicaId = ReplicaId(1);
    const P2: ReplicaId = ReplicaId(2);

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    struct Nothing;

    impl Wire for Nothing {
        fn encode(&self, _: &mut Writer) {}
        fn decode(_: &mut Reader<'_>) -> Result<Self, Malformed> {
            Ok(Self)
        }
    }

    impl More for Nothing {
        type State = Digest;
    }

    fn peers() -> Peers<Nothing> {
        Peers::new(ReplicaId(0), (4, 1), 2)
    }

    fn at(executed: u64, prepared: u64) -> Report<Nothing> {
        Report { executed: Slot(executed), prepared: Slot(prepared), ..Report::default() }
    }

    #[test]
    fn who_says_the_same_twice_is_stuck_and_who_lacks_what_was_decided_at_the_first() {
        let mut peers = peers();
        assert!(!peers.hear(P1, at(5, 5), Slot(5)) && peers.hear(P1, at(5, 5), Slot(5)));
        assert!(!peers.hear(P1, at(5, 6), Slot(6)), "more has come, and nothing was lacking");
        assert!(peers.hear(P1, at(5, 7), Slot(7)), "slot 6 was decided at the report before");
        assert!(!peers.hear(P1, at(6, 7), Slot(7)));
        assert_eq!(peers.that_say(|it| it.executed == Slot(6)).iter().collect::<Vec<_>>(), [P1]);
        assert_eq!(peers.last_final(), Slot(0), "one may be lying");
        peers.hear(P2, at(9, 9), Slot(7));
        assert_eq!(peers.last_final(), Slot(6));
    }

    #[test]
    fn between_two_ticks_a_peer_is_sent_so_much_and_no_more() {
        let mut peers = peers();
        for _ in 0..2 {
            assert!(peers.may_answer(P1) && !peers.may_answer(P1) && peers.may_answer(P2));
            let answers = (0..100).filter(|_| peers.may_answer_slots(P1)).count();
            assert_eq!(answers, usize::from(SLOT_ANSWERS_MAX));
            let repeated = [RESEND_BYTES_MAX + 1, 0].map(|bytes| peers.may_repeat(P1, bytes));
            assert_eq!(repeated, [true, false], "one may be larger");
            assert!(peers.may_repeat(P2, 1) && peers.may_repeat(P2, 1) && !peers.may_repeat(P2, 1));
            peers.answer_again();
            assert!(peers.may_answer(P1) && !peers.may_answer_slots(P1));
            peers.begin_tick();
        }
    }

    #[test]
    fn whoever_lacked_a_proposal_is_shown_others_within_the_same_limits() {
        let mut peers = peers();
        let shown = |peers: &mut Peers<Nothing>| peers.left_out(P2, 1).collect::<Vec<_>>();
        assert!(shown(&mut peers).is_empty());
        peers.lacked(P1);
        peers.lacked(P2);
        let all = [1, 2, 3].map(|_| shown(&mut peers).len());
        assert_eq!(all, [1, 1, 0], "not to the primary itself");
        peers.begin_tick();
        assert_eq!(shown(&mut peers), [P1]);
        peers.forget_left_out();
        assert!(shown(&mut peers).is_empty());
    }

    #[test]
    fn a_gap_is_asked_for_a_few_times_while_it_is_the_same() {
        let mut peers = peers();
        assert!(peers.open_gap(Slot(3)) && !peers.open_gap(Slot(4)));
        let asked = (0..10).filter(|_| peers.ask_out_of_turn(Some(Slot(3)))).count();
        assert_eq!(asked, usize::from(GAP_ASKS));
        assert!(peers.open_gap(Slot(4)) && !peers.ask_out_of_turn(Some(Slot(5))));
        assert!(peers.open_gap(Slot(5)) && !peers.ask_out_of_turn(None));
    }

    #[test]
    fn each_tick_asks_another_peer() {
        let mut peers = peers();
        let asked = [(); 4].map(|()| {
            peers.begin_tick();
            peers.peer_of_tick().0
        });
        assert_eq!(asked, [2, 3, 1, 2]);
        assert!(peers.start_timer() && peers.is_timed() && !peers.start_timer());
    }
}
