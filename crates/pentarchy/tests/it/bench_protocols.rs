//! `bench protocols` with real processes. It checks that there are figures, and those that do not
//! depend on the machine.

use crate::support::{run, stderr, stdout, text};
use pentarchy_protocols::{BASELINE, DEFAULT, EXAMPLES, Examples};
use serde_json::{Value, json};

fn measured(words: &[&str]) -> Value {
    let output = run(&[&["bench", "protocols", "--quick", "--json"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["complete"], true);
    json
}

fn median(figure: &Value) -> f64 {
    figure["median"].as_f64().unwrap_or_else(|| panic!("no figure: {figure}"))
}

#[test]
fn protocols_stand_beside_each_other_and_cost_what_they_are_made_of() {
    let Examples { signed, macs, speculative, .. } = EXAMPLES;
    let compared = [DEFAULT, signed, macs, speculative];
    let asked = compared.map(|it| it.rules.name).join(",");
    let words = ["--protocol", &asked, "--load", "many,one", "--clients", "30"];
    let json = measured(&[&words[..], &["--batch", "1,adaptive"]].concat());
    let cases = json["cases"].as_array().expect("a list");
    let batches: Vec<_> =
        cases.iter().map(|case| (&case["clients"], &case["batch_requests"])).collect();
    let [thirty, one] = [json!(30), json!(1)];
    assert_eq!(batches, [(&thirty, &one), (&thirty, &Value::Null), (&one, &Value::Null)]);
    for case in cases {
        let systems = case["systems"].as_array().expect("a list");
        let names: Vec<_> =
            systems.iter().map(|system| system["protocol"].as_str().expect("a name")).collect();
        let measured: Vec<_> = compared.into_iter().chain([BASELINE]).collect();
        assert_eq!(names, measured.iter().map(|it| it.rules.name).collect::<Vec<_>>());
        for (system, protocol) in systems.iter().zip(measured) {
            assert_eq!(system["errors"], json!({}), "{system}");
            assert!(median(&system["throughput_ops"]) > 0.0, "{system}");
            let costs = &system["bottleneck_per_op"];
            for cost in ["cpu_us", "messages", "bytes", "macs", "signatures", "hashes"] {
                assert!(median(&costs[cost]) > 0.0, "{cost}: {system}");
            }
            // The server that agrees with nobody certifies nothing.
            let rules = protocol.rules;
            let uses_counters = rules.counter.is_some() && rules.tolerates_faults();
            assert_eq!(median(&costs["counters"]) > 0.0, uses_counters, "{system}");
        }
        let signatures = |index: usize| median(&systems[index]["bottleneck_per_op"]["signatures"]);
        assert!(signatures(1) > signatures(4), "its votes are signed: {case}");
        assert!(signatures(1) > signatures(2), "votes by trusted MACs are not: {case}");
    }
    // The server that agrees with nobody has no batches to fill.
    for system in &cases[0]["systems"].as_array().expect("a list")[..4] {
        let batch = median(&system["requests_per_batch"]);
        assert!((batch - 1.0).abs() < 0.01, "batches of one request: {system}");
    }
}

#[test]
fn the_others_go_on_without_a_backup_that_crashed() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("crashed.html");
    let both = [DEFAULT, EXAMPLES.speculative].map(|it| it.rules.name).join(",");
    let words = ["--crash-backup", "--protocol", &both, "--load", "many,one"];
    let more = ["--clients", "20", "--request-auth", "mac", "--html", text(&page)];
    let json = measured(&[&words[..], &more[..]].concat());
    for case in json["cases"].as_array().expect("a list") {
        assert_eq!(case["crashed_backups"], 1);
        for system in case["systems"].as_array().expect("a list") {
            assert_eq!(system["errors"], json!({}), "{system}");
            assert!(median(&system["throughput_ops"]) > 0.0, "{system}");
            // In so short a run a backup that lags may execute nothing: it has no time for each.
            let ran = system["effort_per_op"]["replicas"].as_array().map(Vec::len);
            let n = system["n"].as_u64().expect("a number") as usize;
            assert_eq!(ran, Some(n - 1), "{system}");
        }
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("a backup crashed"), "{page}");
}

#[test]
fn tables_are_for_people_and_progress_for_terminals() {
    let name = BASELINE.rules.name;
    let words = ["bench", "protocols", "--quick", "--protocol", name, "--load", "one"];
    let output = run(&[&words[..], &["--markdown"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("| {name} | 1 |")), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.lines().all(|line| line.contains("debug build")), "{said}");
    let output = run(&["bench", "protocols", "--help"]);
    assert!(stdout(&output).contains("pentarchy bench protocols --markdown"));
}
