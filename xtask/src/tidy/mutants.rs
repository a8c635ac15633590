//! Each seeded bug stands in the list once and in the code once.

use super::{Finding, numbered};
use crate::tree::Tree;
use std::collections::BTreeMap;

const LIST: &str = "crates/core/src/mutant.rs";

/// Names of the mechanism's own example, which stands beside the list.
const EXAMPLE: &str = "example.";

/// Every mutant of the list is used in one place, and every use is in the list.
pub fn mutants(tree: &Tree) -> Vec<Finding> {
    let list = tree.text(LIST).unwrap_or_default();
    let listed = listed(list);
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs").filter(|(path, _)| path.starts_with("crates/")) {
        for (number, line) in numbered(text).filter(|_| path != LIST) {
            for name in quoted_after(line, concat!("mutant", "!(")) {
                *uses.entry(name).or_default() += 1;
                if !listed.iter().any(|(_, known)| *known == name) {
                    findings.push(Finding::new(path, number, format!("{name} is not in {LIST}")));
                }
            }
        }
    }
    for (number, name) in listed.iter().filter(|(_, name)| !name.starts_with(EXAMPLE)) {
        let count = uses.get(name).copied().unwrap_or_default();
        if count != 1 {
            let what = format!("{name} is used in {count} places; one mutant is one place");
            findings.push(Finding::new(LIST, *number, what));
        }
    }
    findings
}

/// The names in the list with their lines. An entry may be broken after its parenthesis.
fn listed(text: &str) -> Vec<(usize, &str)> {
    let inside = |(_, line): &(usize, &str)| !line.starts_with("];");
    let from = numbered(text).skip_while(|(_, line)| !line.starts_with("pub const MUTANTS"));
    let lines: Vec<_> = from.take_while(inside).collect();
    let mut names = Vec::new();
    for (at, (number, line)) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", |(_, next)| next.trim());
        match line.trim().strip_prefix("mutant(") {
            Some("") => names.extend(quoted(next).map(|name| (number + 1, name))),
            Some(rest) => names.extend(quoted(rest).map(|name| (*number, name))),
            None => {}
        }
    }
    names
}

/// The text in quotation marks with which this begins.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split_once('"').map(|(name, _)| name)
}

fn quoted_after<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.split(word).skip(1).filter_map(quoted)
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn a_mutant_is_listed_once_and_used_once() {
        let list = "//! if mutant!(\"example.a\")\npub const MUTANTS: &[Mutant] = &[\n    \
            mutant(\"example.a\", \"no use needed\"),\n    mutant(\"m.used\", \"fine\"),\n    \
            mutant(\n        \"m.unused\",\n        \"long\",\n    ),\n    \
            mutant(\"m.twice\", \"bad\"),\n];\n";
        let mutant = |name: &str| format!("if {}\"{name}\") {{\n", concat!("mutant", "!("));
        let code = ["m.used", "m.twice", "m.twice", "m.unknown"].map(mutant).concat();
        let tree = Tree::of(&[(LIST, list), ("crates/a/src/lib.rs", &code)]);
        let expected = [
            "crates/a/src/lib.rs:4: m.unknown is not in crates/core/src/mutant.rs",
            "crates/core/src/mutant.rs:6: m.unused is used in 0 places; one mutant is one place",
            "crates/core/src/mutant.rs:9: m.twice is used in 2 places; one mutant is one place",
        ];
        assert_eq!(shown(&mutants(&tree)), expected);
    }
}
