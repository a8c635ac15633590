//! Options of `snapshot` and `log`.

use super::super::service::ReplicatedChoice;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `snapshot`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    pentarchy snapshot save --data replica-0/data --out monday.backup\n  \
    pentarchy snapshot verify monday.backup\n\n\
    `save` makes the group take a checkpoint, and reads it from the replica's disk. `restore` \
    begins a new group with a state;\na replica of a running group needs no \
    backup: it starts with an empty folder and fetches the state.")]
pub struct SnapshotArgs {
    /// What to do
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// `snapshot save`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy snapshot save --data replica-0/data \
    --out monday.backup\n  pentarchy snapshot save --data replica-0/data --out monday.backup \
    --key client.key\n\n\
    While the replica runs, the group orders a request and takes the next checkpoint. So the\n\
    backup has everything that was acknowledged before the command began, and f + 1 replicas \
    vouch\nfor it. The backup of a stopped replica has what its folder proves to be decided; \
    other replicas\nmay have more. Exit code 1 if there is no such state.")]
pub struct SaveArgs {
    /// The replica's data folder; the replica may run
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// File to make; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The group's public configuration; by default `cluster.toml` two folders above the data
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A client key; needed where only listed clients are admitted. Never one that a gateway or
    /// another process uses: this command would take that process's place for good
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The replicated service; needed if the replica has stopped
    #[arg(long, value_enum, default_value = "kv", value_name = "WHAT")]
    pub service: ReplicatedChoice,
    /// Only the last checkpoint in the folder, whatever was acknowledged since
    #[arg(long)]
    pub last_checkpoint: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `snapshot` does.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write a replica's state into one file, with all that was acknowledged before
    Save(SaveArgs),
    /// Check every byte of a backup, or of all states in a data folder
    #[command(after_help = "Example:\n  pentarchy snapshot verify monday.backup\n\n\
        Compare the state's digest with what `pentarchy status --json` says, to see that the group \
        vouches for it.\nExit code 1 if something is damaged.")]
    Verify {
        /// A backup, or a replica's data folder
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prepare a replica to begin with the state of a backup, in a new group or a rescued one
    #[command(after_help = "Example:\n  pentarchy init --hosts a:7000,b:7000,c:7000 --out new\n  \
        pentarchy snapshot restore monday.backup --config new/cluster.toml --id 0 \
        --keys new/replica-0\n\n\
        Do this for every replica of the new group, with the same backup, before the first one \
        starts.\nNo replica resumes under an old identity: keys, devices and group are new, only \
        the state is old.\nA group that `pentarchy members rescue` has go on stays the same one, \
        with other members.")]
    Restore {
        /// The backup
        backup: PathBuf,
        /// The new group's public configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Which replica this is, from 0; its keys tell, if left out
        #[arg(long, value_name = "N")]
        id: Option<u16>,
        /// Folder with this replica's secrets
        #[arg(long, value_name = "DIR")]
        keys: PathBuf,
        /// Folder for what outlives the process; `data` in the folder with the secrets if left out
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which sections of two states differ
    #[command(after_help = "Example:\n  pentarchy snapshot diff monday.backup replica-1/data\n\n\
        Exit code 0 if they are equal, 1 if they differ.")]
    Diff {
        /// A backup, or a data folder, whose newest state counts
        left: PathBuf,
        /// Another backup or data folder
        right: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `log`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy log verify --data replica-0/data\n  \
    pentarchy log dump --data replica-0/data --last 20\n\nThe replica must not run meanwhile.")]
pub struct LogArgs {
    /// What to do
    #[command(subcommand)]
    pub command: LogCommand,
}

/// What `log` does.
#[derive(Subcommand)]
pub enum LogCommand {
    /// Check every byte of a replica's log
    #[command(after_help = "Example:\n  pentarchy log verify --data replica-0/data\n\n\
        Exit code 1 if something is damaged.")]
    Verify {
        /// The replica's data folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the records of a replica's log
    #[command(after_help = "Example:\n  pentarchy log dump --data replica-0/data --last 20\n\n\
        Contents are named by their digests; nothing secret is printed.")]
    Dump {
        /// The replica's data folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// The first record to print
        #[arg(long, default_value_t = 0, value_name = "N")]
        from: u64,
        /// Print only so many, the last ones
        #[arg(long, value_name = "N")]
        last: Option<usize>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}
