//! Exploration within small budgets; `STATES=1000000` raises them. For each property there is a
//! seeded bug that it names, and the two schedules that break the paper's view change are found
//! once the repair is taken out.

use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use pentarchy_sim::explorer::{Explored, Plan, Report, explore};

/// MinBFT, to be explored.
pub fn explored() -> Explored<'static> {
    explored_as("minbft")
}

fn explored_as(protocol: &str) -> Explored<'static> {
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

/// The same of PBFT. Four replicas have more orders of events, so less of them is seen.
#[test]
fn no_liar_breaks_pbft() {
    for liar in [None, Some(0), Some(1)] {
        let plan = Plan { liar: liar.map(ReplicaId), states_max: states(8_000), ..Plan::default() };
        let report = explore(&plan, &explored_as("pbft"), |_| true).expect("a plan");
        eprintln!("liar {liar:?}: {report}");
        assert!(report.found.is_none() && report.states > 1_000, "{report}");
    }
}

/// The same of Hybster, and with views that nobody opens in time.
#[test]
fn no_liar_breaks_hybster() {
    for (liar, timeouts) in [(None, 2), (Some(0), 1), (Some(1), 1), (Some(2), 2)] {
        let liar = liar.map(ReplicaId);
        let plan = Plan { liar, timeouts, states_max: states(8_000), ..Plan::default() };
        let report = explore(&plan, &explored_as("hybster"), |_| true).expect("a plan");
        eprintln!("liar {liar:?}: {report}");
        assert!(report.found.is_none() && report.states > 1_000, "{report}");
    }
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
    let report = names(prepared(), "minbft.execute-on-new-view");
    assert_eq!(property(&report), "agreement", "{report}");
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
