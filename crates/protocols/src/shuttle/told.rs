//! What a replica tells a client of a slot as soon as it has ordered it.

use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::BATCH_REQUESTS_MAX;
use pentarchy_core::ports::client::Reply;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// A replica ordered a slot in which the client has requests: its *voucher*. It goes over the
/// replica's own channel, which says whose it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Told {
    /// The slot.
    pub slot: Slot,
    /// What was ordered up to there.
    pub history: Digest,
    /// What came of the client's requests in the slot.
    pub came: Came,
}

/// What came of a client's requests in a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Came {
    /// The replica is a witness, and does not know.
    Unknown,
    /// The digest of the replies, see
    /// [`Results`](pentarchy_core::ports::replica::slot_results::Results): another one tells them,
    /// or they are too long.
    Digest(Digest),
    /// The replies, in the order of execution.
    Whole(Vec<Reply>),
}

impl Wire for Told {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.history.encode(to);
        match &self.came {
            Came::Unknown => to.u8(0),
            Came::Digest(digest) => {
                to.u8(1);
                digest.encode(to);
            }
            Came::Whole(replies) => {
                to.u8(2);
                to.sequence(replies);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (slot, history) = (Slot::decode(from)?, Digest::decode(from)?);
        let came = match from.u8()? {
            0 => Came::Unknown,
            1 => Came::Digest(Digest::decode(from)?),
            2 => Came::Whole(from.sequence(BATCH_REQUESTS_MAX)?),
            _ => return Err(Malformed),
        };
        Ok(Self { slot, history, came })
    }
}
