//! A protocol that is added: a descriptor, and one line in [`every`](super::registry::every).

use pentarchy_core::protocol::{FaultModel, Protocol as _, Rules};
use pentarchy_protocols::minbft::MinBft;
use pentarchy_protocols::{Descriptor, Status};

/// The replicas of a protocol that could bear more, in a group whose members at most crash. What
/// its rules say is all that others know of it.
pub static DESCRIPTOR: Descriptor = Descriptor {
    rules: Rules { name: "toy", fault_model: FaultModel::Crash, ..MinBft::RULES },
    about: "a toy",
    paper: "none",
    ..Descriptor::of::<MinBft>(Status::Comparator)
};
