//! Protocols stand alone, and each has a page.

use super::{Finding, numbered};
use crate::tree::Tree;
use std::collections::BTreeSet;

const PROTOCOLS: &str = "crates/protocols/src/";
const COMMON: &str = "common";

/// No protocol mentions another, what is common mentions none, and every one has its page.
pub fn protocols(tree: &Tree) -> Vec<Finding> {
    let inside = |path: &str| path.strip_prefix(PROTOCOLS).map(str::to_owned);
    let directory = |path: String| path.split_once('/').map(|(name, _)| name.to_owned());
    let names: BTreeSet<String> =
        tree.texts.keys().filter_map(|path| directory(inside(path)?)).collect();
    let mut findings = Vec::new();
    for name in names.iter().filter(|name| *name != COMMON) {
        let page = format!("docs/protocols/{name}.md");
        if !tree.paths.contains(&page) {
            let what = format!("protocol {name} has no page {page}");
            findings.push(Finding::new(&format!("{PROTOCOLS}{name}"), 0, what));
        }
    }
    for (path, text) in tree.with_ending("rs") {
        let Some(own) = inside(path).and_then(directory) else { continue };
        let others = || names.iter().filter(|name| **name != own && *name != COMMON);
        for (number, line) in numbered(text) {
            let code = line.split("//").next().unwrap_or_default();
            for other in others().filter(|other| mentions(code, other)) {
                findings.push(Finding::new(path, number, format!("{own} may not use {other}")));
            }
        }
    }
    findings
}

/// Whether the module is part of a path in this line.
fn mentions(code: &str, module: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(module).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + module.len()..]);
        !before.ends_with(part_of_word)
            && !after.starts_with(part_of_word)
            && (after.starts_with("::") || before.ends_with("::"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn a_protocol_that_uses_another_or_has_no_page_is_found() {
        let tree = Tree::of(&[
            ("crates/protocols/src/lib.rs", "pub mod chain;\npub use crate::chain::Chain;\n"),
            ("crates/protocols/src/chain/mod.rs", "use crate::common::votes;\nuse crate::{\n"),
            ("crates/protocols/src/chain/a.rs", "    ring::Replica,\n// crate::ring\n"),
            ("crates/protocols/src/common/mod.rs", "use crate::chain;\nlet chain = 1;\n"),
            ("crates/protocols/src/ring/mod.rs", "use my_chain::x;\n"),
            ("docs/protocols/chain.md", ""),
        ]);
        let expected = [
            "crates/protocols/src/ring: protocol ring has no page docs/protocols/ring.md",
            "crates/protocols/src/chain/a.rs:1: chain may not use ring",
            "crates/protocols/src/common/mod.rs:1: common may not use chain",
        ];
        assert_eq!(shown(&protocols(&tree)), expected);
    }
}
