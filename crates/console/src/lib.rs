//! What the commands of `pentarchy` share: options, results and exit codes, output, and clusters of
//! processes on this machine. It knows no command: each is in `pentarchy`, or in the crate `bench`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`failure`] | what a command can come to |
//! | [`options`] | options that several commands have |
//! | [`output`], [`table`], [`progress`] | what commands print; how far they are |
//! | [`stop`], [`descriptors`] | when to stop; how many files may be open |
//! | [`folder`], [`background`] | the folder of `up`; a cluster that another command starts |
//! | [`supervisor`] | child processes on a leash |
//! | [`status`] | how a cluster is |
//! | [`patient`] | a cluster that is broken and healed |
//! | [`worlds`] | a protocol as simulated worlds run it |

#![forbid(unsafe_code)]

mod approach;
pub mod background;
mod child_log;
pub mod descriptors;
pub mod failure;
pub mod folder;
pub mod options;
pub mod output;
pub mod patient;
pub mod progress;
pub mod status;
pub mod stop;
pub mod supervisor;
pub mod table;
pub mod worlds;

pub use output::{complain, say};
