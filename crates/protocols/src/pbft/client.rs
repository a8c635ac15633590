//! The client of PBFT with tentative execution (section 5.1): it relies on equal answers of a
//! quorum, as so many hold a certificate for the slot and everything before it.

use crate::common::confirming_client::Confirms;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::ports::client::Place;
use pentarchy_core::quorum::Quorums;

/// What a client of this group relies on.
pub struct Agreeing(pub Quorums);

impl Confirms for Agreeing {
    type Collected = ();

    fn fast(&self) -> usize {
        self.0.byzantine_quorum()
    }

    fn enough(&self) -> usize {
        self.0.byzantine_quorum()
    }

    fn confirming(&self) -> usize {
        self.0.byzantine_quorum()
    }

    /// Nothing: what enough say is complete already.
    fn ask(&self, _place: Place, (): &mut ()) -> Vec<Bytes> {
        Vec::new()
    }
}
