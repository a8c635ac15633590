//! Words that are promises to keep or that mean nothing to outsiders.

use super::{Finding, numbered};
use crate::tree::Tree;

/// In code: each a promise to keep or to delete. Written in halves, so that this file is clean.
const IN_CODE: [&str; 8] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("#[", "ignore"),
];

/// Anywhere: paths and tools of the place where a change was made.
const ANYWHERE: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/.lib", "rary"),
    concat!("before", "-stop"),
    concat!("farm", "-bench"),
    concat!("farm", "-studio"),
];

/// Finds both kinds. `Cargo.lock` is not read.
pub fn words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        let prose = path.ends_with(".md") || path.ends_with("LICENSE");
        for (number, line) in numbered(text) {
            let in_code = IN_CODE.iter().filter(|word| !prose && line.contains(**word));
            let anywhere = ANYWHERE.iter().filter(|word| line.contains(**word));
            for word in in_code.chain(anywhere) {
                findings.push(Finding::new(path, number, format!("not in this project: {word}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_where_it_counts() {
        for word in IN_CODE {
            let line = format!("fn a() {{}} // {word}\n");
            assert_eq!(words(&Tree::of(&[("a.rs", &line)])).len(), 1, "{word}");
            assert_eq!(words(&Tree::of(&[("a.md", &line)])).len(), 0, "{word}");
        }
        for word in ANYWHERE {
            let line = format!("see {word}\n");
            assert_eq!(words(&Tree::of(&[("a.md", &line)])).len(), 1, "{word}");
        }
    }
}
