//! `bench` with many clients, reads and a store; `bench saturate`; `bench compare`. With real
//! processes; figures are looked for and not judged.

use crate::support::{run, stderr, stdout, text};
use pentarchy_protocols::{BASELINE, DEFAULT};
use serde_json::{Value, json};
use std::path::Path;

fn measured(words: &[&str]) -> Value {
    let output = run(&[&["bench"], words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["complete"], true);
    json
}

fn positive(figure: &Value) -> bool {
    figure["median"].as_f64().is_some_and(|median| median > 0.0)
}

/// More clients than a replica has places for strangers, over connections of their own and over one
/// that they share; nobody's answer is wrong.
#[test]
fn many_clients_are_driven_by_event_loops_and_can_share_a_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("bench.html");
    let words = ["--quick", "--workload", "closed,open", "--rate", "500", "--clients", "70"];
    let more = ["--request-auth", "mac", "--client-threads", "2", "--no-baseline"];
    let kinds = ["--connections", "per-client,shared", "--html", text(&page)];
    let json = measured(&[&words[..], &more[..], &kinds[..]].concat());
    let cases = json["cases"].as_array().expect("a list");
    let kinds: Vec<_> =
        cases.iter().map(|case| (&case["workload"], &case["connections"])).collect();
    let kind = |workload: &str, connections: &str| (json!(workload), json!(connections));
    let expected = [
        kind("closed", "per-client"),
        kind("closed", "shared"),
        kind("open", "per-client"),
        kind("open", "shared"),
    ];
    assert_eq!(kinds, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    for case in cases {
        assert_eq!((&case["clients"], &case["client_loops"]), (&70.into(), &2.into()));
        let system = &case["systems"][0];
        assert_eq!(system["errors"], json!({}), "{case}");
        let clients = &system["effort_per_op"]["clients"];
        assert!(positive(&clients["system_calls"]), "{case}");
        for replica in system["effort_per_op"]["replicas"].as_array().expect("a list") {
            assert!(positive(&replica["system_calls"]), "{case}");
            assert_eq!(replica["allocations"].is_null(), !cfg!(feature = "count-allocations"));
        }
        assert!(positive(&system["busiest_bytes_per_op"]), "{case}");
        assert_eq!(positive(&system["late_p99_us"]), case["workload"] == "open", "{case}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("sessions of one key") && !page.contains("http://"), "{page}");
}

#[test]
fn reads_of_the_store_are_answered_without_being_ordered() {
    // A client orders a read to which a replica does not answer in time, so on a machine that has
    // no time for all of them most are ordered.
    let mut shares: Vec<f64> = Vec::new();
    while shares.len() < 10 && shares.iter().all(|share| *share >= 0.5) {
        shares.push(signatures_of_reads());
    }
    assert!(shares.iter().any(|share| *share < 0.5), "of each read: {shares:?}");
}

/// Signatures that a replica checks for each read, in a short measurement: that of a request is
/// checked, a read has none.
fn signatures_of_reads() -> f64 {
    let words = ["--quick", "--workload", "closed", "--service", "kv", "--keys", "100"];
    let more = ["--reads", "100", "--key-choice", "zipf", "--client-threads", "own"];
    let json = measured(&[&words[..], &more[..]].concat());
    let case = &json["cases"][0];
    assert_eq!((&case["service"], &case["keys"]), (&"kv".into(), &100.into()));
    let systems = case["systems"].as_array().expect("a list");
    let of_system = |system: &Value| {
        assert_eq!(system["errors"], json!({}), "{case}");
        assert!(positive(&system["throughput_ops"]), "{case}");
        let verified = &system["crypto_per_op"]["signatures_verified"]["median"];
        verified.as_f64().expect("a number")
    };
    systems.iter().map(of_system).fold(0.0, f64::max)
}

#[test]
fn a_search_for_saturation_draws_latency_against_throughput() {
    let folder = tempfile::tempdir().expect("a folder");
    let (svg, page) = (folder.path().join("s.svg"), folder.path().join("s.html"));
    for increase in ["rate", "outstanding"] {
        let words = ["saturate", "--quick", "--request-auth", "mac", "--increase", increase];
        let more = ["--p99-ms", "60000", "--svg", text(&svg), "--html", text(&page)];
        let json = measured(&[&words[..], &more[..]].concat());
        assert_eq!(json["settings"]["increase"], increase);
        let systems = json["cases"][0]["systems"].as_array().expect("a list");
        assert_eq!(systems.len(), 2);
        for system in systems {
            let steps = system["steps"].as_array().expect("a list");
            assert!((1..=4).contains(&steps.len()), "{system}");
            for step in steps {
                assert!(positive(&step["throughput_ops"]) && positive(&step["p99_us"]), "{step}");
                assert_eq!(step["errors"], 0, "{step}");
                assert_eq!(step["late_p99_us"].is_null(), increase == "outstanding", "{step}");
            }
            let loads: Vec<_> = steps.iter().filter_map(|step| step["load"].as_u64()).collect();
            assert!(loads.is_sorted(), "{loads:?}");
        }
        let svg = std::fs::read_to_string(&svg).expect("a picture");
        let [replicated, one] = [DEFAULT, BASELINE].map(|it| it.rules.name);
        let has = |line: String| svg.contains(&line);
        assert!(has(format!("{replicated} p99")) && has(format!("{one} p50")), "{svg}");
        let page = std::fs::read_to_string(&page).expect("a page");
        assert!(page.contains("<svg ") && page.contains("coordinated omission"), "{page}");
    }
}

/// Every figure has these values times `factor`.
fn repeat(value: &mut Value, factor: f64) {
    match value {
        Value::Object(members) if members.contains_key("values") => {
            let values = [1000.0, 1040.0, 970.0, 1020.0, 990.0].map(|value| value * factor);
            members.insert("values".to_owned(), json!(values));
        }
        Value::Object(members) => members.values_mut().for_each(|value| repeat(value, factor)),
        Value::Array(items) => items.iter_mut().for_each(|value| repeat(value, factor)),
        _ => {}
    }
}

#[test]
fn compare_reads_what_bench_writes_and_its_exit_code_says_what_it_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let once = measured(&["--quick", "--workload", "closed", "--request-auth", "mac"]);
    let write = |name: &str, json: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, json.to_string()).expect("a file");
        path
    };
    let [before, same, slower, faster] =
        [("before", 1.0), ("same", 1.0), ("slower", 0.8), ("faster", 1.2)].map(|(name, factor)| {
            let mut run = once.clone();
            repeat(&mut run["cases"], factor);
            write(name, &run)
        });
    let compare = |after: &Path, more: &[&str]| {
        let output = run(&[&["bench", "compare", text(&before), text(after)], more].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, found, _) = compare(&same, &[]);
    assert!(code == Some(0) && found.contains("no difference shown"), "{code:?} {found}");
    let (code, found, _) = compare(&faster, &[]);
    assert!(code == Some(0) && found.contains("faster by "), "{code:?} {found}");
    let (code, found, _) = compare(&slower, &["--json"]);
    let json: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!((code, &json["regression"]), (Some(1), &true.into()));
    assert_eq!(json["comparisons"][0]["verdict"], "worse");
    let (code, _, why) = compare(&write("once", &once), &["--confidence", "99.9"]);
    assert!(code == Some(2) && why.contains("too few repeats"), "{code:?} {why}");
    let (code, _, why) = compare(&folder.path().join("absent"), &[]);
    assert!(code == Some(2) && why.contains("cannot read"), "{code:?} {why}");
}
