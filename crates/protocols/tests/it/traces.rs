//! Golden traces: `testdata/<protocol>/*.txt`. `UPDATE=1` rewrites them; review that as a diff.

use crate::swarm::factories_of;
use pentarchy_core::mutant;
use pentarchy_protocols::DEFAULT;
use pentarchy_sim::run::Factories;
use pentarchy_sim::trace::{check_file, rewrite};
use std::path::PathBuf;

fn find(name: &str) -> Option<Factories<'static>> {
    pentarchy_protocols::find(name).map(factories_of)
}

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The folders are named after the protocols.
#[test]
fn golden_traces_are_still_true() {
    let mut wrong = Vec::new();
    let mut traces = 0;
    for folder in std::fs::read_dir(testdata()).expect("the folders of traces") {
        let folder = folder.expect("a folder").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(find(name).is_some(), "{name} is no protocol");
        let files: Vec<_> = std::fs::read_dir(&folder).expect("traces").collect();
        assert!(files.len() >= 3, "{name} has {} traces", files.len());
        for file in files {
            traces += 1;
            wrong.extend(check_file(&file.expect("a trace").path(), &find).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(traces >= 29, "{traces} traces");
}

/// The traces of groups that change show who has to agree to that, and what a leaver waits for.
#[test]
fn seeded_bugs_of_changes_show_in_the_traces_of_a_member_that_leaves() {
    for name in ["member_removed", "member_replaced"] {
        let path = testdata().join(DEFAULT.rules.name).join(name).with_extension("txt");
        let text = std::fs::read_to_string(path).expect("a trace");
        let with = |bug| mutant::with(bug, || rewrite(&text, &find)).expect("all commands work");
        let right = with(None);
        for bug in ["roster.one-administrator-is-enough", "epochs.leaves-at-once"] {
            assert!(with(Some(bug)) != right, "{name} does not show {bug}");
        }
    }
}
