//! `bench wan`: figures in virtual time, which are the same on every machine.

use crate::support::{run, stderr, stdout, text};
use pentarchy_protocols::{EXAMPLES, Examples};
use serde_json::Value;

#[test]
fn latency_over_slow_links_is_computed_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("wan.svg");
    let Examples { signed, speculative, .. } = EXAMPLES;
    let names = [signed, speculative].map(|it| it.rules.name);
    let asked = names.join(",");
    let words = ["bench", "wan", "--protocol", &asked, "--links", "5,50", "--requests"];
    let output = run(&[&words[..], &["60", "--json", "--svg", text(&svg)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "nothing but results in a pipe");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["format"], &json["seed"]), (&1.into(), &1.into()));
    let [three_phases, one_phase] = [0, 1].map(|line| &json["lines"][line]);
    assert_eq!([three_phases, one_phase].map(|line| line["protocol"].as_str()), names.map(Some));
    for (index, link) in [5.0, 50.0].into_iter().enumerate() {
        let mean = |line: &Value| line["points"][index]["mean_ms"].as_f64().expect("a number");
        assert_eq!(three_phases["points"][index]["link_ms"], link);
        assert!(mean(one_phase) + link < mean(three_phases), "{json}");
    }
    let svg = std::fs::read_to_string(svg).expect("a picture");
    assert!(
        svg.contains(&format!("\n{}\n</text>", names[1])) && svg.contains("time of a link, ms"),
        "{svg}"
    );
    let help = run(&["bench", "wan", "--help"]);
    assert!(stdout(&help).contains("pentarchy bench wan --svg wan.svg"), "{}", stdout(&help));
}
