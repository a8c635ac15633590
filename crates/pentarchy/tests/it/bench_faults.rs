//! `bench failover`, `bench faults`, `bench changes` and `bench soak` with real processes: that
//! nothing was lost and that every figure is there, not how good it is.

use crate::support::{children, eventually, is_alive, pentarchy, run, signal, stderr, text};
use pentarchy_protocols::{DEFAULT, EXAMPLES};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Runs a command that writes JSON to a file, and reads it.
fn json_of(words: &[&str], path: &Path) -> Value {
    let output = run(&[words, &["--json", text(path)]].concat());
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    let json: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    assert_eq!((&json["format"], &json["complete"]), (&1.into(), &true.into()));
    let verdict = &json["verdict"];
    assert!(verdict["acknowledged"].as_u64() > Some(0), "{verdict}");
    assert_eq!(verdict["acknowledged"], verdict["stored"], "{verdict}");
    assert_eq!((&verdict["uncured"], &verdict["wrong_clients"]), (&0.into(), &0.into()));
    json
}

#[test]
fn failover_breaks_whoever_is_primary_then() {
    let folder = tempfile::tempdir().expect("a folder");
    for fault in ["kill", "pause"] {
        let words = ["bench", "failover", "--runs", "2", "--watch", "1", "--fault", fault];
        let json = json_of(&words, &folder.path().join("failover.json"));
        let runs = json["runs"].as_array().expect("a list");
        assert_eq!((runs.len(), &json["fault"]), (2, &fault.into()));
        // Who was killed is admitted by a new epoch, which begins with the first view again.
        let same = runs[0]["primary"] == runs[1]["primary"];
        assert!(fault == "kill" || !same, "the first was replaced: {json}");
        assert!(runs.iter().all(|run| run["gap_ms"].as_f64() > Some(0.0)), "{json}");
    }
}

/// The last run finds none of the members that began, and the machine that joins needs to be told.
#[test]
fn changes_measures_keys_and_machines_also_when_nobody_is_left_who_began() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("changes.json");
    for (protocol, runs) in [(EXAMPLES.signed, "5"), (DEFAULT, "1")] {
        let group = ["bench", "changes", "--watch", "1", "--protocol", protocol.rules.name];
        let words = [&group[..], &["--runs", runs]].concat();
        let json = json_of(&words, &path);
        let of = |kind: &str| {
            let all = json["runs"].as_array().expect("a list").iter();
            all.filter(|run| run["kind"] == kind && run["gap_ms"].as_f64() > Some(0.0)).count()
        };
        let runs: usize = runs.parse().expect("a number");
        assert_eq!(["nothing", "refresh", "replace"].map(of), [runs; 3], "{json}");
        assert_eq!([of("switch"), of("switch-back")], [runs, runs], "{json}");
        assert_ne!(json["switched_to"], protocol.rules.name);
    }
}

#[test]
fn faults_draws_a_panel_for_each_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("faults.svg");
    let words = ["bench", "faults", "--seconds-each", "0.5", "--svg", text(&svg)];
    let json = json_of(&words, &folder.path().join("faults.json"));
    let timelines = json["timelines"].as_array().expect("a list");
    assert_eq!(timelines.len(), 7);
    let svg = std::fs::read_to_string(svg).expect("a picture");
    for timeline in timelines {
        let at = |name: &str| timeline[name].as_f64().expect("a number");
        assert!(at("broken_at") < at("healed_at") && at("healed_at") <= at("level_at"));
        assert!(timeline["before_ops"].as_f64() > Some(0.0), "{timeline}");
        assert!(svg.contains(timeline["fault"].as_str().expect("a name")));
    }
}

#[test]
fn who_was_away_is_level_again_and_the_figures_are_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [("pause", "memory", "0"), ("kill", "sync", "0,500"), ("kill", "async", "0")];
    for (fault, durability, keys) in cases {
        let words = ["bench", "recovery", "--away", "0.5,1", "--runs", "1", "--fault", fault];
        let words = [&words[..], &["--durability", durability, "--keys", keys]].concat();
        let json = json_of(&words, &folder.path().join("recovery.json"));
        let runs = json["runs"].as_array().expect("a list");
        let written: Vec<_> = keys.split(',').flat_map(|keys| [keys, keys]).collect();
        assert_eq!((runs.len(), &json["durability"]), (written.len(), &durability.into()));
        assert!(runs.iter().map(|run| run["keys"].to_string()).eq(written), "{json}");
        assert_eq!(runs[0]["log_bytes"].as_u64() > Some(0), durability == "sync", "{json}");
        assert_eq!(json["disk"].is_object(), durability != "memory", "{json}");
        for run in runs {
            for figure in ["level_ms", "bytes", "before_ops"] {
                assert!(run[figure].as_f64() > Some(0.0), "{figure}: {run}");
            }
            // A busy machine may have nothing done in the half second that somebody is away.
            for figure in ["away_ops", "return_ops"] {
                assert!(run[figure].as_f64() >= Some(0.0), "{figure}: {run}");
            }
        }
    }
}

#[test]
fn soak_samples_the_memory_of_every_replica() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("soak.svg");
    let words = ["bench", "soak", "--minutes", "0.1", "--svg", text(&svg)];
    let json = json_of(&words, &folder.path().join("soak.json"));
    let replicas = json["replicas"].as_array().expect("a list");
    assert_eq!(replicas.len(), 3);
    assert_eq!(replicas.iter().filter(|replica| replica["frozen"] == true).count(), 1);
    for replica in replicas {
        assert!(replica["peak_bytes"].as_u64() > Some(1 << 20), "{replica}");
        assert!(replica["samples"].as_array().map_or(0, Vec::len) >= 3, "{replica}");
    }
    assert!(std::fs::read_to_string(svg).expect("a picture").contains("(frozen)"));
}

#[test]
fn soak_freezes_replicas_at_random() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["bench", "soak", "--minutes", "0.1", "--pauses", "5"];
    let json = json_of(&words, &folder.path().join("soak.json"));
    let pauses = json["pauses"].as_array().expect("a list");
    assert!(!pauses.is_empty());
    for pair in pauses.windows(2) {
        assert!(pair[0]["to"].as_f64() <= pair[1]["from"].as_f64(), "with f = 1, one at a time");
    }
    assert!(json["frozen_at"].is_null() && json["verdict"]["acknowledged"].as_u64() > Some(0));
    assert!(json["gaps"].is_array(), "{json}");
}

/// Also a process that is killed leaves no cluster behind: its end of the leash is closed.
#[test]
fn no_cluster_outlives_the_command() {
    // What a killed process could not remove goes with this.
    let folder = tempfile::tempdir().expect("a folder");
    for (end, code) in [(Signal::INT, Some(1)), (Signal::KILL, None)] {
        let words = ["bench", "failover", "--watch", "3600"];
        let mut bench = pentarchy(&words);
        bench.env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let bench = bench.spawn().expect("the binary starts");
        let mut processes = Vec::new();
        eventually("three replicas and the gateway run", || {
            let supervisors = children(bench.id());
            processes = supervisors.iter().flat_map(|pid| children(*pid)).collect();
            processes.len() == 4
        });
        eventually("the first primary is broken", || !processes.iter().all(|pid| is_alive(*pid)));
        signal(bench.id(), end);
        let output = bench.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), code, "{}", stderr(&output));
        eventually("all processes are gone", || !processes.iter().any(|pid| is_alive(*pid)));
    }
}

/// What the figure of the paper has, in six seconds.
#[test]
fn a_life_has_all_its_events_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let [svg, path] = ["life.svg", "life.json"].map(|name| folder.path().join(name));
    let words = ["bench", "life", "--scale", "0.01", "--protocol", EXAMPLES.signed.rules.name];
    let files = ["--clients", "6", "--svg", text(&svg), "--json", text(&path)];
    let output = run(&[&words[..], &files].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let kinds: Vec<_> =
        json["events"].as_array().expect("a list").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["begin", "join", "crash", "return", "leave"]);
    let verdict = &json["verdict"];
    assert!(verdict["completed"].as_u64() > Some(0), "{verdict}");
    assert_eq!([&verdict["wrong"], &verdict["wrong_lists"]], [&Value::from(0); 2], "{verdict}");
    assert_eq!(verdict["lists"].as_u64(), Some(6 * 8), "{verdict}");
    let svg = std::fs::read_to_string(svg).expect("a picture");
    assert!(svg.contains("6 clients that keep lists"), "{svg}");
}
