//! The parts of a replica that share no state.

use alloc::boxed::Box;
use alloc::vec::Vec;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};

/// A core that was brought up, with what it asked for.
pub struct Part {
    /// The core.
    pub core: Box<dyn ReplicaCore>,
    /// What it asked for.
    pub effects: Vec<CoreEffect>,
}

/// What a replica is made of whose parts share no state. What one outputs for another may come
/// late, but in its order (`docs/host-contract.md`).
pub struct Parts {
    /// What merges the orders of the pillars.
    pub merger: Part,
    /// The pillars, by number.
    pub pillar_cores: Vec<Part>,
}
