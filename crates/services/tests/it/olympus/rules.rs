//! Each rule of Olympus by itself.

use super::support::{
    ADMINISTRATORS, Keys, Mode, WINDOW, ask, ask_bytes, batch, configuration, identity, life,
    olympus, sign, signing,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, ReplicaId, Slot};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::service::Service;
use pentarchy_core::succession::{Mark, MarkCertificate, Report, empty_history, longer_history};
use pentarchy_core::wire::Wire;
use pentarchy_services::olympus::{
    Answer, Conviction, Link, Notice, Olympus, Operation, Proposal, Refusal, SECTIONS, Stage,
    Standing, Status, terms,
};

/// A group of three, with a fourth in the pool, at some time.
struct Scene {
    olympus: Olympus<Keys>,
    time: u64,
}

const START: u64 = 1_000_000;

impl Scene {
    fn new(mode: Mode) -> Self {
        let mut scene = Self { olympus: olympus(mode, 1), time: START };
        let spare = mode.members(1);
        assert_eq!(scene.enrol(ADMINISTRATORS[0], spare), Answer::Done);
        assert_eq!(scene.register(spare, 1, 1), Answer::Done);
        scene
    }

    fn ask(&mut self, member: usize, asked: &Operation) -> Answer {
        ask(&mut self.olympus, identity(member), self.time, asked)
    }

    fn wait(&mut self, millis: u64) {
        self.time += millis;
        self.ask(0, &Operation::Status { epoch: Epoch(0) });
    }

    fn enrol(&mut self, by: [u8; 32], member: usize) -> Answer {
        let asked = Operation::Enrol { identity: identity(member), address: "host:1".to_owned() };
        ask(&mut self.olympus, by, self.time, &asked)
    }

    fn register(&mut self, member: usize, key: u64, number: u64) -> Answer {
        let (signing, life) = (signing(member, key), life(number));
        self.ask(member, &Operation::Register { signing, life })
    }

    fn accuse(&mut self, by: usize, about: u16) -> Answer {
        let (epoch, about) = (self.status().epoch, ReplicaId(about));
        self.ask(by, &Operation::Accuse { epoch, about, why: "late".to_owned() })
    }

    fn report_by(&mut self, by: usize, report: Report) -> Answer {
        self.ask(by, &Operation::Report { report, certificate: None })
    }

    /// The first configuration's member reports these batches.
    fn report(&mut self, by: usize, batches: &[u64]) -> Answer {
        self.report_by(by, report(by, batches))
    }

    fn status(&self) -> Status {
        let asked = Operation::Status { epoch: Epoch(0) };
        match Answer::from_bytes(&self.olympus.query(&asked.to_bytes()).into()) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn proposal(&self) -> Proposal {
        self.status().proposal.expect("something is proposed")
    }

    fn proposed(&self) -> Vec<usize> {
        members(&self.proposal().link)
    }

    fn scores(&self) -> Vec<u32> {
        self.status().pool.iter().map(|it: &Standing| it.score).collect()
    }

    fn holds(&mut self, member: usize) -> Answer {
        let Proposal { attempt, link } = self.proposal();
        let digest = link.digest();
        self.ask(member, &Operation::Holds { attempt, link: digest, life: life(1) })
    }

    fn lacks(&mut self, member: usize, slot: u64) -> Answer {
        let Proposal { attempt, link } = self.proposal();
        let digest = link.digest();
        self.ask(member, &Operation::Lacks { attempt, link: digest, slot: Slot(slot) })
    }

    fn all_hold(&mut self) {
        for member in self.proposed() {
            assert_eq!(self.holds(member), Answer::Done);
        }
    }

    fn is_wedging(&self) -> bool {
        matches!(self.status().stage, Stage::Wedging { .. })
    }
}

fn members(link: &Link) -> Vec<usize> {
    link.next.members.iter().map(|it| it.id.0 as usize).collect()
}

fn report(by: usize, batches: &[u64]) -> Report {
    let batches = batches.iter().map(|it| batch(*it)).collect();
    let history = History { base: Base::default(), batches };
    Report { epoch: Epoch(0), author: ReplicaId(by as u16), life: life(1), history }
}

fn first_membership(mode: Mode) -> Membership {
    configuration(mode, 1, 1).begin(&vec![life(1); mode.members(1)])
}

fn refused(refusal: Refusal) -> Answer {
    Answer::Refused(refusal)
}

#[test]
fn a_configuration_follows_on_what_two_report_and_all_members_hold() {
    let mut scene = Scene::new(Mode::Byzantine);
    assert_eq!(scene.accuse(0, 2), Answer::Done);
    assert!(scene.is_wedging());
    let told = scene.olympus.take_events();
    let wedge = Notice::Wedge(Epoch(0)).to_bytes();
    let clients: Vec<_> = told.iter().map(|it| it.client).collect();
    assert_eq!(clients, [0, 1, 2].map(|it| ClientId(identity(it))));
    assert!(told.iter().all(|it| it.body == wedge));
    assert_eq!(scene.report(0, &[1, 2, 3]), Answer::Done);
    assert_eq!(scene.report(1, &[1, 2]), Answer::Done);
    assert!(scene.status().proposal.is_none(), "the third one may still report");
    scene.wait(terms::GATHER_MILLIS);
    // The accuser has 2, the accused 2 and 3 for its silence.
    assert_eq!(scene.scores(), [2, 0, 5, 0]);
    assert_eq!(scene.proposed(), [1, 3, 0]);
    assert_eq!(scene.proposal().link.succession.inherits, [1, 2, 3].map(batch));
    assert_eq!((scene.holds(1), scene.holds(3)), (Answer::Done, Answer::Done));
    assert_eq!(scene.status().epoch, Epoch(0), "not all of them hold it");
    let link = scene.proposal().link;
    scene.olympus.take_events();
    assert_eq!(scene.holds(0), Answer::Done);
    let status = scene.status();
    assert_eq!((status.epoch, &status.link), (Epoch(1), &Some(link.clone())));
    assert_eq!((status.stage, status.proposal), (Stage::Active, None));
    assert_eq!((link.next.number, link.next.next_member), (1, MemberId(4)));
    let told = scene.olympus.take_events();
    assert_eq!(told.len(), 4, "also the one that is left out");
    assert!(told.iter().all(|it| it.body == Notice::Begin(link.clone()).to_bytes()));
    assert!(!status.pool[2].is_registered, "it erases its key");
    let asked = Operation::Link { epoch: Epoch(0) };
    let answer = Answer::from_bytes(&scene.olympus.query(&asked.to_bytes()).into());
    assert_eq!(answer, Ok(Answer::Link(Some(Box::new(link)))));
}

#[test]
fn a_report_is_of_a_member_in_its_life_on_a_known_base() {
    let mut scene = Scene::new(Mode::Byzantine);
    assert_eq!(scene.report(0, &[1]), refused(Refusal::NotNow));
    scene.accuse(0, 1);
    assert_eq!(scene.report_by(1, report(0, &[1])), refused(Refusal::NotYours));
    assert_eq!(scene.report_by(3, report(0, &[1])), refused(Refusal::NotYours));
    let later = Report { epoch: Epoch(1), ..report(0, &[1]) };
    assert_eq!(scene.report_by(0, later), refused(Refusal::NotNow));
    let other_life = Report { life: life(2), ..report(0, &[1]) };
    assert_eq!(scene.report_by(0, other_life), refused(Refusal::OtherLife));
    let too_long: Vec<u64> = (0..=WINDOW).collect();
    assert_eq!(scene.report(0, &too_long), refused(Refusal::Unfounded));
    let base = Base { slot: Slot(2), state: batch(9) };
    let on_a_base = |history| Report { history, ..report(0, &[]) };
    let history = History { base, batches: vec![batch(3)] };
    assert_eq!(scene.report_by(0, on_a_base(history)), refused(Refusal::Unfounded));
    assert_eq!(scene.report(0, &[1]), Answer::Done);
    assert_eq!(scene.report(0, &[1, 2]), Answer::Done);
    scene.report(1, &[]);
    scene.report(2, &[]);
    assert_eq!(scene.proposal().link.succession.inherits, [batch(1)], "the first one counts");
}

#[test]
fn a_base_needs_the_signatures_of_all_full_members() {
    let membership = first_membership(Mode::Byzantine);
    let history = longer_history(&empty_history(Base::default()), &batch(1));
    let base = Base { slot: Slot(1), state: batch(7) };
    let mark = Mark { base, history };
    let statement = mark.statement(&membership.domain());
    let signature = |by: u16| (ReplicaId(by), sign(&signing(by.into(), 0), &statement));
    let answer = |signatures: &[u16]| {
        let mut scene = Scene::new(Mode::Byzantine);
        scene.accuse(0, 1);
        let signatures = signatures.iter().map(|by| signature(*by)).collect();
        let history_behind = History { base, batches: vec![batch(2)] };
        let report = Report { history: history_behind, ..report(0, &[]) };
        let certificate = Some(MarkCertificate { history, signatures });
        let answer = scene.ask(0, &Operation::Report { report, certificate });
        (answer, scene)
    };
    for few in [&[][..], &[0], &[0, 0], &[0, 2], &[0, 9]] {
        assert_eq!(answer(few).0, refused(Refusal::Unfounded), "{few:?}");
    }
    let (done, mut scene) = answer(&[0, 1]);
    assert_eq!(done, Answer::Done);
    scene.report(1, &[1, 2, 3]);
    scene.report(2, &[9, 2]);
    let succession = scene.proposal().link.succession;
    assert_eq!(succession.handover.base, base, "the highest base of those that agree");
    assert_eq!(succession.inherits, [2, 3].map(batch));
}

#[test]
fn who_lost_its_log_ends_the_epoch_and_cannot_report() {
    let mut scene = Scene::new(Mode::Crash);
    assert_eq!(scene.register(0, 1, 1), Answer::Done);
    assert_eq!(scene.status().stage, Stage::Active, "a new key is no new life");
    assert_eq!(scene.register(0, 1, 2), Answer::Done);
    assert!(scene.is_wedging());
    assert_eq!(scene.report(0, &[]), refused(Refusal::OtherLife));
    assert_eq!(scene.report(1, &[1]), Answer::Done);
    assert_eq!(scene.proposal().link.succession.inherits, [batch(1)], "one report is enough");
}

/// A liar reports, and says then that it lost its log. Two reports are there, and two members that
/// did not lose theirs; but one of these has not reported yet.
#[test]
fn who_reported_and_failed_does_not_stand_for_another() {
    let scores = || {
        let mut scene = Scene::new(Mode::Byzantine);
        scene.accuse(0, 2);
        scene.report(0, &[1]);
        assert_eq!(scene.register(0, 1, 2), Answer::Done);
        scene.report(1, &[1]);
        scene.report(2, &[1]);
        assert!(scene.status().proposal.is_some());
        scene.scores()
    };
    assert_eq!(scores(), [2, 0, 2, 0], "accuser and accused, and nobody was silent");
    let silent = mutant::with(Some("olympus.who-failed-is-two"), scores);
    assert_eq!(silent, [2, 0, 5, 0]);
}

#[test]
fn who_lost_its_log_since_it_held_a_proposal_is_proposed_anew() {
    let mut scene = Scene::new(Mode::Byzantine);
    scene.accuse(0, 2);
    (0..3).for_each(|it| drop(scene.report(it, &[1])));
    assert_eq!(scene.proposed(), [1, 3, 2]);
    scene.holds(3);
    scene.register(3, 2, 2);
    let proposal = scene.proposal();
    assert_eq!((proposal.attempt, scene.scores()[3]), (1, 1));
    let lives = proposal.link.succession.handover.lives;
    assert_eq!((scene.proposed(), lives), (vec![1, 3, 2], vec![life(1), life(2), life(1)]));
    assert_eq!(scene.holds(3), refused(Refusal::OtherLife));
}

#[test]
fn a_choice_that_nobody_can_get_gives_way_and_comes_back() {
    let mut scene = Scene::new(Mode::Byzantine);
    scene.accuse(0, 2);
    scene.report(0, &[1]);
    scene.report(1, &[1]);
    scene.report(2, &[1, 9]);
    let inherits = |scene: &Scene| scene.proposal().link.succession.inherits.len();
    let before = scene.scores();
    assert_eq!(inherits(&scene), 2);
    scene.lacks(1, 2);
    scene.wait(terms::PREPARE_MILLIS);
    assert_eq!(inherits(&scene), 1);
    // Members 2 and 3 said nothing. Member 1 lacked what only member 2 named.
    let blamed: Vec<_> = scene.scores().iter().zip(before).map(|(now, it)| now - it).collect();
    assert_eq!(blamed, [0, 0, 2, 1]);
    scene.wait(2 * terms::PREPARE_MILLIS - 1);
    assert_eq!(inherits(&scene), 1, "the time doubles");
    scene.wait(1);
    assert_eq!(inherits(&scene), 2);
}

#[test]
fn what_so_many_hold_is_not_given_up() {
    let mut scene = Scene::new(Mode::Byzantine);
    scene.accuse(0, 2);
    scene.report(0, &[1]);
    scene.report(1, &[1]);
    scene.report(2, &[1, 9]);
    let [one, another, third] = scene.proposed()[..] else { panic!("three are proposed") };
    let before = scene.scores();
    scene.holds(one);
    scene.holds(another);
    scene.lacks(third, 2);
    scene.wait(terms::PREPARE_MILLIS);
    assert_eq!(scene.proposal().link.succession.inherits.len(), 2);
    assert_eq!(scene.scores()[third], before[third] + 1);
}

#[test]
fn wedges_keep_apart_and_scores_are_forgotten() {
    let mut scene = Scene::new(Mode::Byzantine);
    for fruitless in 1..4 {
        end_epoch(&mut scene);
        assert_eq!(scene.status().stage, Stage::Active);
        let (first, before) = (members_now(&scene)[0], scene.time);
        scene.accuse(first, 1);
        let due = before + (terms::PAUSE_MILLIS << fruitless);
        assert_eq!(scene.status().stage, Stage::Accused(Millis(due)));
        scene.wait(due - before - 1);
        assert!(!scene.is_wedging());
        scene.wait(1);
        assert!(scene.is_wedging());
    }
    assert!(scene.scores().iter().sum::<u32>() > 0);
    scene.wait(32 * terms::HALVE_MILLIS);
    assert!(scene.scores().iter().all(|score| *score <= 1), "{:?}", scene.scores());
}

fn members_now(scene: &Scene) -> Vec<usize> {
    scene.status().link.map_or(vec![0, 1, 2], |link| members(&link))
}

/// All members of the epoch report nothing, in the moment in which it is stopped, and go on.
fn end_epoch(scene: &mut Scene) {
    let members = members_now(scene);
    if !scene.is_wedging() {
        scene.accuse(members[0], 1);
    }
    let epoch = scene.status().epoch;
    scene.register(3, 1, 1);
    for (place, member) in members.into_iter().enumerate() {
        let author = ReplicaId(place as u16);
        scene.report_by(member, Report { epoch, author, ..report(0, &[]) });
    }
    scene.all_hold();
}

#[test]
fn the_next_epoch_waits_for_the_lease_of_a_tail_that_says_nothing() {
    let mut scene = Scene::new(Mode::Leased);
    let renew = Operation::Renew { epoch: Epoch(0) };
    assert_eq!(scene.ask(0, &renew), refused(Refusal::NotYours));
    let until = START + terms::LEASE_MILLIS;
    assert_eq!(scene.ask(1, &renew), Answer::Lease(Millis(until)));
    scene.accuse(0, 1);
    assert_eq!(scene.ask(1, &renew), refused(Refusal::NotNow));
    scene.report(0, &[1]);
    scene.wait(terms::GATHER_MILLIS);
    scene.all_hold();
    let over = until + 2 * CLOCK_SKEW_MILLIS;
    scene.wait(over - scene.time);
    assert_eq!(scene.status().epoch, Epoch(0));
    scene.wait(1);
    assert_eq!(scene.status().epoch, Epoch(1));
}

#[test]
fn a_tail_that_reported_reads_no_more() {
    let mut scene = Scene::new(Mode::Leased);
    scene.ask(1, &Operation::Renew { epoch: Epoch(0) });
    scene.accuse(0, 1);
    (0..2).for_each(|it| drop(scene.report(it, &[1])));
    scene.all_hold();
    assert_eq!(scene.status().epoch, Epoch(1));
    let without = Scene::new(Mode::Crash).ask(1, &Operation::Renew { epoch: Epoch(0) });
    assert_eq!(without, refused(Refusal::NotYours));
}

#[test]
fn administrators_fill_the_pool_together() {
    let lives = vec![life(1); 3];
    let first = configuration(Mode::Byzantine, 1, 2);
    let served = Olympus::new(&first, &lives, Mode::Byzantine.terms(), Keys).unwrap();
    let mut scene = Scene { olympus: served, time: START };
    let [one, two] = ADMINISTRATORS;
    assert_eq!(scene.enrol([77; 32], 3), refused(Refusal::NotYours));
    (0..2).for_each(|_| assert_eq!(scene.enrol(one, 3), Answer::Done));
    assert_eq!(scene.status().pool.len(), 3, "one administrator is not two");
    assert_eq!(scene.enrol(two, 3), Answer::Done);
    assert_eq!(scene.status().pool.len(), 4);
    scene.enrol(one, 2);
    assert_eq!(scene.enrol(two, 2), refused(Refusal::KeyTaken));
    let spares = Operation::Spares(2);
    for by in ADMINISTRATORS {
        ask(&mut scene.olympus, by, START, &spares);
    }
    assert_eq!(scene.status().spares, 2);
}

#[test]
fn a_member_that_is_dismissed_leaves_and_still_reports() {
    let mut scene = Scene::new(Mode::Byzantine);
    let dismiss = |scene: &mut Scene, member| {
        ask(&mut scene.olympus, ADMINISTRATORS[0], START, &Operation::Dismiss(MemberId(member)))
    };
    assert_eq!(dismiss(&mut scene, 1), Answer::Done);
    assert!(scene.is_wedging());
    assert_eq!(dismiss(&mut scene, 0), refused(Refusal::TooFew));
    (0..3).for_each(|it| assert_eq!(scene.report(it, &[1]), Answer::Done));
    assert_eq!(scene.proposed(), [2, 3, 0]);
}

#[test]
fn a_key_belongs_to_one_candidate() {
    let mut scene = Scene::new(Mode::Byzantine);
    let asked = Operation::Register { signing: signing(1, 0), life: life(1) };
    assert_eq!(scene.ask(0, &asked), refused(Refusal::KeyTaken));
    let asked = Operation::Register { signing: identity(3), life: life(1) };
    assert_eq!(scene.ask(0, &asked), refused(Refusal::KeyTaken));
    assert_eq!(scene.register(9, 1, 1), refused(Refusal::NotYours));
}

#[test]
fn two_signatures_convict() {
    let membership = first_membership(Mode::Byzantine);
    let mark = |state| {
        let base = Base { slot: Slot(2), state: batch(state) };
        Mark { base, history: Digest::default() }
    };
    let signed = |key: usize, mark: Mark| {
        (mark, sign(&signing(key, 0), &mark.statement(&membership.domain())))
    };
    let (epoch, by) = (Epoch(0), ReplicaId(1));
    let of = |one, other| Operation::Convict(Conviction { epoch, by, one, other });
    let mut scene = Scene::new(Mode::Byzantine);
    for nothing in
        [of(signed(1, mark(1)), signed(1, mark(1))), of(signed(1, mark(1)), signed(0, mark(2)))]
    {
        assert_eq!(scene.ask(9, &nothing), refused(Refusal::NoContradiction));
    }
    let proof = of(signed(1, mark(1)), signed(1, mark(2)));
    (0..2).for_each(|_| assert_eq!(scene.ask(9, &proof), Answer::Done));
    assert_eq!(scene.scores(), [0, terms::score::CONVICTED, 0, 0], "counted once");
    assert!(scene.is_wedging());
}

#[test]
fn bytes_of_strangers_break_nothing_and_have_one_encoding() {
    let mut scene = Scene::new(Mode::Byzantine);
    scene.accuse(0, 2);
    (0..3).for_each(|it| drop(scene.report(it, &[1])));
    let Proposal { attempt, link } = scene.proposal();
    let all = [
        Operation::Enrol { identity: [1; 32], address: "a:1".to_owned() },
        Operation::Dismiss(MemberId(1)),
        Operation::Spares(1),
        Operation::Register { signing: [1; 32], life: life(1) },
        Operation::Accuse { epoch: Epoch(0), about: ReplicaId(1), why: "why".to_owned() },
        Operation::Report { report: report(0, &[1, 2]), certificate: None },
        Operation::Holds { attempt, link: link.digest(), life: life(1) },
        Operation::Lacks { attempt, link: link.digest(), slot: Slot(1) },
        Operation::Renew { epoch: Epoch(0) },
        Operation::Status { epoch: Epoch(0) },
        Operation::Link { epoch: Epoch(0) },
    ];
    for operation in all {
        let bytes = operation.to_bytes();
        assert_eq!(Operation::from_bytes(&bytes), Ok(operation));
        for length in 0..bytes.len() {
            assert!(Operation::from_bytes(&bytes.slice(..length)).is_err());
            let answer = ask_bytes(&mut scene.olympus, [66; 32], START, &bytes[..length]);
            assert_eq!(answer, refused(Refusal::Malformed));
        }
        let queried = Answer::from_bytes(&scene.olympus.query(&bytes).into()).unwrap();
        let reads = matches!(bytes[0], 10 | 11);
        assert_eq!(queried == refused(Refusal::NotSo), !reads);
    }
    for index in 0..SECTIONS {
        let section = scene.olympus.section(index);
        if !section.is_empty() {
            let mut fresh = olympus(Mode::Byzantine, 1);
            let cut = &section[..section.len() - 1];
            assert!(fresh.restore_section(index, cut).is_err());
        }
    }
    assert!(scene.olympus.restore_section(SECTIONS, &[]).is_err());
}
