//! Each seeded bug stands in the list once and in the code once.

use super::{Finding, numbered};
use crate::tree::Tree;
use serde_json::Value;
use std::collections::BTreeMap;

const LIST: &str = "crates/core/src/mutant/list.rs";

/// How many there are of each kind, as documents show it.
const COUNTS: &str = "docs/results/mutants-by-finder.json";

/// How the list says that something else than random worlds is to find a mutant.
const FINDERS: [&str; 5] =
    [".scheduled()", ".specified()", ".explored()", ".modelled()", ".unclaimed()"];

/// Names of the mechanism's own example, which stands on its page.
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
    findings.extend(miscounted(tree, list));
    findings
}

/// The published numbers of mutants, if they are not those of the list.
fn miscounted(tree: &Tree, list: &str) -> Option<Finding> {
    let published = tree.text(COUNTS)?;
    let published: Vec<u64> = serde_json::from_str::<Value>(published)
        .ok()?
        .get("rows")?
        .as_array()?
        .iter()
        .filter_map(|row| row.get(1)?.as_u64())
        .collect();
    let counts = counts(list);
    let what = format!("the numbers of mutants are {counts:?}, as in {LIST}");
    (published != counts).then(|| Finding::new(COUNTS, 1, what))
}

/// How many mutants of the list each finder has, in the order of [`FINDERS`] behind those of random
/// worlds, and how many there are.
fn counts(list: &str) -> Vec<u64> {
    let body = list.split_once("pub const MUTANTS").map_or("", |(_, rest)| rest);
    let body = body.split_once("\n];").map_or(body, |(body, _)| body);
    let mut counts = vec![0; FINDERS.len() + 1];
    for entry in body.split("\n    mutant(").skip(1).filter(|it| !it.contains("\"example.")) {
        let place = FINDERS.iter().position(|finder| entry.contains(finder));
        counts[place.map_or(0, |place| place + 1)] += 1;
    }
    counts.push(counts.iter().sum());
    counts
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
    fn published_numbers_are_those_of_the_list() {
        let list = "pub const MUTANTS: &[Mutant] = &[\n    mutant(\"example.a\", \"none\"),\n    \
            mutant(\"m.b\", \"worlds\"),\n    mutant(\"m.c\", \"by hand\").scheduled(),\n    \
            mutant(\n        \"m.d\",\n        \"nobody\",\n    )\n    .unclaimed(),\n    \
            mutant(\"m.e\", \"worlds\"),\n];\n";
        assert_eq!(counts(list), [2, 1, 0, 0, 0, 1, 4]);
        let rows = |by_hand: u64| {
            let row = format!("[\"worlds\", 2], [\"by hand\", {by_hand}], [\"\", 0]");
            format!("{{\"rows\": [{row}, [\"\", 0], [\"\", 0], [\"nobody\", 1], [\"all\", 4]]}}")
        };
        let findings = |rows: &str| miscounted(&Tree::of(&[(COUNTS, rows)]), list);
        assert!(findings(&rows(1)).is_none());
        assert!(findings(&rows(3)).is_some());
    }

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
            format!("crates/a/src/lib.rs:4: m.unknown is not in {LIST}"),
            format!("{LIST}:6: m.unused is used in 0 places; one mutant is one place"),
            format!("{LIST}:9: m.twice is used in 2 places; one mutant is one place"),
        ];
        assert_eq!(shown(&mutants(&tree)), expected);
    }
}
