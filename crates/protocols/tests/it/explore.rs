//! Exploration within small budgets; `STATES=1000000` raises them. For each property there is a
//! seeded bug that it names, and the two schedules that break the paper's view change are found
//! once the repair is taken out.

use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_sim::explorer::{Explored, Plan, Report, explore};

/// MinBFT, to be explored.
pub fn explored() -> Explored<'static> {
    explored_as("minbft")
}

pub fn explored_as(protocol: &str) -> Explored<'static> {
    let entry = pentarchy_protocols::find(protocol).expect("a registered protocol");
    Explored {
        rules: entry.rules,
        start: &entry.start,
        forger: entry.forger,
        is_settled: entry.is_settled,
    }
}

fn run(plan: &Plan, variant: Option<&str>) -> Report {
    let report = mutant::with(variant, || explore(plan, &explored(), |_| true));
    report.expect("a plan without mistakes")
}

fn states(default: usize) -> usize {
    std::env::var("STATES").map_or(default, |text| text.parse().expect("a number"))
}

fn start(name: &str) -> String {
    let starts = pentarchy_protocols::minbft::STARTS;
    starts.iter().find(|(known, _)| *known == name).expect("a start").1.to_owned()
}

/// A liar that knows three tricks, and one timeout for each of the others.
fn trickster() -> Plan {
    let alphabet = ["commit", "view-change", "acknowledge"].map(str::to_owned).to_vec();
    Plan { liar: Some(ReplicaId(2)), lies: 4, timeouts: 1, alphabet, ..Plan::default() }
}

/// Replica 0 proposed what nobody heard of; two views failed; no more requests.
fn prepared() -> Plan {
    Plan { start: start("view-2"), ..Plan::default() }
}

/// What a run with a seeded bug breaks; and that it breaks nothing without the bug, in as many
/// states.
fn names(plan: Plan, variant: &str) -> Report {
    let broken = run(&plan, Some(variant));
    assert!(broken.found.is_some(), "{variant} is not found: {broken}");
    let sound = run(&Plan { states_max: broken.states, ..plan }, None);
    assert!(sound.found.is_none(), "{sound}");
    broken
}

fn property(report: &Report) -> &'static str {
    report.found.as_ref().map_or("none", |found| found.broken.property)
}

#[test]
fn no_liar_breaks_anything() {
    let mut kinds = std::collections::BTreeSet::new();
    for liar in [None, Some(0), Some(1), Some(2)] {
        let states_max = states(25_000);
        let plan = Plan { liar: liar.map(ReplicaId), states_max, ..Plan::default() };
        let report = run(&plan, None);
        eprintln!("liar {liar:?}: {report}");
        assert!(report.found.is_none(), "{report}");
        assert!(report.states >= states_max, "{report}");
        kinds.extend(report.lies.keys().copied());
    }
    for kind in ["prepare", "prepare-skip", "commit", "ask", "view-change", "new-view"] {
        assert!(kinds.contains(kind), "no state lets a liar say {kind}: {kinds:?}");
    }
}

/// Explores a protocol of four replicas, in which nothing breaks.
fn sound(protocol: &str, plan: &Plan) -> Report {
    let report = explore(plan, &explored_as(protocol), |_| true).expect("a plan");
    let Plan { liar, deep, .. } = plan;
    eprintln!("liar {liar:?}, deep {deep}: {report}");
    assert!(report.found.is_none() && report.states > 1_000, "{report}");
    report
}

/// The same of PBFT. Four replicas have more orders of events, so less of them is seen: breadth
/// first, hardly any run in which something is executed, and so some long runs too.
#[test]
fn no_liar_breaks_pbft() {
    no_liar_breaks("pbft");
}

/// The same of Mod-SMaRt.
#[test]
fn no_liar_breaks_modsmart() {
    no_liar_breaks("modsmart");
}

fn no_liar_breaks(protocol: &str) {
    for liar in [None, Some(0), Some(1)] {
        let plan = Plan { liar: liar.map(ReplicaId), states_max: states(8_000), ..Plan::default() };
        sound(protocol, &plan);
        let deep = sound(protocol, &Plan { deep: true, ..plan });
        assert!(deep.outcomes >= 10 && deep.slots >= 2, "two logs to compare: {deep}");
    }
}

/// A primary that orders two things in one slot and votes for both, and one request: long runs, in
/// which correct replicas execute while others have another proposal.
#[test]
fn a_primary_that_equivocates_does_not_break_pbft() {
    equivocates("pbft", &OF_PBFT, 30_000);
}

/// The same with WRITEs and ACCEPTs, which nobody can show to others.
#[test]
fn a_primary_that_equivocates_does_not_break_modsmart() {
    let kinds = ["propose", "propose-again", "write", "write-other", "accept"];
    equivocates("modsmart", &kinds, 30_000);
}

/// Its device gives a trusted MAC to each of them.
#[test]
fn a_primary_that_equivocates_does_not_break_hybrid_pbft() {
    equivocates("hybrid-pbft", &OF_PBFT, 15_000);
}

/// What an equivocating primary says, its second proposal in the second place.
const OF_PBFT: [&str; 5] =
    ["pre-prepare", "pre-prepare-again", "prepare", "prepare-other", "commit"];

fn equivocates(protocol: &str, kinds: &[&'static str], states_max: usize) {
    let plan = Plan {
        liar: Some(ReplicaId(0)),
        lies: 4,
        requests: 1,
        timeouts: 0,
        alphabet: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        states_max: states(states_max),
        deep: true,
        ..Plan::default()
    };
    let report = sound(protocol, &plan);
    assert!(report.lies.contains_key(kinds[1]), "{report} {:?}", report.lies);
    assert!(report.outcomes >= 4 && report.slots >= 1, "nothing was executed: {report}");
}

/// The same of Hybster, and with views that nobody opens in time: breadth first and some long runs.
#[test]
fn no_liar_breaks_hybster() {
    let mut kinds = std::collections::BTreeSet::new();
    for (liar, timeouts) in [(None, 2), (Some(0), 1), (Some(1), 1), (Some(2), 2)] {
        let (liar, states_max) = (liar.map(ReplicaId), states(8_000));
        for deep in [false, true] {
            let plan = Plan { liar, timeouts, states_max, deep, ..Plan::default() };
            let report = explore(&plan, &explored_as("hybster"), |_| true).expect("a plan");
            eprintln!("liar {liar:?}, deep {deep}: {report} {:?}", report.lies);
            assert!(report.found.is_none() && report.states >= states_max, "{report}");
            assert!(report.outcomes >= 5 && report.slots >= 2, "two logs to compare: {report}");
            kinds.extend(report.lies.keys().copied());
        }
    }
    for kind in ["prepare", "prepare-skip", "commit", "ask", "view-change", "new-view", "enter"] {
        assert!(kinds.contains(kind), "no state lets a liar say {kind}: {kinds:?}");
    }
}

/// A liar's VIEW-CHANGE leaves out what it committed to, and the next view orders something else
/// there: nothing but the certificate says so.
#[test]
fn an_omitted_commitment_of_hybster_is_found() {
    let search = |variant, states_max| {
        let alphabet = ["commit", "view-change-empty", "enter"].map(str::to_owned).to_vec();
        let plan = Plan { alphabet, states_max, ..trickster() };
        let run = || explore(&plan, &explored_as("hybster"), |_| true).expect("a plan");
        mutant::with(variant, run)
    };
    let broken = search(Some("hybster.omission-not-checked"), 200_000);
    assert_eq!(property(&broken), "agreement", "{broken}");
    let sound = search(None, broken.states);
    assert!(sound.found.is_none() && sound.slots >= 1, "{sound}");
}

/// The same of Zyzzyva: a checkpoint behind each slot, so that what is executed becomes final.
#[test]
fn no_liar_breaks_zyzzyva() {
    for (liar, checkpoint_slots) in [(None, 1), (Some(0), 4), (Some(1), 1)] {
        let liar = liar.map(ReplicaId);
        let tuning = Tuning { checkpoint_slots, ..Plan::default().tuning };
        let plan = Plan { liar, tuning, states_max: states(8_000), ..Plan::default() };
        let report = explore(&plan, &explored_as("zyzzyva"), |_| true).expect("a plan");
        eprintln!("liar {liar:?}: {report}");
        assert!(report.found.is_none() && report.states > 1_000, "{report}");
    }
}

/// MinZyzzyva, with a checkpoint behind each slot or far away, and views that nobody opens in time:
/// what is final is the same everywhere, and begins with whatever all replicas told a client.
#[test]
fn no_liar_breaks_minzyzzyva() {
    let plans = [(None, 2, 4), (Some(0), 1, 1), (Some(1), 1, 4), (Some(2), 2, 1)];
    for (liar, timeouts, checkpoint_slots) in plans {
        let liar = liar.map(ReplicaId);
        let tuning = Tuning { checkpoint_slots, ..Plan::default().tuning };
        let states_max = states(25_000);
        for deep in [false, true] {
            let plan = Plan { liar, timeouts, tuning, states_max, deep, ..Plan::default() };
            let report = explore(&plan, &explored_as("minzyzzyva"), |_| true).expect("a plan");
            eprintln!("liar {liar:?}, deep {deep}: {report}");
            assert!(report.found.is_none() && report.states >= states_max, "{report}");
            let least = if deep { 5 } else { 15 };
            assert!(report.outcomes >= least && report.slots >= 2, "two logs to compare: {report}");
        }
    }
}

/// What a client acts on because all told it the same is followed: if VIEW-CHANGEs show only what
/// was committed to, a later view loses it, and what becomes final there contradicts the client.
#[test]
fn what_a_client_acts_on_is_followed() {
    let run = |variant: Option<&'static str>| {
        // Its next VIEW-CHANGE would be refused too, and that is seen before.
        let plan = Plan { states_max: 400_000, asks: variant.is_none(), ..trickster() };
        let search = || explore(&plan, &explored_as("minzyzzyva"), |_| true).expect("a plan");
        mutant::with(variant, search)
    };
    let broken = run(Some("usig.shows-commitments-only"));
    assert_eq!(property(&broken), "speculation", "{broken}");
    let sound = run(None);
    assert!(sound.found.is_none(), "{sound}");
}

/// What is taken back and what becomes final is followed too: with too few votes, two replicas
/// hold different things for final.
#[test]
fn a_search_follows_what_is_taken_back() {
    let plan = |states_max| Plan {
        liar: Some(ReplicaId(0)),
        lies: 4,
        requests: 1,
        timeouts: 0,
        alphabet: ["order", "order-again", "commit", "commit-other"].map(str::to_owned).to_vec(),
        states_max,
        ..Plan::default()
    };
    let search = |variant, states_max| {
        let plan = plan(states_max);
        let run = || explore(&plan, &explored_as("zyzzyva"), |_| true).expect("a plan");
        mutant::with(variant, run)
    };
    let broken = search(Some("zyzzyva.final-with-f"), 1_000_000);
    assert_eq!(property(&broken), "agreement", "{broken}");
    let sound = search(None, broken.states / 4);
    assert!(sound.found.is_none() && sound.states > 1_000, "{sound}");
}

#[test]
fn a_small_plan_is_explored_to_its_end() {
    let plan = Plan { requests: 1, timeouts: 0, ..Plan::default() };
    let (once, again) = (run(&plan, None), run(&plan, None));
    assert!(once.complete && once.found.is_none(), "{once}");
    let figures = |it: &Report| (it.states, it.transitions, it.depth, it.replica_states);
    assert_eq!(figures(&once), figures(&again));
    // Three requests, two PREPAREs, and of four COMMITs those that come before the slot is decided.
    assert!(once.depth >= 7, "three requests and four messages arrive: {once}");
}

/// What a reduced search leaves out leads to no view and no log that it does not see.
#[test]
fn reductions_miss_nothing() {
    let with = |liar, lies, requests| Plan {
        liar: Some(ReplicaId(liar)),
        lies,
        requests,
        timeouts: 1,
        ..Plan::default()
    };
    for plan in [with(1, 1, 2), with(0, 1, 1), with(2, 1, 1)] {
        let (reduced, full) = (run(&plan, None), run(&Plan { reduced: false, ..plan }, None));
        assert!(reduced.complete && full.complete, "{reduced}\n{full}");
        assert!(reduced.states < full.states, "{reduced}\n{full}");
        assert_eq!(reduced.outcomes, full.outcomes, "{reduced}\n{full}");
        eprintln!("{reduced}\n{full}");
    }
}

/// `docs/protocols/minbft.md`, "a sender's messages count in order, also after its VIEW-CHANGE".
#[test]
fn commitments_behind_a_view_change_are_found() {
    let report = names(trickster(), "device.not-bound-to-views");
    assert_eq!(property(&report), "agreement", "{report}");
    let found = report.found.as_ref().expect("it was found");
    let text = found.lines.join("\n");
    let (left, committed) = (text.find("view-change v1"), text.find("commit v0 s1"));
    assert!(left.is_some() && left < committed, "{report}");
}

/// `docs/protocols/minbft.md`, "NEW-VIEW takes effect when received".
#[test]
fn execution_without_agreement_on_the_new_view_is_found() {
    // A VIEW-CHANGE that nobody would accept is seen before, so the other search does not ask.
    let report = names(prepared(), "usig.execute-on-new-view");
    assert_eq!(property(&report), "leaving", "{report}");
    let report = names(Plan { asks: false, ..prepared() }, "usig.execute-on-new-view");
    assert_eq!(property(&report), "agreement", "{report}");
}

/// A core believes that its timer runs, and its host has none.
#[test]
fn a_replica_that_nothing_leads_on_is_found() {
    let plan = Plan { requests: 1, ..Plan::default() };
    let report = names(plan, "frame.trusts-new-primary");
    assert_eq!(property(&report), "moving_on", "{report}");
}

#[test]
fn every_other_property_names_its_bug() {
    let alphabet = ["prepare", "prepare-again"].map(str::to_owned).to_vec();
    let plan = Plan { liar: Some(ReplicaId(0)), lies: 2, timeouts: 0, alphabet, ..Plan::default() };
    let report = names(plan.clone(), "device.certifies-twice");
    assert_eq!(property(&report), "counter_uniqueness", "{report}");
    let report = names(plan, "sessions.runs-again");
    assert_eq!(property(&report), "at_most_once", "{report}");
}

#[test]
fn a_mistake_in_a_start_says_where() {
    let entry = pentarchy_protocols::find("minbft").expect("a registered protocol");
    let explored = Explored {
        rules: entry.rules,
        start: &entry.start,
        forger: entry.forger,
        is_settled: entry.is_settled,
    };
    let plan = Plan { start: "# fine\nrequest 1 r0\ndrop r0 * Commit\n".into(), ..Plan::default() };
    let mistake = explore(&plan, &explored, |_| true).map(|_| ()).expect_err("no commit is there");
    assert!(mistake.contains("line 3") && mistake.contains("nothing like that"), "{mistake}");
}
