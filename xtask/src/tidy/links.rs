//! Relative links in documents lead somewhere.

use super::{Finding, numbered};
use crate::tree::Tree;

/// Checks `](target)` in every `.md` file, outside of code blocks; a target's `#part` must be a
/// heading of it.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("md") {
        for (number, line) in outside_code(text) {
            for target in targets(line) {
                if let Some(what) = broken(tree, path, target) {
                    findings.push(Finding::new(path, number, what));
                }
            }
        }
    }
    findings
}

fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    numbered(text).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Why a target is wrong; `None` if it is right or is not ours to check.
fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, part) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(from.into()) } else { resolve(from, file) };
    let Some(path) = path.filter(|path| path.is_empty() || tree.paths.contains(path)) else {
        return Some(format!("link to nowhere: {target}"));
    };
    let text = tree.text(&path).filter(|_| !part.is_empty() && path.ends_with(".md"))?;
    let known = outside_code(text).any(|(_, line)| heading(line).as_deref() == Some(part));
    (!known).then(|| format!("no such heading: {target}"))
}

/// A path from the root; `None` if it leaves the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut names: Vec<&str> = from.split('/').collect();
    names.pop();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// The name under which a heading is linked to.
fn heading(line: &str) -> Option<String> {
    let title = line.starts_with('#').then(|| line.trim_start_matches('#'))?;
    let keep = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    title.strip_prefix(' ').map(|title| title.trim().chars().filter_map(keep).collect())
}

#[cfg(test)]
mod tests {
    use super::super::shown;
    use super::*;

    #[test]
    fn links_to_nowhere_are_found() {
        let page = "[a](../b.md) [b](c/d.md#the-one-trait) [c](https://x.y/z) [d](..)\n\
                    [e](gone.md)\n```\n[f](code.md)\n```\n[g](c/d.md#gone) [h](../../x)\n";
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("b.md", "[self](#there)\n# There\n"),
            ("docs/c/d.md", "# The one: `trait`\n"),
        ]);
        let expected = [
            "docs/a.md:2: link to nowhere: gone.md",
            "docs/a.md:6: no such heading: c/d.md#gone",
            "docs/a.md:6: link to nowhere: ../../x",
        ];
        assert_eq!(shown(&links(&tree)), expected);
    }
}
