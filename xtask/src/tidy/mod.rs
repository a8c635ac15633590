//! The rules that no other tool knows. Each is a function from the [`Tree`] to its findings, and
//! each has a test with a seeded violation.

mod arrows;
mod circles;
mod limits;
mod links;
mod mutants;
mod naming;
mod protocols;
mod results;
mod size;
mod words;

pub use size::COLUMNS_MAX;

use crate::Failure;
use crate::tree::Tree;
use std::fmt;
use std::path::Path;

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

const RULES: [fn(&Tree) -> Vec<Finding>; 13] = [
    size::lines,
    size::functions,
    words::words,
    links::links,
    arrows::arrows,
    arrows::purity,
    arrows::safety,
    circles::circles,
    protocols::protocols,
    naming::naming,
    limits::limits,
    mutants::mutants,
    results::results,
];

/// Applies all rules.
pub fn tidy(root: &Path) -> Result<(), Failure> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} findings; the rules and their reasons: STYLE.md")),
    }
}

/// Lines of a file with their numbers.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

#[cfg(test)]
fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
