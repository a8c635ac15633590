//! A protocol is known by its descriptor: few files outside its directory need its name.

use super::{Finding, numbered};
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Files that name a protocol for now, one a line. The list may only shrink.
const ALLOWED: &str = "xtask/allow_protocol_names.txt";
const PROTOCOLS: &str = "crates/protocols/src/";
/// What makes a directory or a file a protocol's.
const DESCRIPTOR: &str = "pub static DESCRIPTOR: Descriptor";

/// Rust files whose code names a protocol outside its directory, except those on the list; and
/// files on the list that name none any more.
pub fn naming(tree: &Tree) -> Vec<Finding> {
    let names = protocols(tree);
    let list = tree.text(ALLOWED).unwrap_or_default();
    let lines = numbered(list).map(|(number, line)| (number, line.trim()));
    let allowed: Vec<(usize, &str)> =
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    let naming: BTreeSet<&str> = tree
        .with_ending("rs")
        .filter(|(path, text)| names_one(path, text, &names))
        .map(|it| it.0)
        .collect();
    let is_new = |path: &&&str| !allowed.iter().any(|(_, line)| line == *path);
    let new = naming.iter().filter(is_new).map(|path| {
        Finding::new(path, 0, "names a protocol outside its directory: ask its descriptor")
    });
    let gone = allowed.iter().filter(|(_, path)| !naming.contains(path)).map(|(number, path)| {
        Finding::new(ALLOWED, *number, format!("names no protocol any more: {path}"))
    });
    new.chain(gone).collect()
}

/// The names of directories and files that have a descriptor.
fn protocols(tree: &Tree) -> BTreeSet<String> {
    let described = tree.with_ending("rs").filter(|(_, text)| text.contains(DESCRIPTOR));
    let name = |(path, _): (&str, &str)| {
        let inside = path.strip_prefix(PROTOCOLS)?;
        Some(inside.split(['/', '.']).next().unwrap_or(inside).to_owned())
    };
    described.filter_map(name).collect()
}

/// Whether the code names a protocol that is not at home there. Comments may.
fn names_one(path: &str, text: &str, names: &BTreeSet<String>) -> bool {
    let is_its_own = |name: &str| {
        let rest = path.strip_prefix(PROTOCOLS).and_then(|inside| inside.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['/', '.']))
    };
    let others: Vec<&String> = names.iter().filter(|name| !is_its_own(name)).collect();
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default().to_lowercase();
        others.iter().any(|name| contains(&code, name))
    })
}

/// Whether a word begins with this name.
fn contains(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| !code[..at].ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn a_file_that_names_a_protocol_and_one_that_no_longer_does_are_found() {
        let tree = Tree::of(&[
            (
                "crates/protocols/src/chain/descriptor.rs",
                "pub static DESCRIPTOR: Descriptor = Chain",
            ),
            ("crates/protocols/src/lone.rs", "pub static DESCRIPTOR: Descriptor = Lone"),
            ("crates/protocols/src/pillars/mod.rs", "// lone\nuse chain;"),
            ("crates/sim/src/a.rs", "find(\"chain\")"),
            ("crates/sim/src/b.rs", "use x::Lone; // chain"),
            ("crates/sim/src/d.rs", "my_x.alone() // chain"),
            ("crates/sim/src/c.rs", "pillars"),
            ("docs/protocols/chain.md", "chain"),
            (ALLOWED, "# Why.\ncrates/sim/src/b.rs\ncrates/sim/src/c.rs\n"),
        ]);
        let what = "names a protocol outside its directory: ask its descriptor";
        let expected = [
            format!("crates/protocols/src/pillars/mod.rs: {what}"),
            format!("crates/sim/src/a.rs: {what}"),
            format!("{ALLOWED}:3: names no protocol any more: crates/sim/src/c.rs"),
        ];
        assert_eq!(shown(&naming(&tree)), expected);
    }
}
