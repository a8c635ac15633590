use super::*;
use clap::Parser;
use serde_json::{Value, json};
use std::io::Write as _;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: CompareArgs,
}

fn args(words: &[&str]) -> CompareArgs {
    let line = [&["compare", "a", "b"], words].concat();
    Command::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).args
}

fn spread(values: &[f64]) -> Value {
    json!({ "values": values })
}

/// A result whose one system had these throughputs; latency and processor time follow from them.
fn result(throughputs: &[f64]) -> Value {
    let inverse: Vec<f64> = throughputs.iter().map(|ops| 1e6 / ops).collect();
    let system = json!({
        "protocol": "one", "f": 1, "n": 3, "completed": 7,
        "throughput_ops": spread(throughputs),
        "latency_us": { "p50": spread(&inverse), "p99": spread(&inverse) },
        "cpu_us_per_op": { "replicas": [spread(&inverse), spread(&inverse)],
            "clients": spread(&inverse) },
    });
    json!({
        "format": FORMAT, "complete": true,
        "machine": { "processor": "Some CPU", "cores": 2, "load_before": 0.1 },
        "program": { "commit": "abc", "rustc": "1.95", "release": true },
        "settings": { "repeats": throughputs.len(), "seconds": 5.0 },
        "cases": [{
            "workload": "closed", "request_bytes": 0, "reply_bytes": 0, "request_auth": "mac",
            "clients": 1, "outstanding": 1, "systems": [system], "ratio": null,
        }],
    })
}

use crate::report::FORMAT;

fn load(json: &Value) -> Outcome<Recorded> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(json.to_string().as_bytes()).unwrap();
    Recorded::load(file.path())
}

fn compared(before: &Value, after: &Value, words: &[&str]) -> Outcome<Comparison> {
    compare(&load(before)?, &load(after)?, &args(words))
}

const BEFORE: [f64; 5] = [100_000.0, 104_000.0, 97_000.0, 102_000.0, 99_000.0];

fn times(factor: f64) -> Value {
    result(&BEFORE.map(|ops| ops * factor))
}

#[test]
fn a_real_regression_is_told_from_none_and_from_a_gain() {
    let verdict = |after: &Value| {
        let comparison = compared(&result(&BEFORE), after, &[]).unwrap();
        assert_eq!(comparison.regression, comparison.comparisons[0].verdict == Verdict::Worse);
        assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
        (comparison.comparisons[0].verdict, comparison.comparisons[0].to_string())
    };
    let (slower, text) = verdict(&times(0.85));
    assert_eq!(slower, Verdict::Worse);
    assert!(text.starts_with("slower by 15") && text.contains("interval -1"), "{text}");
    let (faster, text) = verdict(&times(1.25));
    assert_eq!(faster, Verdict::Better);
    assert!(text.starts_with("faster by 2"), "{text}");
    let noise = result(&[98_000.0, 103_000.0, 101_000.0, 96_000.0, 105_000.0]);
    let (same, text) = verdict(&noise);
    assert_eq!(same, Verdict::NoDifferenceShown);
    assert!(text.starts_with("no difference shown (interval -"), "{text}");
}

#[test]
fn more_latency_and_processor_time_are_worse() {
    let words = ["--figure", "p50,p99,cpu"];
    let comparison = compared(&result(&BEFORE), &times(0.8), &words).unwrap();
    let verdicts: Vec<_> = comparison.comparisons.iter().map(|line| line.verdict).collect();
    assert_eq!(verdicts, [Verdict::Worse; 3]);
    let text = comparison.comparisons[0].to_string();
    assert!(text.starts_with("higher by 25"), "the inverse of 0.8: {text}");
    let comparison = compared(&result(&BEFORE), &times(1.25), &words).unwrap();
    assert!(comparison.comparisons.iter().all(|line| line.verdict == Verdict::Better));
}

#[test]
fn below_the_threshold_and_with_too_few_repeats_nothing_is_shown() {
    let below = compared(&result(&BEFORE), &times(0.85), &["--threshold", "30"]).unwrap();
    assert_eq!(below.comparisons[0].verdict, Verdict::NoDifferenceShown);
    let few = compared(&result(&BEFORE[..3]), &result(&[1.0, 2.0, 3.0]), &[]).unwrap();
    assert_eq!(few.comparisons[0].verdict, Verdict::TooFewRepeats);
    assert!(!few.regression);
    let enough = ["--confidence", "90"];
    let few = compared(&result(&BEFORE[..3]), &result(&[1.0, 2.0, 3.0]), &enough).unwrap();
    assert_eq!(few.comparisons[0].verdict, Verdict::Worse, "20 arrangements are enough for 90 %");
}

#[test]
fn other_conditions_are_not_compared_and_other_machines_are_warned_of() {
    let mut other = result(&BEFORE);
    other["cases"][0]["clients"] = json!(2);
    assert!(matches!(compared(&result(&BEFORE), &other, &[]), Err(Failure::Usage(_))));
    let mut other = result(&BEFORE);
    other["machine"]["cores"] = json!(64);
    other["machine"]["load_before"] = json!(1.5);
    other["program"]["commit"] = json!("def");
    let warnings = compared(&result(&BEFORE), &other, &[]).unwrap().warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("busy: load 1.5"), "{warnings:?}");
    assert!(warnings[1].contains("machine.cores differs: 2 and 64"), "{warnings:?}");
}

#[test]
fn a_condition_that_an_older_file_does_not_name_is_taken_as_equal() {
    let mut newer = result(&BEFORE);
    newer["cases"][0]["connections"] = json!("shared");
    newer["cases"][0]["reads_percent"] = json!(95);
    let case = &compared(&newer, &result(&BEFORE), &[]).unwrap().comparisons[0].case;
    assert_eq!(case, "closed 0/0, mac, 1 x 1, shared, 95 % reads");
}

#[test]
fn what_is_no_result_is_refused() {
    let mut future = result(&BEFORE);
    future["format"] = json!(FORMAT + 1);
    for wrong in [json!({}), json!([1]), future] {
        assert!(matches!(load(&wrong), Err(Failure::Usage(_))), "{wrong}");
    }
    assert!(matches!(Recorded::load("/no/such/file".as_ref()), Err(Failure::Usage(_))));
}
