//! Wraps comments that are too long, which rustfmt leaves alone.

use crate::Failure;
use crate::tidy::COLUMNS_MAX;
use crate::tree::Tree;
use std::fs;
use std::path::Path;

/// Rewrites the files whose comments change by it.
pub fn wrap(root: &Path) -> Result<(), Failure> {
    for (path, text) in Tree::read(root)?.with_ending("rs") {
        let wrapped = wrapped(text);
        if wrapped != text {
            fs::write(root.join(path), wrapped).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    Ok(())
}

/// The text with what is too long in a comment moved on to its next line.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (mut at, mut code) = (0, false);
    while at < lines.len() {
        if let Some(comment) = Comment::of(&lines[at]) {
            code ^= comment.body.starts_with("```");
            if let Some((head, tail)) = comment.divided().filter(|_| !code) {
                let next = lines.get(at + 1).and_then(|line| Comment::of(line));
                let next = next.filter(|next| next.continues(&comment));
                let joined = match &next {
                    Some(next) => format!("{}{tail} {}", next.start, next.body),
                    None => format!("{}{}{tail}", comment.start, comment.hanging()),
                };
                let replaced = at + 1..at + 1 + usize::from(next.is_some());
                lines.splice(replaced, [joined]);
                lines[at] = head;
            }
        } else {
            code = false;
        }
        at += 1;
    }
    lines.join("\n") + "\n"
}

/// A line that is a comment: indent, slashes and spaces; then words.
struct Comment {
    start: String,
    body: String,
}

impl Comment {
    fn of(line: &str) -> Option<Self> {
        let marker = ["/// ", "//! ", "// "].into_iter();
        let marker = marker.into_iter().find(|marker| line.trim_start().starts_with(marker))?;
        let after = line.len() - line.trim_start().len() + marker.len();
        let body = line[after..].trim_start();
        let start = line[..line.len() - body.len()].into();
        Some(Self { start, body: body.into() })
    }

    /// The line that fits, and the rest, if it does not fit and may be divided.
    fn divided(&self) -> Option<(String, String)> {
        let room = COLUMNS_MAX.checked_sub(self.start.chars().count())?;
        let (end, _) = self.body.char_indices().nth(room)?;
        let space = self.body[..=end].rfind(' ').filter(|_| !self.is_fixed())?;
        let (head, tail) = self.body.split_at(space);
        Some((format!("{}{head}", self.start), tail.trim_start().into()))
    }

    /// Tables, headings and the edges of code keep their lines.
    fn is_fixed(&self) -> bool {
        ["|", "#", "```"].iter().any(|mark| self.body.starts_with(mark))
    }

    fn is_item(&self) -> bool {
        let number = self.body.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        number || self.body.starts_with("- ") || self.body.starts_with("* ")
    }

    /// Spaces that bring a line below an item under the item's words.
    fn hanging(&self) -> &'static str {
        match self.is_item() {
            false => "",
            true if self.body.starts_with(['-', '*']) => "  ",
            true => "   ",
        }
    }

    /// Whether this is the next line of the same paragraph.
    fn continues(&self, above: &Self) -> bool {
        let start = format!("{}{}", above.start, above.hanging());
        self.start == start && !self.body.is_empty() && !self.is_fixed() && !self.is_item()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_moves_on() {
        let long = "word ".repeat(18);
        let text = format!("    /// {long}it goes on\n    /// and more.\n    fn a() {{}}\n");
        let expected = format!("    /// {long}it\n    /// goes on and more.\n    fn a() {{}}\n");
        assert_eq!(wrapped(&text), expected);
        assert_eq!(wrapped(&expected), expected);
        let alone = format!("    /// {long}it goes on\n");
        assert_eq!(wrapped(&alone), format!("    /// {long}it\n    /// goes on\n"));
    }

    #[test]
    fn items_stay_items_and_tables_and_code_stay_whole() {
        let long = "word ".repeat(19);
        let item = format!("//! - {long}end\n//! - next\n");
        let expected = format!("//! - {}\n//!   end\n//! - next\n", long.trim());
        assert_eq!(wrapped(&item), expected);
        for fixed in ["//! | {}|\n", "//! # {}\n", "//! ```\n//! {}\n//! ```\n", "a(\"{}\");\n"] {
            let text = fixed.replace("{}", &"word ".repeat(24));
            assert_eq!(wrapped(&text), text);
        }
    }
}
