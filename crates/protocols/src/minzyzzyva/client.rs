//! MinZyzzyva's client (section 5): it relies on what all replicas answered for the same place,
//! which is a view and a slot with what that orders, as every later view takes that over; or on
//! what `f + 1` did, once it asked all to make that final and enough say that it is.

use crate::common::confirming_client::Confirms;
use crate::common::usig::Message;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::quorum::ClientQuorums;
use pentarchy_core::wire::Wire;

/// What a client of this group relies on.
pub struct Settling(pub ClientQuorums);

impl Confirms for Settling {
    type Collected = ();

    fn fast(&self) -> usize {
        let few = mutant!("minzyzzyva.client-believes-f-and-one");
        if few { self.enough() } else { self.0.group.n }
    }

    fn enough(&self) -> usize {
        self.0.group.weak()
    }

    /// One of them is correct.
    fn confirming(&self) -> usize {
        if mutant!("minzyzzyva.client-believes-one") { 1 } else { self.0.replies }
    }

    fn ask(&self, place: Place, (): &mut ()) -> Vec<Bytes> {
        vec![Message::Settle { view: place.view, slot: place.slot }.to_bytes()]
    }
}
