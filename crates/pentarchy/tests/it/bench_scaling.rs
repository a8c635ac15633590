//! `bench ordering` and `bench model`: the parts of replicas whose order is split, and of those
//! whose is not.

use crate::support::{run, stderr, stdout};
use pentarchy_protocols::{DEFAULT, EXAMPLES};
use serde_json::Value;

fn rows(words: &[&str]) -> Vec<Value> {
    let output = run(&[&["bench"], words, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["format"], 2);
    json["rows"].as_array().expect("rows").clone()
}

fn median(spread: &Value) -> f64 {
    spread["median"].as_f64().expect("a number")
}

#[test]
fn the_ordering_of_one_replica_says_what_each_thread_takes() {
    let few = ["--requests", "300", "--repeats", "1", "--batch", "1"];
    let rows = rows(&[&["ordering", "--pillars", "1,2"], &few[..]].concat());
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    assert_eq!(rows.len(), 2 * (1 + cores), "believed and checked");
    for row in &rows {
        let of_pillars = row["pillar_cpu_us"].as_array().expect("one of each");
        let pillars = row["pillars"].as_u64().expect("a number");
        assert_eq!(of_pillars.len() as u64, if pillars == 1 { 0 } else { pillars });
        let sum = of_pillars.iter().map(median).sum::<f64>() + median(&row["rest_cpu_us"]);
        assert!((sum - median(&row["cpu_us"])).abs() < 0.01, "{row}");
        assert!(of_pillars.iter().all(|cpu| median(cpu) > 0.0), "{row}");
        assert!(median(&row["requests_per_second"]) > 0.0 && row["times_one"].is_number());
        assert!(row["times_one_processor"].is_number());
    }
    let of_pillars = |signatures: &str| -> f64 {
        let split = |row: &&Value| row["signatures"] == signatures && row["pillars"] == 2;
        let row = rows.iter().find(split).expect("a row");
        row["pillar_cpu_us"].as_array().expect("one of each").iter().map(median).sum()
    };
    let [believed, checked] = ["believed", "checked"].map(of_pillars);
    assert!(checked > 1.5 * believed, "clients' signatures are checked there");
}

#[test]
fn a_model_of_pillars_says_what_the_busiest_and_the_rest_take() {
    // Long enough for several requests, however slow this machine is just now.
    let few = ["--millis", "50", "--repeats", "1", "--batch", "1"];
    let split = EXAMPLES.split.rules.name;
    let rows = rows(&[&["model", "--protocol", split, "--pillars", "1,2"], &few[..]].concat());
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["busiest_pillar"].is_null() && median(&rows[1]["busiest_pillar"]) > 0.0);
    assert!(rows.iter().all(|row| median(&row["rest"]) > 0.0 && row["times_one"].is_number()));
}

#[test]
fn a_model_in_which_nothing_was_completed_says_so() {
    let never = ["--link-us", "1000000", "--millis", "1", "--repeats", "1", "--pillars", "1"];
    let output = run(&[&["bench", "model"], &never[..]].concat());
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("count more with --millis"), "{said}");
}

#[test]
fn what_cannot_be_split_is_refused_with_what_can() {
    for command in ["ordering", "model"] {
        let (whole, split) = (DEFAULT.rules.name, EXAMPLES.split.rules.name);
        let output = run(&["bench", command, "--protocol", whole, "--pillars", "2"]);
        let said = stderr(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(&format!("{whole} cannot be split")), "{said}");
        assert!(said.contains(split), "{said}");
        let help = run(&["bench", command, "--help"]);
        assert!(stdout(&help).contains("docs/benchmarks.md says"), "{}", stdout(&help));
    }
}
