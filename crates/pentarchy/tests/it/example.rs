//! The example that users read first.

use std::path::Path;
use std::process::Command;

/// Each of the three replicas has a seal of its own, and two have to agree.
#[test]
fn the_proxy_collects_as_many_seals_as_replicas_have_to_agree() {
    let program = Path::new(env!("CARGO_BIN_EXE_pentarchy")).with_file_name("examples/proxy");
    let output = Command::new(&program).output().expect("cargo test builds the examples");
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<(&str, &str)> =
        said.lines().filter_map(|line| line.split_once(" sealed by ")).collect();
    let [(ordered, two), (read, seals)] = lines[..] else { panic!("{said}") };
    assert_eq!((ordered, read, two.len()), ("10", "10", 2));
    assert!((2..=3).contains(&seals.len()), "{seals}");
}

/// Cargo builds examples beside the tests' own folder before it runs tests.
#[test]
fn the_counter_counts_through_the_loss_of_a_replica() {
    let program = Path::new(env!("CARGO_BIN_EXE_pentarchy")).with_file_name("examples/counter");
    let output = Command::new(&program).output().expect("cargo test builds the examples");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"the counter stands at 100\n");
    let lines = include_str!("../../examples/counter.rs").lines().count();
    assert!(lines <= 60, "an example of {lines} lines is no first example");
}
