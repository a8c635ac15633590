//! The file beside `cluster.toml` in which operators and gateways keep what has become of the group
//! since: the proofs with which its configurations ended. Replicas tell clients the same, as long
//! as one of the addresses in `cluster.toml` is a member's; with the file nobody depends on that.
//!
//! It has a link in each line, in hexadecimal digits, from the first one on. Whoever wrote it need
//! not be trusted where members signed the links. What administrators signed for a group that was
//! lost is believed only from such a file: former administrators can sign such a link, too, for the
//! configuration in which they were, so nobody else may put a file there. And in groups of earlier
//! versions, members of the first configuration signed by their identity keys, which they still
//! have, so whoever has the disks of `f + 1` of them can make up another group.

use crate::config::ClusterConfig;
use crate::error::ConfigError;
use crate::files;
use pentarchy_core::epochs::Proof;
use pentarchy_core::limits::{CONFIGURATIONS_MAX, LINK_BYTES_MAX};
use pentarchy_core::wire::Wire as _;
use std::path::{Path, PathBuf};

/// The first line.
const HEAD: &str = "# How this group's configurations ended; see pentarchy config --help\n";

/// No larger file is read: the longest chain of the largest group, in lines of hexadecimal digits.
const CHAIN_FILE_BYTES_MAX: u64 = CONFIGURATIONS_MAX * (2 * LINK_BYTES_MAX as u64 + 1) + (1 << 10);

/// What to do about a file of no use.
const REMEDY: &str = "remove the file, and write it anew: pentarchy config export";

/// Where that file is, if the configuration is in this one.
#[must_use]
pub fn beside(config: &Path) -> PathBuf {
    config.with_extension("chain")
}

impl ClusterConfig {
    /// Reads a file, and follows the proofs in the one [`beside`] it, if there is one. For
    /// clients and whoever else connects to the group; a replica has its own from its data folder.
    ///
    /// # Errors
    /// [`ConfigError`] with line and column where there are any.
    pub fn load_present(path: &Path) -> Result<Self, ConfigError> {
        Self::load(path)?.follow_file(&beside(path))
    }

    /// Follows the proofs in a file. If there is none, the group stays as it is.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, or the proofs lead nowhere.
    pub fn follow_file(self, path: &Path) -> Result<Self, ConfigError> {
        if let Ok(false) = path.try_exists() {
            return Ok(self);
        }
        self.follow(&read(path)?)
            .map_err(|error| ConfigError::whole(path, format!("{error} of this group: {REMEDY}")))
    }

    /// Writes how the group came from the configuration in its file to this one. Takes the place of
    /// an earlier such file.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file.
    pub fn write_chain(&self, path: &Path) -> Result<(), ConfigError> {
        write(path, self.later.as_ref().map_or(&[], |later| &later.links))
    }
}

/// The links in a file, which may prove nothing.
///
/// # Errors
/// [`ConfigError`] with the line where there is one.
pub fn read(path: &Path) -> Result<Vec<Proof>, ConfigError> {
    let text = files::read_bounded(path, CHAIN_FILE_BYTES_MAX)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let link = |(number, line): (usize, &str)| {
        let bytes = hex::decode(line).ok();
        let link = bytes.and_then(|bytes| Proof::from_bytes(&bytes.into()).ok());
        link.ok_or_else(|| ConfigError {
            path: path.to_path_buf(),
            place: Some((number, 1)),
            message: format!("no link, or one that another version wrote: {REMEDY}"),
        })
    };
    lines.map(link).collect()
}

/// Writes links into a file, in the place of an earlier one.
///
/// # Errors
/// [`ConfigError`] naming the file.
pub fn write(path: &Path, links: &[Proof]) -> Result<(), ConfigError> {
    let lines = links.iter().map(|link| hex::encode(link.to_bytes()) + "\n");
    let text: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    files::replace(path, 0o644, text.as_bytes())
}
