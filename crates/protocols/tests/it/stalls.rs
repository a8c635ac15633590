//! Hybster by hand: what a liar and a link that loses for a moment must not be able to stop. In
//! each of these schedules the group once stood still, for good or for long.

use crate::net::{Net, Trusting, envelope};
use pentarchy_core::auth::{AuthTag, Signature, Verified, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::{Instance, Position, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Protocol as _, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::common::counters::certificate::{Header, Opened as _, Start};
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::hybster::{
    CertifiedViewChange, Entry, Hybster, Message, NewView, Order, Prepared, ViewChange, ViewChanges,
};
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Three replicas of which r1 lies.
const LIAR: u16 = 1;

struct Group {
    net: Net<Hybster>,
    /// What the liar was sent.
    heard: Vec<Verified<Message>>,
}

/// Everything that r0 says to r2 is lost.
fn from_r0_to_r2(from: u16, to: u16, _: &Message) -> bool {
    (from, to) == (0, 2)
}

/// And so is what r2 asks for on its way to r0, which would else go along.
fn from_r0_to_r2_and_asks(from: u16, to: u16, message: &Message) -> bool {
    from_r0_to_r2(from, to, message) || asks_of_r2(from, to, message)
}

fn asks_of_r2(from: u16, to: u16, message: &Message) -> bool {
    let asks = matches!(message, Message::Shared(Shared::RequestViewChange { .. }));
    asks && (from, to) == (2, 0)
}

fn nothing(_: u16, _: u16, _: &Message) -> bool {
    false
}

/// The next view's primary does not hear that the other one left for it.
fn primaries(_: u16, to: u16, message: &Message) -> bool {
    matches!(message, Message::ViewChange(change) if change.view.0 % 3 == u64::from(to))
        && to != LIAR
}

impl Group {
    fn new() -> Self {
        Self { net: Net::new(3, &[LIAR], Tuning::default()), heard: Vec::new() }
    }

    /// The same, and both keep a log.
    fn durable() -> Self {
        Self { net: Net::durable(3, &[LIAR], Tuning::default()), heard: Vec::new() }
    }

    /// Time passes; links lose this.
    fn run(&mut self, millis: u64, loses: fn(u16, u16, &Message) -> bool) {
        for _ in 0..millis {
            let to_liar = self.net.queue.iter().filter(|(_, to, _)| to.0 == LIAR);
            self.heard.extend(to_liar.map(|(.., it)| it.clone()));
            self.net.queue.retain(|(from, to, it)| !loses(from.0, to.0, &it.message));
            self.net.millisecond();
        }
    }

    /// Some ask for a view, and these hear of it.
    fn ask(&mut self, who: &[u16], view: u64, to: &[u16]) {
        for id in who {
            let ask = Message::Shared(Shared::RequestViewChange { view: View(view) });
            let ask = self.net.authentic(*id, ask);
            self.net.pass_on(*id, to, &ask);
        }
    }

    /// Everybody leaves for one view after the other, none of which opens.
    fn leave_for(&mut self, views: std::ops::RangeInclusive<u64>) {
        for view in views {
            self.ask(&[0, 1, 2], view, &[0, 2]);
            self.run(150, primaries);
            for id in [0, 2] {
                let status = self.net.status(id);
                assert!(status.view == View(view) && status.phase != "normal", "{status:?}");
            }
        }
    }

    /// The VIEW-CHANGE of a replica for a view, as the liar heard it.
    fn change(&self, author: u16, view: u64) -> CertifiedViewChange {
        let found = self.heard.iter().find_map(|it| match (&*it.message, it.tag.ui()) {
            (Message::ViewChange(change), Some(ui))
                if it.author.0 == author && change.view == View(view) =>
            {
                Some((*ui, change.clone()))
            }
            _ => None,
        });
        let (ui, change) = found.expect("it left");
        CertifiedViewChange { author: ReplicaId(author), ui, change }
    }

    /// A NEW-VIEW of the liar, from the VIEW-CHANGEs of the two others, and its word for the view
    /// that they come from.
    fn sound(&mut self, view: u64) -> Verified<Message> {
        let members = vec![self.change(0, view), self.change(2, view)];
        let comes_from_any = members.iter().any(|member| member.change.from() > View(0));
        let word = (ReplicaId(LIAR), Signature([LIAR as u8; 64]));
        self.opening(members, Vec::from_iter(comes_from_any.then_some(word)))
    }

    fn opening(
        &mut self,
        members: Vec<CertifiedViewChange>,
        acknowledgements: Vec<(ReplicaId, Signature)>,
    ) -> Verified<Message> {
        let changes = ViewChanges { view: members[0].change.view, members };
        let opening = NewView { changes, acknowledgements };
        self.net.authentic(LIAR, Message::NewView(Arc::new(opening)))
    }

    /// The liar says that it comes from the view before, which it never opened, with batches that
    /// it made up.
    fn show_junk(&mut self, view: u64, known: &mut BTreeMap<Digest, Arc<Proposal>>) {
        let (from, made) = (View(view - 1), junk(view));
        let start = Start { base: Slot(0), list: made.iter().map(|it| it.digest()).collect() };
        known.extend(made.into_iter().map(|it| (it.digest(), it)));
        let (members, domain) = (Digest::default(), self.net.membership.domain());
        let statement = Entry::TERMS.opening_statement(&domain, from, &start, &members);
        let at = Position::new(from, Position::OPEN);
        let opening = self.net.certify(LIAR, at, &statement);
        let header = Header { view: from, start, members, opening };
        let change = view_change(view, Entry { header }, Vec::new());
        self.net.say(LIAR, &[2], Message::ViewChange(Arc::new(change)));
    }

    /// The liar gives batches to whoever asked it.
    fn give(&mut self, known: &BTreeMap<Digest, Arc<Proposal>>) {
        let mut asked = Vec::new();
        for it in &self.heard {
            if let Message::Shared(Shared::AskBody { batch }) = &*it.message {
                asked.extend(known.get(batch).map(|made| (it.author.0, made.clone())));
            }
        }
        for (author, made) in asked {
            self.net.say(LIAR, &[author], Message::Shared(Shared::Body(made)));
        }
    }

    /// Both are asked for something and have so much time. Whether both did it.
    fn goes_on(&mut self, seconds: u64) -> bool {
        self.goes_on_though(seconds, nothing)
    }

    /// The same, though links lose this.
    fn goes_on_though(&mut self, seconds: u64, loses: fn(u16, u16, &Message) -> bool) -> bool {
        let request = envelope(9, 1, 8);
        [0, 2].into_iter().for_each(|id: u16| self.net.request(id, &request));
        self.run(1_000 * seconds, loses);
        [0, 2].into_iter().all(|id: u16| {
            let batches = self.net.nodes[usize::from(id)].executed.iter();
            batches.flat_map(|(_, batch)| &batch.envelopes).any(|it| it.digest == request.digest)
        })
    }

    /// The liar tells r2 that r0 asks for view 2, and asks for that, too.
    fn tell_r2_alone(&mut self) {
        let asked = |it: &&Verified<Message>| {
            matches!(&*it.message, Message::Shared(Shared::RequestViewChange { view })
                if it.author.0 == 0 && *view == View(2))
        };
        let asked = self.heard.iter().find(asked).expect("r0 gave view 1 up").clone();
        self.net.pass_on(LIAR, &[2], &asked);
        self.ask(&[LIAR], 2, &[2]);
        self.run(20, from_r0_to_r2_and_asks);
        assert_eq!((self.net.status(0).view, self.net.status(2).view), (View(1), View(2)));
    }
}

/// r2 wants view 2 and has nothing by which it could leave view 1, which r0 entered.
fn wants_more_than_who_entered() -> bool {
    let mut group = Group::new();
    group.ask(&[1, 2], 1, &[0, 2]);
    group.run(20, from_r0_to_r2);
    let opening = group.sound(1);
    group.net.pass_on(LIAR, &[0], &opening);
    group.run(20, from_r0_to_r2);
    assert_eq!((group.net.status(0).view, group.net.status(0).phase), (View(1), "normal"));
    group.net.request(0, &envelope(1, 1, 8));
    group.run(3_000, from_r0_to_r2_and_asks);
    group.tell_r2_alone();
    group.goes_on_though(10, asks_of_r2)
}

/// r2 wants view 2 and lacks the VIEW-CHANGE of r0, which waits for view 1.
fn wants_more_than_who_left() -> bool {
    let mut group = Group::new();
    group.ask(&[1, 2], 1, &[0, 2]);
    group.run(3_000, from_r0_to_r2_and_asks);
    group.tell_r2_alone();
    group.goes_on_though(10, asks_of_r2)
}

#[test]
fn who_wants_a_higher_view_is_given_the_opening_of_a_lower_one() {
    assert!(wants_more_than_who_entered());
    let alone =
        mutant::with(Some("hybster.who-wants-more-not-helped"), wants_more_than_who_entered);
    assert!(!alone);
}

#[test]
fn who_wants_a_higher_view_is_told_again_who_left_a_lower_one() {
    assert!(wants_more_than_who_left());
    let alone = mutant::with(Some("hybster.who-wants-more-not-helped"), wants_more_than_who_left);
    assert!(!alone);
}

/// r0 leaves view 1 by a certificate, of which r2 has only its own part: what r0 said was lost, and
/// r0 says something else by now. The liar is silent.
fn left_behind_in_view_1() -> bool {
    let mut group = Group::new();
    group.ask(&[0, 1, 2], 1, &[0, 2]);
    group.run(100, from_r0_to_r2);
    group.ask(&[0, 1, 2], 2, &[0, 2]);
    group.run(100, from_r0_to_r2);
    assert_eq!((group.change(0, 2).change.view, group.net.status(2).view), (View(2), View(2)));
    group.goes_on(10)
}

#[test]
fn who_could_leave_gives_others_its_certificate() {
    assert!(left_behind_in_view_1());
    assert!(!mutant::with(Some("hybster.certificate-not-passed-on"), left_behind_in_view_1));
}

fn nobody_has() -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(1), vec![Item::Named(Digest::of(b"nobody has it"))]))
}

fn view_change(view: u64, entry: Entry, prepares: Vec<Prepared>) -> ViewChange {
    let signed = |id: u16| (ReplicaId(id), (View(view), Signature([id as u8; 64])));
    let checkpoint = CheckpointProof::initial(Base::default());
    let requests = vec![signed(1), signed(2)];
    ViewChange { view: View(view), requests, checkpoint, entry: Some(entry), prepares }
}

/// The liar opened view 1 and kept that back until both were on their way to view 4. Now it shows
/// it to r0, and to r2, with r0's word for it, how it opens view 4: with a batch that nobody has.
fn useless_later_opening() -> bool {
    let mut group = Group::new();
    group.leave_for(1..=4);
    let opening = group.sound(1);
    let ui = |it: &Verified<Message>| *it.tag.ui().expect("a certificate");
    let Message::NewView(first) = &*opening.message else { panic!("it is one") };
    let entry = first.entry(ui(&opening), &group.net.membership.domain());
    let (view, slot, proposal) = (View(1), Slot(1), nobody_has());
    let batch = proposal.digest();
    let prepare = Message::Order(Order::Prepare { view, slot, proposal });
    let prepared = Prepared { slot, batch, ui: ui(&group.net.authentic(LIAR, prepare)) };
    let change = Arc::new(view_change(4, entry, vec![prepared]));
    let said = group.net.authentic(LIAR, Message::ViewChange(change.clone()));
    let own = CertifiedViewChange { author: ReplicaId(LIAR), ui: ui(&said), change };
    group.net.pass_on(LIAR, &[0], &opening);
    group.run(10, from_r0_to_r2);
    let acknowledged = group.heard.iter().find_map(|it| match (&*it.message, &it.tag) {
        (Message::Acknowledge { view: View(1) }, tag) => tag.signature().copied(),
        _ => None,
    });
    let word = (ReplicaId(0), Signature(acknowledged.expect("r0 accepted it")));
    let useless = group.opening(vec![own, group.change(2, 4)], vec![word]);
    group.net.pass_on(LIAR, &[2], &useless);
    group.run(10, from_r0_to_r2);
    group.goes_on(60)
}

#[test]
fn a_useless_new_view_does_not_shut_out_a_sound_one() {
    assert!(useless_later_opening());
    assert!(!mutant::with(Some("hybster.last-of-primary-only"), useless_later_opening));
}

/// The liar opened views 1 and 4 and kept that back. It shows one to each, so that they come to
/// view 5 from different views, and r2, its primary, has then accepted a later one than r0. Gives
/// the view in which they meet.
fn openings_one_by_one() -> View {
    fn openings(from: u16, to: u16, message: &Message) -> bool {
        let about = matches!(message, Message::NewView(_) | Message::Acknowledge { .. });
        about && (from, to) == (0, 2)
    }
    let mut group = Group::new();
    group.leave_for(1..=4);
    let (first, fourth) = (group.sound(1), group.sound(4));
    group.net.pass_on(LIAR, &[0], &first);
    group.run(10, openings);
    group.ask(&[0, 1, 2], 5, &[0, 2]);
    group.run(30, openings);
    assert_eq!(group.change(0, 5).change.from(), View(1));
    assert_eq!(group.change(2, 5).change.from(), View(0));
    group.net.pass_on(LIAR, &[2], &fourth);
    group.run(10, openings);
    assert!(group.goes_on(60));
    assert_eq!(group.net.status(0).view, group.net.status(2).view);
    group.net.status(0).view
}

#[test]
fn who_accepted_a_later_new_view_vouches_for_an_earlier_one() {
    assert_eq!(openings_one_by_one(), View(5));
    let without = mutant::with(Some("hybster.last-acknowledgement-only"), openings_one_by_one);
    assert_eq!(without, View(6), "each NEW-VIEW that was kept back costs a view");
}

/// As many as a window holds, each of which is another one.
fn junk(view: u64) -> Vec<Arc<Proposal>> {
    let times = 1_000_000 * view..1_000_000 * view + WINDOW_SLOTS;
    times.map(|time| Arc::new(Proposal::new(Millis(time % 1_000), vec![junk_item(time)]))).collect()
}

/// What only its number tells from another one.
fn junk_item(number: u64) -> Item {
    let operation = number.to_be_bytes().to_vec().into();
    let requests = vec![Request { number: 1, operation }];
    let draft = Draft { client: ClientId([8; 32]), floor: 1, events: None, requests };
    Item::Whole(Arc::new(draft.seal(RequestAuth::Signature([0; 64]))))
}

/// While views fail, the liar says that it comes from views that it never opened, with batches that
/// it made up, and gives them to r2, who could open the next view if they were any good. Gives how
/// many of those of the first such view r2 had then, and how many it has in the end.
fn junk_in_failed_views() -> [usize; 2] {
    let mut group = Group::new();
    let (mut known, mut first) = (BTreeMap::new(), 0);
    for view in 1..=12 {
        group.ask(&[0, 1, 2], view, &[0, 2]);
        if view % 3 == 2 {
            group.show_junk(view, &mut known);
        }
        for _ in 0..150 {
            group.run(1, |from, to, it| from != LIAR && primaries(from, to, it));
            group.give(&known);
            group.heard.clear();
        }
        assert!([0, 2].iter().all(|id| group.net.status(*id).view == View(view)));
        first = if view == 2 { held(&mut group, &junk(2)) } else { first };
    }
    let last = held(&mut group, &junk(2));
    assert!(group.goes_on(60));
    [first, last]
}

/// How many of these batches r2 gives to whoever asks.
fn held(group: &mut Group, batches: &[Arc<Proposal>]) -> usize {
    let mut held = 0;
    for some in batches.chunks(32) {
        for batch in some.iter().map(|it| it.digest()) {
            group.net.say(LIAR, &[2], Message::Shared(Shared::AskBody { batch }));
        }
        // A tick, behind which it gives more.
        group.run(60, |from, to, it| from != LIAR && primaries(from, to, it));
        let body =
            |it: &&Verified<Message>| matches!(&*it.message, Message::Shared(Shared::Body(_)));
        held += group.heard.iter().filter(body).count();
        group.heard.retain(|it| !body(&it));
    }
    held
}

#[test]
fn junk_goes_with_the_view_for_which_it_was_shown() {
    let [first, last] = junk_in_failed_views();
    assert!(first > 20 && last == 0, "{last} of {first}");
    let [first, last] = mutant::with(Some("hybster.junk-stays"), junk_in_failed_views);
    assert!(last >= first, "{last} of {first}");
}

/// Counts what a value holds: every entry of every table, and what it says.
#[derive(Default)]
struct Counting(usize);

impl Hasher for Counting {
    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    fn finish(&self) -> u64 {
        self.0 as u64
    }
}

/// What a replica holds, and what it has written down.
fn size(group: &Group, id: u16) -> [usize; 2] {
    let mut held = Counting::default();
    group.net.core(id).hash(&mut held);
    [held.0, group.net.nodes[usize::from(id)].kept]
}

/// Six views, none of which the group stays in. In the first the liar opens its view and shows that
/// to r0, who tells r2; in the second r2 opens the next, of which r0 does not hear; nobody opens
/// the third and the fourth in time; in the fifth the liar comes from where nobody was, with
/// batches that it made up; and nobody opens the last. Or nobody opens any. The liar says twice all
/// that it hears, and acknowledges each view.
fn six_views_fail(group: &mut Group, first: u64, opens: bool) {
    fn openings_to_r0(from: u16, to: u16, message: &Message) -> bool {
        from == 2 && to == 0 && matches!(message, Message::NewView(_))
    }
    let mut known = BTreeMap::new();
    for view in first..first + 6 {
        group.ask(&[0, 1, 2], view, &[0, 2]);
        let step = view - first;
        let loses = match step {
            1 if opens => openings_to_r0,
            _ => |from, to, it: &Message| from != LIAR && primaries(from, to, it),
        };
        if step == 4 {
            group.show_junk(view, &mut known);
        }
        for tick in 0..150 {
            group.run(1, loses);
            group.give(&known);
            if opens && step == 0 && tick == 60 {
                let opening = group.sound(view);
                group.net.pass_on(LIAR, &[0], &opening);
            }
        }
        let mut said = std::mem::take(&mut group.heard);
        said.retain(|it| !matches!(&*it.message, Message::Shared(Shared::Report(_))));
        for again in said.iter().chain(&said) {
            // No primary hears in this way what it had missed.
            let may = |id: &u16| *id != again.author.0 && !primaries(LIAR, *id, &again.message);
            let others: Vec<u16> = [0, 2].into_iter().filter(may).collect();
            group.net.pass_on(LIAR, &others, again);
        }
        for lie in view.saturating_sub(3)..view + 3 {
            group.net.say(LIAR, &[0, 2], Message::Acknowledge { view: View(lie) });
        }
    }
}

/// So many times six views fail. Gives how much both hold then, at most, and wrote in these six.
fn held_over_failed_views(times: u64, opens: bool) -> Vec<[usize; 2]> {
    let (mut group, mut sizes, mut before) = (Group::durable(), Vec::new(), [0; 2]);
    for time in 0..times {
        six_views_fail(&mut group, 6 * time + 1, opens);
        let [[r0, kept0], [r2, kept2]] = [size(&group, 0), size(&group, 2)];
        sizes.push([r0.max(r2), (kept0 - before[0]).max(kept2 - before[1])]);
        before = [kept0, kept2];
    }
    assert!(group.goes_on(60));
    sizes
}

/// Whether both hold no more in the end than after some views, and write no more.
fn is_bounded(sizes: &[[usize; 2]]) -> bool {
    let most = |some: &[[usize; 2]], what: usize| some.iter().map(|it| it[what]).max();
    let (first, rest) = sizes.split_at(sizes.len() / 3);
    most(rest, 0) <= most(first, 0) && most(rest, 1) <= most(first, 1)
}

/// Over 204 views, with a liar that repeats itself and makes batches up, and with logs. What is
/// written grows by as much for each: only a checkpoint cuts a log.
#[test]
fn what_is_held_does_not_grow_with_the_views_that_fail() {
    for opens in [true, false] {
        let sizes = held_over_failed_views(34, opens);
        assert!(is_bounded(&sizes), "{opens}: {sizes:?}");
    }
    // Worth counting: what the liar makes up would add up.
    let leaks = || held_over_failed_views(9, false);
    let leaking = mutant::with(Some("hybster.junk-stays"), leaks);
    assert!(!is_bounded(&leaking), "{leaking:?}");
}

/// Believes what [`Trusting`] does, and counts what it is asked.
#[derive(Default)]
struct Checks(AtomicUsize);

impl Checks {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Verifier for Checks {
    fn signature(&self, author: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        self.count();
        Trusting.signature(author, digest, signature)
    }
    fn usig(&self, author: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        self.count();
        Trusting.usig(author, digest, ui)
    }
    fn mac(&self, by: (ReplicaId, Instance), digest: &Digest, mac: &TrustedMac) -> bool {
        self.count();
        Trusting.mac(by, digest, mac)
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

/// How many checks it costs r2 that the liar gives it so often by what view 2 could be left.
fn checks_of_certificates(times: usize) -> usize {
    let mut group = Group::new();
    group.leave_for(1..=2);
    let members = vec![group.change(0, 2), group.change(2, 2)];
    let changes = ViewChanges { view: View(2), members };
    let message = Message::ViewChanges(Arc::new(changes));
    let checks = Checks::default();
    for _ in 0..times {
        let core = group.net.core(2);
        if !core.is_redundant(ReplicaId(LIAR), &message) {
            let (membership, tag) = (&group.net.membership, AuthTag::Channel);
            let valid = Hybster::validate(membership, &checks, ReplicaId(LIAR), &tag, &message);
            assert_eq!(valid, Ok(()));
            group.net.say(LIAR, &[2], message.clone());
            group.run(1, nothing);
        }
    }
    checks.0.into_inner()
}

#[test]
fn what_a_peer_gave_last_is_not_checked_again() {
    let once = checks_of_certificates(1);
    assert!(once > 2, "{once}");
    assert_eq!(checks_of_certificates(100), once);
}
