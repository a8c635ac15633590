//! How long lines, files and functions may be.

use super::{Finding, numbered};
use crate::tree::Tree;
use std::collections::BTreeSet;

/// Columns of a line of Rust.
pub const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Functions that are longer for now: lines of `path name`. The list may only shrink.
const ALLOWED: &str = "xtask/allow_long_functions.txt";

/// Lines and files.
pub fn lines(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        for (number, line) in numbered(text) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let what = format!("{columns} columns; at most {COLUMNS_MAX}");
                findings.push(Finding::new(path, number, what));
            }
        }
        let count = text.lines().count();
        if count > FILE_LINES_MAX {
            let what = format!("{count} lines; at most {FILE_LINES_MAX}: divide it");
            findings.push(Finding::new(path, 0, what));
        }
    }
    findings
}

/// Functions, except those on the list; and names on the list that need no place there any more.
pub fn functions(tree: &Tree) -> Vec<Finding> {
    let list = tree.text(ALLOWED).unwrap_or_default();
    let entries = numbered(list).map(|(number, line)| (number, line.trim()));
    let allowed: Vec<(usize, &str)> =
        entries.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    let mut long = BTreeSet::new();
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        for function in functions_in(text) {
            if function.lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let entry = format!("{path} {}", function.name);
            if !allowed.iter().any(|(_, line)| *line == entry) {
                let Function { name, lines, .. } = &function;
                let what = format!("fn {name} has {lines} lines; at most {FUNCTION_LINES_MAX}");
                findings.push(Finding::new(path, function.line, what));
            }
            long.insert(entry);
        }
    }
    for (number, entry) in allowed {
        if !long.contains(entry) {
            findings.push(Finding::new(ALLOWED, number, format!("no longer long: {entry}")));
        }
    }
    findings
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Functions with a body, from the line of their name to the closing brace. Relies on the layout
/// that the format check insists on: the brace stands under the first word of the signature.
fn functions_in(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closes = |line: &&str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || rest.ends_with(';') && !rest.starts_with(' '))
        };
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = if one_line { Some(0) } else { lines[at + 1..].iter().position(closes) };
        if let Some(length) = length {
            functions.push(Function { name, line: at + 1, lines: length + 2 });
        }
    }
    functions
}

/// The name that a line declares as a function.
fn function_name(line: &str) -> Option<String> {
    const BEFORE: [&str; 7] = ["pub", "const", "async", "unsafe", "extern", "default", "\"C\""];
    let (before, after) = line.trim_start().split_once("fn ").or(None)?;
    let plain = |word: &str| BEFORE.contains(&word) || word.starts_with("pub(");
    if !before.split_whitespace().all(plain) {
        return None;
    }
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| after[..end].into())
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!(
            "    pub const fn {name}(\n    ) {{\n{}    }}\n",
            "        a();\n".repeat(lines - 3)
        )
    }

    #[test]
    fn long_lines_and_files_are_found() {
        let good = format!("// {}\n", "ü".repeat(97)).repeat(FILE_LINES_MAX);
        let bad = format!("// {}\n", "x".repeat(98));
        let many = "\n".repeat(FILE_LINES_MAX + 1);
        let tree = Tree::of(&[("a.rs", &good), ("b.rs", &bad), ("c.rs", &many)]);
        let found = ["b.rs:1: 101 columns; at most 100", "c.rs: 801 lines; at most 800: divide it"];
        assert_eq!(shown(&lines(&tree)), found);
    }

    #[test]
    fn long_functions_are_found_by_name() {
        let text =
            function("short", FUNCTION_LINES_MAX) + &function("long", FUNCTION_LINES_MAX + 1);
        let tree = Tree::of(&[("a.rs", &text)]);
        assert_eq!(shown(&functions(&tree)), ["a.rs:71: fn long has 71 lines; at most 70"]);
    }

    #[test]
    fn the_list_excuses_and_may_only_shrink() {
        let text = function("long", FUNCTION_LINES_MAX + 1);
        let list = "# comment\na.rs long\na.rs gone\n";
        let tree = Tree::of(&[("a.rs", &text), (ALLOWED, list)]);
        let stale = format!("{ALLOWED}:3: no longer long: a.rs gone");
        assert_eq!(shown(&functions(&tree)), [stale]);
    }

    #[test]
    fn declarations_and_comments_are_no_functions() {
        let none =
            ["// the fn of it", "    call(fn_of);", "type A = fn (u8);", "    let f: fn () = g;"];
        assert!(none.iter().all(|line| function_name(line).is_none()));
        assert_eq!(function_name("    pub(crate) async fn go<T>(").as_deref(), Some("go"));
        assert_eq!(functions_in("fn a();\n\nfn b() {}\n\nfn c(\n);\n").len(), 3);
    }
}
