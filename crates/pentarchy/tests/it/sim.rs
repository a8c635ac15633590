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
