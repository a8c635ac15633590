//! How many lines the project has: code, comments and tests, crate by crate.

use crate::Failure;
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;

/// Lines of one crate by kind. Blank lines count nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Lines {
    /// What ships: neither comments nor tests.
    code: usize,
    /// Comments outside of tests.
    comments: usize,
    /// Everything in tests, their comments too.
    tests: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.tests += other.tests;
    }
}

/// Prints the lines of each crate, and their sum.
pub fn lines(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let crates = by_crate(&tree);
    println!("{:>8} {:>8} {:>8}  crate", "code", "comments", "tests");
    let mut sum = Lines::default();
    for (name, lines) in &crates {
        print(name, *lines);
        sum += *lines;
    }
    print("all", sum);
    Ok(())
}

fn print(name: &str, lines: Lines) {
    println!("{:8} {:8} {:8}  {name}", lines.code, lines.comments, lines.tests);
}

/// The lines of each crate that has Rust files.
fn by_crate(tree: &Tree) -> BTreeMap<&str, Lines> {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for (path, text) in tree.with_ending("rs") {
        let below = path.strip_prefix("crates/").unwrap_or(path);
        let name = below.split('/').next().unwrap_or(below);
        *crates.entry(name).or_default() += count(path, text);
    }
    crates
}

/// Whether all of a file is tests: a folder `tests`, or a module that is one by its name.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
}

/// Counts one file. Tests that stand in a file of code are its end, from the attribute on.
fn count(path: &str, text: &str) -> Lines {
    let mut lines = Lines::default();
    let mut in_tests = is_test_file(path);
    let mut rows = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = rows.next() {
        // A module that stands elsewhere is one line here: `mod tests;`.
        let begins = line == "#[cfg(test)]"
            && rows.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        in_tests |= begins;
        let kind = match line {
            _ if in_tests => &mut lines.tests,
            _ if line.starts_with("//") => &mut lines.comments,
            _ => &mut lines.code,
        };
        *kind += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "//! Doc.\n\nfn a() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n    // Why.\n}\n";

    #[test]
    fn each_line_counts_once() {
        assert_eq!(count("crates/a/src/b.rs", FILE), Lines { code: 2, comments: 2, tests: 4 });
        let elsewhere = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(count("crates/a/src/b.rs", elsewhere).code, 3);
    }

    #[test]
    fn files_of_tests_are_tests_and_crates_have_their_own_sums() {
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", FILE),
            ("crates/a/src/tests.rs", "fn a() {}\n"),
            ("crates/b/tests/it/main.rs", FILE),
            ("xtask/src/main.rs", "fn main() {}\n"),
        ]);
        let crates = by_crate(&tree);
        assert_eq!(crates["a"], Lines { code: 2, comments: 2, tests: 5 });
        assert_eq!(crates["b"], Lines { code: 0, comments: 0, tests: 8 });
        assert_eq!(crates["xtask"].code, 1);
    }
}
