//! PBFT, with tentative execution, and with trusted MACs.

use super::seal::Seal;
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::{Counter, TrustedMac};
use pentarchy_core::protocol::{Authority, FaultModel, Rules, Value};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

/// In what one variant differs from another.
pub trait Variant: Value {
    /// The protocol's rules.
    const RULES: Rules;
    /// Whether it executes what is prepared, and takes that back if it has to.
    const TENTATIVE: bool;
    /// By what its votes and view changes convince.
    type Seal: Seal;
}

/// What is decided is executed, and votes are signed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decided {}

impl Variant for Decided {
    const RULES: Rules = Rules {
        name: "pbft",
        fault_model: FaultModel::Byzantine,
        group_size: Count::per_fault_and_one(3),
        quorum: QuorumRule::Byzantine,
        replies: Count::per_fault_and_one(2),
        reads: ReadRule::AllButFaulty,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: None,
    };
    const TENTATIVE: bool = false;
    type Seal = Signature;
}

/// What is prepared is executed, and votes are signed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tentative {}

impl Variant for Tentative {
    const RULES: Rules = Rules { name: "pbft-tentative", speculative: true, ..Decided::RULES };
    const TENTATIVE: bool = true;
    type Seal = Signature;
}

/// What is decided is executed, and votes are trusted MACs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trusted {}

impl Variant for Trusted {
    const RULES: Rules = Rules {
        name: "hybrid-pbft",
        fault_model: FaultModel::Hybrid,
        counter: Some(Counter::Trinx),
        ..Decided::RULES
    };
    const TENTATIVE: bool = false;
    type Seal = TrustedMac;
}
