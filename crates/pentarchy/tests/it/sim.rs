//! The simulator from the command line.

use crate::support::{run, stderr, stdout, text};
use pentarchy_protocols::{BASELINE, DEFAULT, Descriptor, EXAMPLES, PROTOCOLS, Status};

/// How the program is started here.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pentarchy");

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
    let there_is = format!("no protocol \"raft\"; there is: {}", DEFAULT.rules.name);
    assert!(stderr(&output).contains(&there_is));
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

/// Each protocol that is meant to be safe is in a sweep of all, and is the same run in another
/// process and order.
#[test]
fn a_sweep_of_all_protocols_leaves_none_out() {
    let run_of = |jobs| {
        let seeds = ["--seeds", "2", "--requests", "40", "--json", "--jobs", jobs];
        json(&[&["sim", "--protocol", "all"][..], &seeds].concat())
    };
    let (one, four) = (run_of("1"), run_of("4"));
    let of = |tallies: &serde_json::Value| {
        let tallies = tallies.as_array().expect("one for each protocol").clone();
        let pair = |it: serde_json::Value| (it["protocol"].clone(), it["audit"].clone());
        tallies.into_iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(of(&one), of(&four));
    let names: Vec<_> = of(&one).into_iter().map(|(name, _)| name).collect();
    let safe = |it: &&&Descriptor| it.rules.tolerates_faults() && it.status != Status::Museum;
    let expected: Vec<_> = PROTOCOLS.iter().filter(safe).map(|it| it.rules.name).collect();
    assert_eq!(names, expected);
    assert_eq!(names.len(), PROTOCOLS.len() - 3, "two are unsafe, and one tolerates nothing");
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
    for (protocol, rounds, said) in [
        (EXAMPLES.signed, "5", "at most 4 rounds"),
        (BASELINE, "1", "no replica that exists twice"),
    ] {
        let protocol = protocol.rules.name;
        let refused = run(&["sim", "--twins", rounds, "--protocol", protocol]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

/// The words of a command line that ends with one quoted word, if it has one.
fn words(line: &str) -> Vec<String> {
    let (plain, quoted) = line.split_once('\'').unwrap_or((line, ""));
    let plain = plain.split_whitespace().skip(1);
    let quoted = quoted.strip_suffix('\'').map(ToOwned::to_owned);
    plain.map(ToOwned::to_owned).chain(quoted).collect()
}

fn run_words(words: &[String], more: &[&str]) -> std::process::Output {
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(&words)
}

/// What breaks the protocols that need only `2f + 1` replicas by their devices: the same lies do
/// nothing to one that uses devices and needs `3f + 1` all the same.
#[test]
fn devices_that_lie_break_nothing_where_a_quorum_outvotes_them() {
    for device in ["clone", "rollback"] {
        let lying = ["sim", "--device", device, "--requests", "60", "--seeds", "20"];
        let output = run(&[&lying[..], &["--protocol", EXAMPLES.macs.rules.name]].concat());
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("twin "), "somebody has two copies: {}", stdout(&output));
    }
}

#[test]
fn a_failure_is_printed_made_smaller_drawn_and_can_be_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("failure.svg");
    let lying = ["sim", "--device", "clone", "--requests", "300", "--seeds", "40"];
    let output = run(&[&lying[..], &["--picture", text(&picture)]].concat());
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("breaks agreement") && said.contains("\nSMALLER: breaks "), "{said}");
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(" breaks "));

    let line = |start: &str| said.lines().find_map(|line| line.trim().strip_prefix(start));
    // As it was started: another program of the name need not have the bug.
    let seed = format!("{PROGRAM} sim --protocol {} --seed ", DEFAULT.rules.name);
    let seed = words(&format!("{seed}{}", line(&seed).expect("a line to paste")));
    assert_eq!(
        run_words(&seed, &["--no-shrink", "--picture", text(&picture)]).status.code(),
        Some(1)
    );

    let smaller = line("SMALLER: breaks ").expect("a property").to_owned();
    let replay = line("replay:").expect("a line to paste").trim();
    assert!(replay.starts_with(&format!("{PROGRAM} sim replay ")), "{replay}");
    let replay = words(replay);
    let (told, again) = (run_words(&replay, &[]), run_words(&replay, &[]));
    assert_eq!((told.status.code(), &told.stdout), (Some(1), &again.stdout), "{replay:?}");
    let property = smaller.split(':').next().expect("a property");
    assert!(stdout(&told).contains(&format!(" ms: {property}: ")), "{}", stdout(&told));
    let json: serde_json::Value =
        serde_json::from_slice(&run_words(&replay, &["--json", "--only", "r1"]).stdout)
            .expect("JSON");
    assert_eq!(json["violation"]["property"], property);
    assert!(stdout(&told).contains(json["audit"].as_str().expect("an audit")));
}

#[test]
fn a_replay_of_a_seed_is_its_run() {
    let run_of = json(&["sim", "--seed", "7", "--requests", "100", "--json"]);
    let replay = json(&["sim", "replay", "7", "--requests", "100", "--json"]);
    assert_eq!(
        (&replay["audit"], &replay["violation"]),
        (&run_of["audit"], &serde_json::Value::Null)
    );
    let until = run(&["sim", "replay", "7", "--requests", "100", "--until", "s3"]);
    let said = stdout(&until);
    assert!(said.contains(" executes s3 ") && !said.contains(" executes s4 "), "{said}");
}

#[test]
fn mistakes_in_a_replay_are_explained() {
    for (args, part) in [
        (&["replay"][..], "<SEED>"),
        (&["replay", "1", "--with", "n=3 tea=1"], "there are: device, hostile"),
        (&["replay", "1", "--with", "n=3", "--requests", "5"], "cannot be used with"),
        (&["replay", "1", "--with", "n=4 f=2"], " needs n=5 or more for f=2"),
        (&["replay", "1", "--until", "tea"], "milliseconds like 1204.5"),
        (&["replay", "1", "--only", "r99"], "in this run there are r0, r1"),
        (&["replay", "33", "--twins", "1"], "there are 33 schedules"),
        (&["--variant", "tea"], "varia"),
    ] {
        let output = run(&[&["sim"][..], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
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
    let report = json(&["sim", "mutants", "--only", "usig.decide-with-f", "--json"]);
    let line = &report["mutants"][0];
    assert_eq!((&line["catches"], &line["properties"][0]), (&5.into(), &"justification".into()));
    let few = ["sim", "mutants", "--only", "transfer.manifest-not-checked", "--seeds-max", "1"];
    let output = run(&few);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("NOT CAUGHT"), "{}", stdout(&output));
    assert_eq!(run(&["sim", "mutants", "--only", "none"]).status.code(), Some(2));

    let shown = json(&["sim", "museum", "number-reused", "--json"]);
    assert_eq!(shown[0]["as_expected"], true, "{shown}");
    assert_eq!(run(&["sim", "museum", "none"]).status.code(), Some(2));
}
