//! Why the log or the snapshots cannot be used, and what to do.

use crate::disk::DiskError;
use pentarchy_core::digest::Digest;
use pentarchy_core::membership::PillarConfig;
use std::fmt;
use std::sync::Arc;

/// What is wrong with storage. Each ends the replica but [`Full`](Self::Full) and
/// [`TooLarge`](Self::TooLarge).
#[derive(Clone, Debug)]
pub enum StorageError {
    /// An operation failed. Nothing that was not acknowledged before may be acknowledged now.
    Disk(Arc<DiskError>),
    /// What was durable is damaged: not the end of an interrupted write, which is expected.
    Corrupt {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// A file that must be there is not.
    Missing {
        /// What.
        what: String,
    },
    /// A file that must not be there is.
    Unexpected {
        /// The file.
        file: String,
    },
    /// The file is of another group, replica or life.
    Foreign {
        /// The file.
        file: String,
        /// Whose it is.
        what: String,
    },
    /// What is kept is of a group that splits its order otherwise than the one that is configured.
    Split {
        /// How that group does.
        found: PillarConfig,
        /// How it is configured.
        asked: PillarConfig,
    },
    /// What is kept is of a group that was begun with another configuration
    /// ([`Configuration`](pentarchy_core::configuration::Configuration)).
    OtherConfiguration {
        /// The digest of that group's.
        found: Digest,
        /// The digest of the one that is configured.
        asked: Digest,
    },
    /// The file has a format that this program does not know.
    Version {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// The one that this program writes.
        known: u32,
    },
    /// Sections that are in files only cannot be read there, and cannot be made again from what is
    /// in memory.
    Absent {
        /// Which, of the whole state's, in order; if they are many, the first that were found.
        sections: Vec<u32>,
    },
    /// There are as many segments as there may be; a checkpoint has to make room. The replica says
    /// nothing meanwhile, and ends when too much waits.
    Full {
        /// The bound, in bytes.
        bytes_max: u64,
    },
    /// A record is larger than a segment.
    TooLarge {
        /// Its size in bytes.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// An earlier operation failed, so this one was not tried.
    Failed {
        /// What failed.
        cause: Arc<DiskError>,
    },
}

impl From<DiskError> for StorageError {
    fn from(error: DiskError) -> Self {
        Self::Disk(Arc::new(error))
    }
}

const ANEW: &str = "Keep the folder for inspection, and start this replica with an empty one: it \
    comes back as a new incarnation and fetches the group's state";

impl StorageError {
    /// What is wrong, without what to do: for what is being mended already.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            Self::Corrupt { file, offset, what } => {
                format!("{file} is damaged at byte {offset}: {what}")
            }
            Self::Absent { sections } => {
                let first: Vec<String> = sections.iter().take(5).map(u32::to_string).collect();
                let more = sections.len() - first.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("section {}{more} of the state cannot be read", first.join(", "))
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => write!(f, "{error}"),
            Self::Corrupt { .. } => write!(f, "{}. {ANEW}", self.found()),
            Self::Missing { what } => write!(f, "{what} is missing. {ANEW}"),
            Self::Unexpected { file } => {
                write!(f, "{file} is there already. Choose an empty folder")
            }
            Self::Foreign { file, what } => {
                write!(f, "{file} is not this replica's: {what}. Check which folder is configured")
            }
            Self::Split { found, asked } => write!(
                f,
                "the log is that of a group with {found}, and the configuration says {asked}. \
                 Configure what the whole group was begun with (pillars, rotate_leader)"
            ),
            Self::OtherConfiguration { found, asked } => write!(
                f,
                "the log was written under configuration {found}, and cluster.toml describes \
                 {asked}: they differ in members, keys, f, protocol, pillars, request_auth, \
                 session_key or sizes. Take the cluster.toml with which the group began; if it is \
                 that one, start the version of this program that wrote the log"
            ),
            Self::Version { file, found, known } => write!(
                f,
                "{file} has format {found}, and this program knows format {known}. Start the \
                 program that wrote it"
            ),
            Self::Absent { .. } => write!(
                f,
                "{} any more, and memory holds a newer version. Start this replica again: it \
                 resumes from an intact state, and fetches what it lacks. If it finds none, keep \
                 the folder for inspection, and start it with an empty one",
                self.found()
            ),
            Self::Full { bytes_max } => {
                write!(
                    f,
                    "the log has reached its bound of {} MiB, and no checkpoint became stable. See \
                     that enough other replicas run, and start this one again; if that does not \
                     help, with a higher bound (log_mib). It goes on where it was",
                    bytes_max >> 20
                )
            }
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "a record of {bytes} bytes is larger than {bytes_max}")
            }
            Self::Failed { cause } => write!(f, "not tried, because earlier: {cause}"),
        }
    }
}

impl std::error::Error for StorageError {}
