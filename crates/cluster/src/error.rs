//! What is wrong with a configuration or key file, and where.

use pentarchy_crypto::secret_file::SecretFileError;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An operator's mistake in a file: one line that says where, what and, in its words, what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// Line and column, both from 1; absent if the whole file is meant.
    pub place: Option<(usize, usize)>,
    /// What is wrong. One line, no trailing full stop.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// About a file as a whole.
    pub(crate) fn whole(path: &Path, message: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), place: None, message: message.into() }
    }

    /// About a range of bytes in a file's text.
    pub(crate) fn at(path: &Path, text: &str, span: Range<usize>, message: String) -> Self {
        let message = message.lines().collect::<Vec<_>>().join("; ");
        Self { path: path.to_path_buf(), place: Some(place(text, span.start)), message }
    }
}

impl From<SecretFileError> for ConfigError {
    fn from(error: SecretFileError) -> Self {
        let message = error.to_string();
        let path = error.path;
        // The message names the file itself; say it once.
        let message = message.strip_prefix(&format!("{}", path.display())).map_or_else(
            || message.clone(),
            |rest| rest.trim_start_matches(':').trim_start().to_owned(),
        );
        Self { path, place: None, message }
    }
}

/// Line and column (in characters) of a byte offset, both from 1.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("ab\ncd", 1), (1, 2));
        assert_eq!(place("ab\ncd", 3), (2, 1));
        assert_eq!(place("é=1", 2), (1, 2));
        assert_eq!(place("é=1", 1), (1, 1), "inside a character");
        assert_eq!(place("a", 99), (1, 2), "behind the end");
    }
}
