//! A protocol that is added: a descriptor, and one line in [`every`](super::registry::every).

use pentarchy_core::protocol::{FaultModel, Rules};
use pentarchy_protocols::{DEFAULT, Descriptor, Status};

/// The replicas of a protocol that could bear more, in a group whose members at most crash. What
/// its rules say is all that others know of it.
pub static DESCRIPTOR: Descriptor = Descriptor {
    rules: Rules { name: "toy", fault_model: FaultModel::Crash, ..DEFAULT.rules },
    title: "Toy",
    status: Status::Comparator,
    about: "a toy",
    paper: "none",
    page: None,
    forger: None,
    is_settled: |_, _| false,
    starts: &[],
    mutants: &[],
    ..*DEFAULT
};
