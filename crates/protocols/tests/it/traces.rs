//! Golden traces: `testdata/<protocol>/*.txt`. `UPDATE=1` rewrites them; review that as a diff.

use pentarchy_sim::trace::{TracedProtocol, check_file};
use std::path::Path;

fn find(name: &str) -> Option<TracedProtocol<'static>> {
    let entry = pentarchy_protocols::find(name)?;
    Some(TracedProtocol { rules: entry.rules, start: &entry.start })
}

/// The folders are named after the protocols.
#[test]
fn golden_traces_are_still_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut wrong = Vec::new();
    let mut traces = 0;
    for folder in std::fs::read_dir(root).expect("the folders of traces") {
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
    assert!(traces >= 25, "{traces} traces");
}
