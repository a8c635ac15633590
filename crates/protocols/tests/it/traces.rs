//! Golden traces: `testdata/<protocol>/*.txt`. `UPDATE=1` rewrites them; review that as a diff.

use pentarchy_sim::trace::{TracedProtocol, check_file};
use std::path::Path;

fn find(name: &str) -> Option<TracedProtocol<'static>> {
    let entry = pentarchy_protocols::find(name)?;
    Some(TracedProtocol { rules: entry.rules, start: &entry.start })
}

fn traces_of(protocol: &str, at_least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(protocol);
    let mut traces = 0;
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(folder).expect("the folder of traces") {
        traces += 1;
        let path = file.expect("a trace").path();
        wrong.extend(check_file(&path, &find).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(traces >= at_least, "{traces} traces");
}

#[test]
fn minbft() {
    traces_of("minbft", 5);
}

#[test]
fn hybster() {
    traces_of("hybster", 3);
}

#[test]
fn pbft() {
    traces_of("pbft", 6);
}

#[test]
fn zyzzyva() {
    traces_of("zyzzyva", 5);
}

#[test]
fn minzyzzyva() {
    traces_of("minzyzzyva", 6);
}
