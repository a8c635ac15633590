//! The operator's page of limits names every limit.

use super::{Finding, numbered};
use crate::tree::Tree;

const SOURCE: &str = "crates/core/src/limits.rs";
const PAGE: &str = "docs/limits.md";

/// Every `pub const` of the source is on the page, and every limit on the page is in the source.
pub fn limits(tree: &Tree) -> Vec<Finding> {
    let source = tree.text(SOURCE).unwrap_or_default();
    let page = tree.text(PAGE).unwrap_or_default();
    let mut findings = Vec::new();
    let mut names = Vec::new();
    for (number, line) in numbered(source) {
        let Some((name, _)) = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(':'))
        else {
            continue;
        };
        names.push(name);
        if !page.contains(&format!("`{name}`")) {
            findings.push(Finding::new(SOURCE, number, format!("{name} is not in {PAGE}")));
        }
    }
    for (number, line) in numbered(page) {
        let first = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
        if let Some((name, _)) = first.filter(|(name, _)| !names.contains(name)) {
            findings.push(Finding::new(PAGE, number, format!("{name} is not in {SOURCE}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn limits_on_one_side_only_are_found() {
        let source = "pub const A_MAX: usize = 1;\npub const B_MAX: usize = 2;\n";
        let page = "| limit | value |\n| `A_MAX` | 1 |\n| `C_MAX` | 3 |\n";
        let tree = Tree::of(&[(SOURCE, source), (PAGE, page)]);
        let expected = [
            "crates/core/src/limits.rs:2: B_MAX is not in docs/limits.md",
            "docs/limits.md:3: C_MAX is not in crates/core/src/limits.rs",
        ];
        assert_eq!(shown(&limits(&tree)), expected);
    }
}
