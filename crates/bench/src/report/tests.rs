use super::super::sample::tests::sample;
use super::*;
use pentarchy_cluster::config::Durability;
use pentarchy_protocols::{BASELINE, DEFAULT};
use serde_json::Value;
use std::time::Duration;

fn case() -> Case {
    super::super::case::tests::case("0/4096")
}

fn machine() -> Machine {
    Machine {
        processor: "Some CPU, fast".to_owned(),
        cores: 2,
        memory_bytes: 4 << 30,
        kernel: "Linux 6".to_owned(),
        load_before: Some(0.25),
    }
}

fn systems(replicated: &[u64], baseline: &[u64]) -> Vec<SystemSamples> {
    let samples = |throughputs: &[u64]| throughputs.iter().map(|t| sample(*t)).collect();
    let protocol = DEFAULT.rules.name.to_owned();
    let group = System { protocol, n: 2, f: 1, ..System::baseline() };
    vec![(group, samples(replicated)), (System::baseline(), samples(baseline))]
}

fn report(systems: &[SystemSamples], complete: bool) -> Report {
    let repeats = systems[0].1.len();
    let second = Duration::from_secs(1);
    Report {
        format: FORMAT,
        machine: machine(),
        program: Program { version: "1.2.3", commit: Some("abc"), rustc: None, release: true },
        settings: Settings::new(Timing { warmup: second, measured: 2 * second, repeats }),
        disk: None,
        complete,
        cases: vec![CaseReport::new(&case(), systems).unwrap()],
    }
}

#[test]
fn json_has_every_figure_with_its_spread() {
    let report = report(&systems(&[1000, 3000, 2000], &[4000, 4000, 4000]), true);
    let json: Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!((&json["format"], &json["complete"]), (&1.into(), &true.into()));
    assert_eq!(json["machine"]["cores"], 2);
    let case = &json["cases"][0];
    assert_eq!((&case["workload"], &case["reply_bytes"]), (&"pipelined".into(), &4096.into()));
    let group = &case["systems"][0];
    assert_eq!(group["throughput_ops"]["median"], 2000.0);
    assert_eq!(group["throughput_ops"]["min"], 1000.0);
    assert_eq!(group["throughput_ops"]["max"], 3000.0);
    assert_eq!(group["throughput_ops"]["relative"], 1.0);
    assert_eq!(group["throughput_ops"]["values"], serde_json::json!([1000.0, 3000.0, 2000.0]));
    assert_eq!(group["latency_us"]["p99"]["median"], 1000.0);
    assert_eq!(group["cpu_us_per_op"]["replicas"][1]["median"], 2.0);
    assert_eq!(group["peak_memory_bytes"][0]["max"], f64::from(8 << 20));
    assert_eq!(group["crypto_per_op"]["usigs_created"]["median"], 0.04);
    assert_eq!(group["completed"], 12_000);
    let effort = &group["effort_per_op"];
    assert_eq!(effort["replicas"][0]["system_calls"]["median"], 2.0);
    assert_eq!(effort["clients"]["voluntary_switches"]["median"], 3.0);
    assert_eq!(effort["replicas"][0]["allocations"], Value::Null);
    assert_eq!(group["busiest_bytes_per_op"]["median"], 8.0);
    assert_eq!((&case["service"], &case["connections"]), (&"null".into(), &"per-client".into()));
}

#[test]
fn ratios_are_of_neighbouring_repeats() {
    let report = report(&systems(&[1000, 3000, 2000], &[2000, 4000, 8000]), true);
    let ratio = report.cases[0].ratio.as_ref().unwrap();
    assert_eq!(ratio.throughput.values, [0.5, 0.75, 0.25]);
    assert_eq!(ratio.throughput.median, 0.5, "and not the ratio of the medians, which is the same");
    assert_eq!(ratio.latency_p50.values[0], 2.0);
    assert_eq!(ratio.cpu.median, 1.0);
}

#[test]
fn there_is_no_ratio_without_a_baseline_and_no_report_without_samples() {
    let both = systems(&[1000], &[2000]);
    assert!(CaseReport::new(&case(), &both[..1]).unwrap().ratio.is_none());
    assert!(CaseReport::new(&case(), &both[1..]).unwrap().ratio.is_none());
    assert!(CaseReport::new(&case(), &systems(&[], &[])).is_none());
}

#[test]
fn the_table_says_what_was_measured_where_and_compares() {
    let report = report(&systems(&[1000, 3000, 2000], &[4000, 4000, 4000]), true);
    let text = render(&report);
    let html = page(&report);
    for figure in ["2,000 [1,000 .. 3,000] 100.0 %", "3.00 + 2.00", "Some CPU, fast", "8 clients"] {
        assert!(html.contains(figure), "{figure:?} is not in\n{html}");
    }
    for part in [
        "Some CPU, fast, 2 cores, 4.0 GiB, Linux 6; load before: 0.25",
        "pentarchy 1.2.3, release build, commit abc\n",
        "3 x 2 s after 1 s of load",
        "pipelined 0/4096, signature: 8 clients, service null, 256 outstanding each",
        "2,000 [1,000 .. 3,000] 100.0 %",
        "3.00 + 2.00",
        "40.0 usigs created",
        "throughput ratio 0.50 [0.25 .. 0.75] 100.0 % (500.00 µs against 250.00 µs",
        "median [smallest .. largest]",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn the_table_admits_what_it_lacks() {
    let one = systems(&[1000], &[4000]);
    let text = render(&report(&one, true));
    assert!(text.contains("there is no spread") && !text.contains('['), "{text}");
    assert!(render(&report(&one, false)).contains("Not all was measured"));
    let mut with_errors = one;
    with_errors[0].1[0].errors.insert("forgotten", 7);
    assert!(render(&report(&with_errors, true)).contains("7 forgotten"));
}

#[test]
fn csv_has_a_line_for_each_measurement_and_quotes_commas() {
    let cases = [(case(), systems(&[1000, 3000], &[4000, 4000]))];
    let program = Program { version: "1", commit: Some("abc"), rustc: None, release: true };
    let text = write_csv(&cases, &machine(), &program).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let at = |name| heads.iter().position(|head| head == name).unwrap();
    let lines: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(lines.len(), 4);
    assert_eq!(&lines[1][at("protocol")], DEFAULT.rules.name);
    assert_eq!((&lines[1][at("repeat")], &lines[1][at("throughput_ops")]), ("1", "3000.0"));
    assert_eq!(&lines[3][at("protocol")], BASELINE.rules.name);
    assert_eq!((&lines[3][at("processor")], &lines[3][at("commit")]), ("Some CPU, fast", "abc"));
    assert_eq!(&lines[0][at("replica_cpu_us_per_op_max")], "3.0");
}

#[test]
fn what_keeping_costs_stands_beside_what_the_disk_does_alone() {
    let memory = report(&systems(&[2000], &[4000]), true);
    let sync = Case { durability: Durability::Sync, ..case() };
    let sync = CaseReport::new(&sync, &systems(&[1500], &[4000])).unwrap();
    let disk = DiskReport { syncs_per_second: 500.0, p50_us: 90.0, p99_us: 40_000.0, max_us: 5e4 };
    let mut cases = memory.cases;
    cases.push(sync);
    let text = render(&Report { cases, disk: Some(disk), ..memory });
    assert!(text.contains("alone, 4 KiB and a sync: 500/s, p50 90 µs, p99 40,000 µs"), "{text}");
    assert!(text.contains(": 75.0 % of the throughput with memory"), "{text}");
    assert!(text.contains("log syncs, per s"), "{text}");
}
