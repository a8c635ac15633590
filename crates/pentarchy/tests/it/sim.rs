//! The simulator from the command line.

use crate::support::{run, stderr, stdout};

#[test]
fn seeds_are_counted_and_a_seed_is_the_same_run_each_time() {
    let output = run(&["sim", "--seeds", "6", "--seed", "0x10", "--requests", "200", "--json"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&summary["seeds"], &summary["first_seed"]), (&6.into(), &16.into()));
    assert!(summary["requests"].as_u64() >= Some(6 * 200), "{summary}");
    assert_eq!(summary["failed"], serde_json::json!([]));

    let once = || {
        let output = run(&["sim", "--seed", "18", "--requests", "200"]);
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        stdout(&output).lines().next().expect("a line").to_owned()
    };
    let line = once();
    assert!(line.starts_with("seed 0x12 ") && line.contains("audit="), "{line}");
    assert_eq!(once(), line);
}

#[test]
fn an_unknown_protocol_is_a_usage_error() {
    let output = run(&["sim", "--protocol", "raft"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no protocol \"raft\"; there is: minbft"));
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = run(args);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Two processes, and however many threads: memory is laid out anew each time, and seeds end in
/// another order.
#[test]
fn two_processes_come_to_the_same_audit() {
    let audit = |jobs, seed| {
        let seeds = ["--seeds", "6", "--seed", seed, "--requests", "150", "--json", "--jobs", jobs];
        json(&[&["sim"][..], &seeds].concat())["audit"].clone()
    };
    assert_eq!(audit("1", "3"), audit("4", "3"));
    assert_ne!(audit("1", "3"), audit("1", "4"));
}

#[test]
fn schedules_around_twins_are_counted_chosen_and_survived() {
    let summary = json(&["sim", "--twins", "1", "--json"]);
    assert_eq!((&summary["seeds"], &summary["twins"]), (&33.into(), &1.into()), "{summary}");
    assert_eq!(summary["adversaries"]["twin"], 33);
    let output = run(&["sim", "--twins", "1", "--seed", "32"]);
    assert!(output.status.success() && stdout(&output).starts_with("seed 0x20 "));
    let beyond = run(&["sim", "--twins", "1", "--seed", "33"]);
    assert_eq!(beyond.status.code(), Some(2));
    assert!(stderr(&beyond).contains("there are 33 schedules"), "{}", stderr(&beyond));
}

#[test]
fn devices_that_are_copied_break_the_group_and_the_line_that_shows_it_is_printed() {
    let lying = ["sim", "--device", "clone", "--requests", "300"];
    let output = run(&[&lying[..], &["--seeds", "40"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("breaks agreement"), "{text}");
    let replay = text.lines().find(|line| line.contains("pentarchy sim --protocol minbft --seed"));
    let words: Vec<&str> = replay.expect("a line to paste").split_whitespace().skip(1).collect();
    let words = words.split(|word| *word == "#").next().expect("what is not a comment");
    assert_eq!(run(words).status.code(), Some(1), "{words:?}");
}

#[cfg(not(feature = "mutants"))]
#[test]
fn a_binary_that_may_serve_has_no_seeded_bugs_and_says_where_they_are() {
    for what in ["mutants", "museum"] {
        let output = run(&["sim", what]);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(stderr(&output).contains("--features mutants"), "{}", stderr(&output));
    }
}

#[cfg(feature = "mutants")]
#[test]
fn a_bug_is_found_one_that_is_not_looked_for_is_missed_and_an_exhibit_is_shown() {
    let report = json(&["sim", "mutants", "--only", "minbft.decide-with-f", "--json"]);
    let line = &report["mutants"][0];
    assert_eq!((&line["catches"], &line["properties"][0]), (&5.into(), &"agreement".into()));
    let few = ["sim", "mutants", "--only", "transfer.manifest-not-checked", "--seeds-max", "1"];
    let output = run(&few);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("NOT CAUGHT"), "{}", stdout(&output));
    assert_eq!(run(&["sim", "mutants", "--only", "none"]).status.code(), Some(2));

    let shown = json(&["sim", "museum", "number-reused", "--json"]);
    assert_eq!(shown[0]["as_expected"], true, "{shown}");
    assert_eq!(run(&["sim", "museum", "none"]).status.code(), Some(2));
}
