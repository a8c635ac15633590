use super::*;
use crate::machine::{Machine, Program};
use crate::report::{CaseReport, FORMAT, Report, Settings};
use crate::sample::tests::sample;
use clap::Parser;
use pentarchy_protocols::{BASELINE, DEFAULT};

const BASE: &str = BASELINE.rules.name;
const FIRST: &str = DEFAULT.rules.name;
const SPLIT: &str = EXAMPLES.split.rules.name;
const SIGNED: &str = EXAMPLES.signed.rules.name;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ProtocolsArgs,
}

fn args(words: &[&str]) -> Result<ProtocolsArgs, clap::Error> {
    Line::try_parse_from([&["protocols"], words].concat()).map(|line| line.args)
}

fn plan(words: &[&str]) -> Outcome<Plan> {
    args(words).unwrap_or_else(|error| panic!("{error}")).plan()
}

#[test]
fn by_default_all_protocols_for_users_under_three_loads_beside_the_baseline() {
    let plan = plan(&[]).unwrap();
    let of = |case: &Case| (case.workload, case.clients, case.outstanding, case.batch);
    let loads: Vec<_> = plan.cases.iter().map(|(case, _)| of(case)).collect();
    let expected = [
        (Workload::Pipelined, 8, 256, None),
        (Workload::Closed, 200, 1, None),
        (Workload::Closed, 1, 1, None),
    ];
    assert_eq!(loads, expected);
    for (_, systems) in &plan.cases {
        let names: Vec<_> = systems.iter().map(|system| system.protocol.as_str()).collect();
        assert_eq!(names, protocols::names().chain([BASE]).collect::<Vec<_>>());
    }
}

#[test]
fn pillars_stand_behind_the_name() {
    let asked = format!("{SPLIT}:2,{SPLIT},{SIGNED}:8:rotate,{SPLIT}:2,{SIGNED}:1");
    let cases = plan(&["--protocol", &asked, "--load", "one"]).unwrap().cases;
    let systems: Vec<_> = cases[0].1.iter().map(System::to_string).collect();
    let expected = [
        format!("{SPLIT}:2 f=1 n=3"),
        format!("{SPLIT} f=1 n=3"),
        format!("{SIGNED}:8:rotate f=1 n=4"),
        format!("{SIGNED} f=1 n=4"),
    ];
    assert_eq!(systems[..4], expected);
    let of = |system: &System| (system.name().to_owned(), system.lane.pillars);
    assert_eq!(of(&cases[0].1[0]), (SPLIT.to_owned(), 2));
    assert_eq!(of(&cases[0].1[3]), (SIGNED.to_owned(), 1));
    let wrong = ["9", "0", "", "two"].map(|pillars| format!("{SPLIT}:{pillars}"));
    for name in wrong.into_iter().chain([format!("{FIRST}:2"), format!("{SPLIT}-pillars")]) {
        assert!(plan(&["--protocol", &name]).is_err(), "{name}");
    }
}

#[test]
fn batches_of_a_fixed_size_are_measured_with_many_clients_only() {
    let words = ["--batch", "1,10,adaptive,10", "--load", "one,many", "--protocol"];
    let twice = format!("{SIGNED},{SIGNED}");
    let cases = plan(&[&words[..], &[&twice]].concat()).unwrap().cases;
    let of: Vec<_> = cases.iter().map(|(case, _)| (case.clients, case.batch)).collect();
    assert_eq!(of, [(200, Some(1)), (200, Some(10)), (1, None), (200, None)]);
    assert_eq!(cases[0].1.len(), 2, "it once, and the baseline");
}

#[test]
fn a_server_without_backups_is_not_measured_when_one_crashes() {
    let words = ["--crash-backup", "--load", "many", "--f", "2", "--protocol", FIRST];
    let cases = plan(&words).unwrap().cases;
    let systems: Vec<_> = cases[0].1.iter().map(System::to_string).collect();
    assert_eq!(systems, [format!("{FIRST} f=2 n=5")]);
    assert!(cases[0].0.crash && cases[0].0.to_string().ends_with("a backup crashed"));
}

#[test]
fn nonsense_is_a_usage_error() {
    for words in [&["--batch", "0"][..], &["--batch", "many"], &["--load", "some"]] {
        assert!(args(words).is_err(), "{words:?}");
    }
    for words in [
        &["--protocol", "raft"][..],
        &["--f", "0"],
        &["--batch", "1", "--load", "one"],
        &["--protocol", BASE, "--no-baseline"],
        &["--request-auth", "session", "--protocol", &format!("{FIRST},{SIGNED}")],
    ] {
        assert!(matches!(plan(words), Err(Failure::Usage(_))), "{words:?}");
    }
    assert!(plan(&["--request-auth", "session", "--protocol", FIRST]).is_ok());
}

fn report() -> Report {
    let plan = plan(&["--protocol", FIRST, "--batch", "adaptive,10"]).unwrap();
    let two = |throughputs: [u64; 2]| throughputs.map(sample).to_vec();
    let systems = |system: &System| {
        let samples = if system.is_baseline() { two([4000, 4000]) } else { two([1000, 3000]) };
        (System { n: 2, ..system.clone() }, samples)
    };
    let cases = plan.cases.iter().map(|(case, planned)| {
        CaseReport::new(case, &planned.iter().map(systems).collect::<Vec<_>>()).unwrap()
    });
    Report {
        format: FORMAT,
        machine: Machine::here(),
        program: Program::this(),
        disk: None,
        settings: Settings::new(plan.timing),
        complete: true,
        cases: cases.collect(),
    }
}

#[test]
fn a_table_has_a_row_for_each_protocol_and_a_column_for_each_figure() {
    let report = report();
    let markdown = table::markdown(&report);
    for part in [
        "|  | n | 8 clients x 256, ops/s | 200 clients x 1, ops/s | p50, µs | p99, µs \
         | one client, p50, µs | p99, µs | 200 clients x 1, batches of 10, ops/s |",
        &format!(
            "| {FIRST} | 2 | 2,000 [1,000 .. 3,000] | 2,000 [1,000 .. 3,000] \
             | 667 [333 .. 1,000] |"
        ),
        &format!("| {BASE} | 2 | 4,000 [4,000 .. 4,000] |"),
        "|  | cpu, µs | messages | bytes | MACs | signatures | hashes | counter |",
        &format!("| {FIRST} | 3.00 | 4.000 | 8 | 0.000 | 0.000 | 0.000 | 0.020 | 100.0 | 0 |"),
        "batches of at most 10 requests",
    ] {
        assert!(markdown.contains(part), "{part:?} is not in\n{markdown}");
    }
    let text = table::text(&report);
    assert!(text.contains("2,000") && text.contains("[1,000 .. 3,000]"), "{text}");
    assert!(table::page(&report).contains("<th>MACs</th>"));
}
