//! Mod-SMaRt; the same one slot at a time, as the paper has it; and its crash mode.

use super::justification::{CRASH, JUSTIFICATION};
use crate::common::seal::Seal;
use pentarchy_core::auth::{Checksum, Signature};
use pentarchy_core::ballot::Justification;
use pentarchy_core::protocol::{Authority, FaultModel, Rules, Value};
use pentarchy_core::quorum::{Count, QuorumRule, Quorums, ReadRule};

/// In what one variant differs from another.
pub trait Variant: Value {
    /// The protocol's rules.
    const RULES: Rules;
    /// What justifies its decisions.
    const JUSTIFICATION: Justification;
    /// Whether a slot is ordered when the one before is decided, and ACCEPTs are signed.
    const SERIAL: bool;
    /// By what its view changes convince.
    type Seal: Seal;

    /// Whether replicas write what is proposed, and lock it when a quorum wrote it. Where nobody
    /// lies there are no two proposals for a slot of a view, and replicas lock at once.
    const WRITES: bool = Self::RULES.fault_model.lies();

    /// So many ACCEPTs decide, so many WRITEs lock, and so many vouch for a state.
    #[must_use]
    fn quorum(quorums: Quorums) -> usize {
        Self::RULES.quorum.size(quorums)
    }

    /// So many that say the same are right.
    #[must_use]
    fn believed(quorums: Quorums) -> usize {
        if Self::WRITES { quorums.weak() } else { 1 }
    }
}

/// Replicas may lie. Several slots are under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Windowed {}

impl Variant for Windowed {
    const RULES: Rules = Rules {
        name: "modsmart",
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
    const JUSTIFICATION: Justification = JUSTIFICATION;
    const SERIAL: bool = false;
    type Seal = Signature;
}

/// Replicas may lie. One slot is under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Serial {}

impl Variant for Serial {
    const RULES: Rules = Rules { name: "modsmart-serial", ..Windowed::RULES };
    const JUSTIFICATION: Justification = JUSTIFICATION;
    const SERIAL: bool = true;
    type Seal = Signature;
}

/// Replicas may stop and come back, and never lie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Crash {}

impl Variant for Crash {
    const RULES: Rules = Rules {
        name: "modsmart-cft",
        fault_model: FaultModel::Crash,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        ..Windowed::RULES
    };
    const JUSTIFICATION: Justification = CRASH;
    const SERIAL: bool = false;
    type Seal = Checksum;
}
