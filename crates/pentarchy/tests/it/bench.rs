//! `bench` with real processes. It checks that there are figures, not how good they are.

use crate::support::{children, eventually, pentarchy, run, signal, stderr, stdout};
use pentarchy_protocols::{BASELINE, DEFAULT};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

fn positive(figure: &Value) -> bool {
    figure["median"].as_f64().is_some_and(|median| median > 0.0)
}

#[test]
fn a_quick_run_measures_both_systems_and_compares_them() {
    let words = ["--quick", "--json", "--request-auth", "mac,session,signature"];
    let words = [&words[..], &["--payload", "0/1024"]].concat();
    let output = run(&[&["bench"], &words[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["format"], &json["complete"]), (&1.into(), &true.into()));
    assert!(json["machine"]["cores"].as_u64() > Some(0));
    let cases = json["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 6, "two workloads, three ways to authenticate");
    for case in cases {
        let systems = case["systems"].as_array().expect("a list");
        let names: Vec<_> = systems.iter().map(|system| system["protocol"].as_str()).collect();
        assert_eq!(names, [Some(DEFAULT.rules.name), Some(BASELINE.rules.name)]);
        for system in systems {
            assert!(positive(&system["throughput_ops"]), "{system}");
            assert!(positive(&system["latency_us"]["p50"]), "{system}");
            assert!(positive(&system["cpu_us_per_op"]["clients"]), "{system}");
            assert_eq!(system["throughput_ops"]["relative"], Value::Null, "one repeat");
            assert_eq!(system["errors"], serde_json::json!({}));
            let replicas = system["n"].as_u64().expect("a number") as usize;
            assert_eq!(
                system["cpu_us_per_op"]["replicas"].as_array().map(Vec::len),
                Some(replicas)
            );
        }
        for ratio in ["throughput", "latency_p50", "cpu"] {
            assert!(positive(&case["ratio"][ratio]), "{case}");
        }
        let usigs =
            |system: usize| case["systems"][system]["crypto_per_op"]["usigs_created"].clone();
        assert!(
            positive(&usigs(0)) && !positive(&usigs(1)),
            "only one of them is replicated: {case}"
        );
    }
}

#[test]
fn ctrl_c_prints_what_is_there_and_leaves_nothing_behind() {
    let words = ["bench", "--seconds", "3600", "--workload", "closed", "--json"];
    let bench = pentarchy(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let bench = bench.expect("the binary starts");
    let mut replicas = Vec::new();
    eventually("three replicas run", || {
        replicas = children(bench.id());
        replicas.len() == 3
    });
    signal(bench.id(), Signal::INT);
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).lines().last(), Some("pentarchy: interrupted"));
    assert_eq!(stdout(&output), "", "no case was measured");
    eventually("the replicas are gone", || {
        !replicas.iter().any(|pid| crate::support::is_alive(*pid))
    });
}

#[test]
fn a_baseline_is_no_protocol_for_services() {
    let (first, baseline) = (DEFAULT.rules.name, BASELINE.rules.name);
    let output = run(&["up", "--protocol", baseline]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(&format!("no protocol {baseline:?}")), "{}", stderr(&output));
    let output = run(&["bench", "--protocol", "raft"]);
    let told = stderr(&output);
    assert!(told.contains(&format!("no protocol \"raft\"; there is: {first}, ")), "{told}");
    assert!(told.trim_end().ends_with(&format!(", {baseline}")), "{told}");
}
