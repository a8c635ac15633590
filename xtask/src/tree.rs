//! The project's files, read once, so that each rule is a function of text.

use crate::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Endings of the files that rules read; files without an ending count as scripts.
const TEXT: [&str; 7] = ["rs", "md", "toml", "sh", "txt", "yml", "json"];

/// All files by path from the root, with `/` between names.
#[derive(Default)]
pub struct Tree {
    /// Files and directories.
    pub paths: BTreeSet<String>,
    /// The text of those that rules read.
    pub texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads everything below `root` but build output, data and git's own.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self::default();
        tree.read_directory(root, "")?;
        Ok(tree)
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> Result<(), Failure> {
        let fail = |error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            // A directory, or a file that names one.
            if name == ".git" {
                continue;
            }
            let known = format!("{prefix}{name}");
            if path.is_dir() {
                let skip = prefix.is_empty() && name.starts_with("target");
                if !skip && name != "pentarchy-data" {
                    self.read_directory(&path, &format!("{known}/"))?;
                    self.paths.insert(known);
                }
                continue;
            }
            let ending = path.extension().and_then(|ending| ending.to_str());
            if ending.is_none_or(|ending| TEXT.contains(&ending))
                && let Ok(text) = fs::read_to_string(&path)
            {
                self.texts.insert(known.clone(), text);
            }
            self.paths.insert(known);
        }
        Ok(())
    }

    /// A tree of these files, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let mut parent = *path;
            while let Some((above, _)) = parent.rsplit_once('/') {
                tree.paths.insert(above.into());
                parent = above;
            }
            tree.paths.insert((*path).into());
            tree.texts.insert((*path).into(), (*text).into());
        }
        tree
    }

    /// Files with this ending, in order.
    pub fn with_ending<'a>(
        &'a self,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        let ends =
            move |path: &str| path.rsplit_once('.').is_some_and(|(_, found)| found == ending);
        let all = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| ends(path))
    }

    /// The text of a file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }
}
