//! Normal case: commit, decide, execute (MinBFT section 4). The primary proposes as in
//! [`crate::common::usig::ordering`].

use crate::common::usig::justification::DECIDED;
use crate::common::usig::{OnUsig, Variant};
use pentarchy_core::ballot::Justification;
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::{Authority, Effects, FaultModel, Rules};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

/// What is decided is executed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Decided {}

/// One replica of MinBFT.
pub type MinBft = OnUsig<Decided>;

impl Variant for Decided {
    const RULES: Rules = Rules {
        name: "minbft",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    };
    const JUSTIFICATION: Justification = DECIDED;

    type Speculation = ();

    fn begin(_executed: Slot) -> Self::Speculation {}

    /// Step 4: `f + 1` commitments decide, the PREPARE among them.
    fn executable(replica: &mut MinBft, slot: Slot, _out: &mut Effects<MinBft>) -> Option<Digest> {
        replica.slots.decided(&replica.frame, slot)
    }

    /// Steps 2 and 3: a backup commits in slot order to what it holds.
    fn vote(replica: &mut MinBft, out: &mut Effects<MinBft>) {
        replica.slots.commit(&mut replica.frame, out);
    }
}
