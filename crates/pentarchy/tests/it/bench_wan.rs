//! `bench wan`: figures in virtual time, which are the same on every machine.

use crate::support::{run, stderr, stdout, text};
use serde_json::Value;

#[test]
fn latency_over_slow_links_is_computed_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("wan.svg");
    let words = ["bench", "wan", "--protocol", "pbft,zyzzyva", "--links", "5,50", "--requests"];
    let output = run(&[&words[..], &["60", "--json", "--svg", text(&svg)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "nothing but results in a pipe");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["format"], &json["seed"]), (&1.into(), &1.into()));
    let [pbft, zyzzyva] = [0, 1].map(|line| &json["lines"][line]);
    assert_eq!((&pbft["protocol"], &zyzzyva["protocol"]), (&"pbft".into(), &"zyzzyva".into()));
    for (index, link) in [5.0, 50.0].into_iter().enumerate() {
        let mean = |line: &Value| line["points"][index]["mean_ms"].as_f64().expect("a number");
        assert_eq!(pbft["points"][index]["link_ms"], link);
        assert!(mean(zyzzyva) + link < mean(pbft), "{json}");
    }
    let svg = std::fs::read_to_string(svg).expect("a picture");
    assert!(svg.contains("\nzyzzyva\n</text>") && svg.contains("time of a link, ms"), "{svg}");
    let help = run(&["bench", "wan", "--help"]);
    assert!(stdout(&help).contains("pentarchy bench wan --svg wan.svg"), "{}", stdout(&help));
}
