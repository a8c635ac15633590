//! Which crate may use which, and what the inner crates must declare.

use super::Finding;
use crate::tree::Tree;
use toml::{Table, Value};

/// Each crate and the crates that it may use. `ARCHITECTURE.md` has the picture.
const ARROWS: [(&str, &[&str]); 20] = [
    (
        "pentarchy",
        &[
            "bench",
            "console",
            "cluster",
            "gateways",
            "replica",
            "client",
            "sim",
            "protocols",
            "services",
            "store",
            "trusted",
            "crypto",
            "io",
            "storage",
            "core",
        ],
    ),
    (
        "bench",
        &[
            "console",
            "cluster",
            "costs",
            "replica",
            "client",
            "sim",
            "protocols",
            "services",
            "crypto",
            "io",
            "storage",
            "core",
        ],
    ),
    ("console", &["cluster", "sim", "protocols", "io", "core"]),
    ("cluster", &["replica", "client", "protocols", "trusted", "crypto", "io", "storage", "core"]),
    ("gateways", &["client", "services", "core"]),
    ("replica", &["machine", "trusted", "crypto", "io", "storage", "core"]),
    ("machine", &["storage", "core"]),
    ("client", &["crypto", "io", "core"]),
    ("sim", &["machine", "services", "trusted", "crypto", "storage", "core"]),
    ("costs", &["machine", "protocols", "services", "trusted", "crypto", "io", "storage", "core"]),
    ("protocols", &["core"]),
    ("services", &["core"]),
    ("store", &["core"]),
    ("trusted", &["mailbox", "crypto", "core"]),
    ("mailbox", &[]),
    ("io", &["core"]),
    ("storage", &["core"]),
    ("crypto", &["core"]),
    ("models", &[]),
    ("core", &[]),
];

/// Crates whose foreign dependencies each need a line of reason in `ARCHITECTURE.md`.
const INNER: [&str; 12] = [
    "core",
    "protocols",
    "services",
    "crypto",
    "trusted",
    "mailbox",
    "sim",
    "io",
    "storage",
    "machine",
    "replica",
    "client",
];

/// Crates without clock, thread, socket, file or randomness.
const PURE: [&str; 3] = ["core", "protocols", "services"];

/// The files that may switch the compiler's check for unsafe code off, for single functions.
const UNSAFE: [&str; 1] = ["crates/mailbox/src/memory.rs"];

/// Dependencies between our crates, and reasons for those on others.
pub fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let reasons = tree.text("ARCHITECTURE.md").unwrap_or_default();
    for (path, text) in tree.with_ending("toml") {
        let Some(name) = crate_of(path) else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            findings.push(Finding::new(path, 0, "a crate that ARCHITECTURE.md does not know"));
            continue;
        };
        let manifest: Table = match text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.push(Finding::new(path, 0, format!("{error}")));
                continue;
            }
        };
        for dependency in dependencies(&manifest) {
            if let Some(to) = dependency.strip_prefix("pentarchy-") {
                if !allowed.contains(&to) {
                    findings.push(Finding::new(path, 0, format!("{name} may not use {to}")));
                }
            } else if INNER.contains(&name) && !reasons.contains(&format!("`{dependency}`")) {
                let what = format!("no reason for `{dependency}` in ARCHITECTURE.md");
                findings.push(Finding::new(path, 0, what));
            }
        }
    }
    findings
}

/// `#![no_std]` and no unsafe code where purity is promised.
pub fn purity(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in PURE {
        let path = format!("crates/{name}/src/lib.rs");
        let text = tree.text(&path).unwrap_or_default();
        for line in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !text.lines().any(|found| found == line) {
                findings.push(Finding::new(&path, 0, format!("lacks {line}")));
            }
        }
    }
    findings
}

/// Unsafe code where it is known to be, and nowhere else.
pub fn safety(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        for (number, line) in (1..).zip(text.lines()) {
            let switch =
                ["allow", "expect"].iter().any(|it| line.contains(&format!("{it}(unsafe_")));
            if switch && path.starts_with("crates/") && !UNSAFE.contains(&path) {
                findings.push(Finding::new(path, number, "unsafe code; see UNSAFE in xtask"));
            }
        }
    }
    findings
}

/// `name` of `crates/name/Cargo.toml`.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// What the manifest's crate is built with, tests apart. Renamed packages go by their real name.
fn dependencies(manifest: &Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let platforms = platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut names = Vec::new();
    for table in platforms.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            for (name, entry) in entries {
                let package = entry.get("package").and_then(Value::as_str);
                names.push(package.unwrap_or(name).into());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn arrows_that_point_up_are_found() {
        let manifest = "[dependencies]\npentarchy-core.workspace = true\n\
                        pentarchy-io = { path = \"../io\" }\n\
                        [dev-dependencies]\npentarchy-sim = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\n\
                        hidden = { package = \"pentarchy-crypto\", path = \"..\" }\n";
        let tree = Tree::of(&[("crates/protocols/Cargo.toml", manifest)]);
        let expected = ["crypto", "io"]
            .map(|to| format!("crates/protocols/Cargo.toml: protocols may not use {to}"));
        assert_eq!(shown(&arrows(&tree)), expected);
    }

    #[test]
    fn a_new_crate_and_a_dependency_without_a_reason_are_found() {
        let tree = Tree::of(&[
            ("crates/extra/Cargo.toml", ""),
            ("crates/io/Cargo.toml", "[dependencies]\nmio = \"1\"\nleft-pad = \"1\"\n"),
            ("crates/gateways/Cargo.toml", "[dependencies]\ntokio = \"1\"\n"),
            ("ARCHITECTURE.md", "| `mio` | waits for sockets |\n"),
        ]);
        let expected = [
            "crates/extra/Cargo.toml: a crate that ARCHITECTURE.md does not know",
            "crates/io/Cargo.toml: no reason for `left-pad` in ARCHITECTURE.md",
        ];
        assert_eq!(shown(&arrows(&tree)), expected);
    }

    #[test]
    fn a_pure_crate_that_is_not_declared_pure_is_found() {
        let pure = "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]\n";
        let tree = Tree::of(&[
            ("crates/core/src/lib.rs", pure),
            ("crates/protocols/src/lib.rs", "#![forbid(unsafe_code)]\n// #![no_std]\n"),
            ("crates/services/src/lib.rs", pure),
        ]);
        assert_eq!(shown(&purity(&tree)), ["crates/protocols/src/lib.rs: lacks #![no_std]"]);
    }

    #[test]
    fn unsafe_code_elsewhere_is_found() {
        let switch = "//! Doc.\n#[expect(unsafe_code, reason = \"fast\")]\n";
        let tree = Tree::of(&[(UNSAFE[0], switch), ("crates/core/src/wire.rs", switch)]);
        let expected = ["crates/core/src/wire.rs:2: unsafe code; see UNSAFE in xtask"];
        assert_eq!(shown(&safety(&tree)), expected);
    }
}
