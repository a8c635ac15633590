//! The explorer names the bugs of the naive protocol.

use super::naive::{self, Naive};
use super::start;
use crate::explorer::{Explored, Plan, Report, explore};
use pentarchy_core::protocol::Protocol;

fn run<const BUG: u8>(requests: u8, script: &str) -> Report {
    let explored = Explored {
        rules: Naive::<BUG>::RULES,
        start: &start::<BUG>,
        forger: None,
        is_settled: |_, _| false,
    };
    let plan = Plan { requests, start: script.to_owned(), ..Plan::default() };
    explore(&plan, &explored, |_| true).expect("a plan without mistakes")
}

fn broken(report: &Report) -> (&'static str, usize) {
    report.found.as_ref().map_or(("none", 0), |found| (found.broken.property, found.steps))
}

/// The first requests reach replica 0, which orders them.
fn ordered(requests: u8) -> String {
    (1..=requests).map(|client| format!("request {client} r0\n")).collect()
}

#[test]
fn a_correct_protocol_breaks_nothing_however_its_events_are_ordered() {
    let report = run::<{ naive::CORRECT }>(2, "");
    assert!(report.complete && report.found.is_none(), "{report}");
    assert!(report.states > 50, "{report}");
}

#[test]
fn each_bug_is_named_by_a_shortest_run() {
    // Replica 1 executes on its own, at another time.
    assert_eq!(broken(&run::<{ naive::WITHOUT_AGREEMENT }>(2, "")), ("agreement", 2));
    let almost = ordered(4);
    assert_eq!(broken(&run::<{ naive::FORGES }>(5, &almost)), ("validity", 1));
    let almost = format!("{}deliver r0 r2 Order\n", ordered(6));
    assert_eq!(broken(&run::<{ naive::SLOT_TWICE }>(7, &almost)), ("invariants", 2));
}

#[test]
fn a_run_is_written_down_line_by_line() {
    let report = run::<{ naive::WITHOUT_AGREEMENT }>(2, "").to_string();
    assert!(report.contains("agreement: slot 1: r0 executed"), "{report}");
    assert!(report.contains("1. request of client 1 reaches r0"), "{report}");
    assert!(report.contains("2. request of client 1 reaches r1"), "{report}");
}

#[test]
fn plans_with_mistakes_are_refused() {
    let explored = Explored {
        rules: Naive::<{ naive::CORRECT }>::RULES,
        start: &start::<{ naive::CORRECT }>,
        forger: None,
        is_settled: |_, _| false,
    };
    let mistake = |plan: Plan| explore(&plan, &explored, |_| true).map(|_| ()).unwrap_err();
    let liar = Some(pentarchy_core::ids::ReplicaId(1));
    assert!(mistake(Plan { liar, ..Plan::default() }).contains("no liar"));
    let liar = Some(pentarchy_core::ids::ReplicaId(9));
    assert!(mistake(Plan { liar, ..Plan::default() }).contains("no replica"));
    assert!(mistake(Plan { f: 4, ..Plan::default() }).contains("at most"));
    let start = "request 9 r0".to_owned();
    assert!(mistake(Plan { start, ..Plan::default() }).contains("no client 9"));
}
