//! `bench paper`: what the papers found, beside what this machine gives.

use crate::support::{run, stderr, stdout};
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let output = run(&[&["bench", "paper"], words].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn all_tables_and_figures_are_listed_with_what_shows_them() {
    let papers = json(&["--list", "--json"]);
    let papers = papers.as_array().expect("papers");
    assert_eq!(papers.len(), 5);
    let output = run(&["bench", "paper", "--list"]);
    let list = stdout(&output);
    for paper in papers {
        assert!(list.contains(paper["title"].as_str().expect("a title")), "{list}");
        for item in paper["items"].as_array().expect("items") {
            let shown = ["measured", "command", "page", "missing"].map(|how| !item[how].is_null());
            assert_eq!(shown.iter().filter(|it| **it).count(), 1, "{item}");
            assert!(list.contains(item["title"].as_str().expect("a title")), "{list}");
        }
    }
    let one = run(&["bench", "paper", "004", "--list"]);
    assert!(stdout(&one).starts_with("004  "), "{}", stdout(&one));
}

#[test]
fn a_table_is_measured_beside_the_papers_figures() {
    let papers = json(&["--list", "--json"]);
    let is_small =
        |item: &&Value| item["measured"]["rows"].as_array().is_some_and(|rows| rows.len() <= 5);
    let (number, name) = papers
        .as_array()
        .expect("papers")
        .iter()
        .rev()
        .find_map(|paper| {
            let item = paper["items"].as_array()?.iter().find(is_small)?;
            Some((paper["paper"].as_str()?, item["name"].as_str()?))
        })
        .expect("one has few rows");
    let report = json(&[number, "--only", name, "--quick", "--json"]);
    let rows = report["items"][0]["measured"]["rows"].as_array().expect("rows");
    for row in rows.iter().filter(|row| !row["protocol"].is_null()) {
        let here = row["here"]["median"].as_f64().expect("a figure");
        assert!(here > 0.0 && row["to_baseline"].as_f64().is_some(), "{row}");
        if let (Some(paper), Some(ratio)) = (row["paper"].as_f64(), row["ratio"].as_f64()) {
            assert!((here / paper - ratio).abs() < 1e-9, "{row}");
        }
    }
}

#[test]
fn what_nothing_shows_yet_and_what_there_is_not_is_said() {
    let papers = json(&["--list", "--json"]);
    let is_missing = |item: &&Value| !item["missing"].is_null();
    let missing = papers.as_array().expect("papers").iter().find_map(|paper| {
        let item = paper["items"].as_array()?.iter().find(is_missing)?;
        Some((paper["paper"].as_str()?, item["name"].as_str()?))
    });
    let (number, name) = missing.expect("nothing shows some of them yet");
    let output = run(&["bench", "paper", number, "--only", name]);
    assert!(output.status.success() && stdout(&output).contains("missing: "), "{output:?}");
    let output = run(&["bench", "paper", "003", "--only", "figure-80"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("it has: figure-1, "), "{}", stderr(&output));
    let output = run(&["bench", "paper", "17"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is: 000 ("), "{}", stderr(&output));
}
