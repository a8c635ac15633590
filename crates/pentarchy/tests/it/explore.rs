//! The explorer from the command line.

use crate::support::{run, stderr, stdout};
use pentarchy_protocols::DEFAULT;

#[test]
fn a_search_within_budgets_is_counted() {
    let output = run(&["explore", "--liar", "2", "--states", "3000", "--json"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["states"].as_u64() >= Some(3000), "{report}");
    assert_eq!((&report["complete"], &report["broken"]), (&false.into(), &().into()));

    let output = run(&["explore", "--requests", "1", "--timeouts", "0"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("all that the budgets allow"), "{}", stdout(&output));
}

#[test]
fn what_cannot_be_explored_is_a_usage_error() {
    let unknown = format!("no protocol \"raft\"; there is: {}", DEFAULT.rules.name);
    let refused = [
        (vec!["--protocol", "raft"], &*unknown),
        (vec!["--start", "view-9"], "known names: view-2"),
        (vec!["--liar", "3"], "the liar r3 is no replica of 3"),
        (vec!["--variant", "no-such-bug"], "varian"),
    ];
    for (arguments, why) in refused {
        let output = run(&[&["explore"], arguments.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
