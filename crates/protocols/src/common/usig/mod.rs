//! What MinBFT and MinZyzzyva share: a replica that orders by a USIG and changes its views as
//! `docs/protocols/minbft.md` argues for. When it executes what is ordered, and when it commits, is
//! each protocol's own ([`Variant`]).
//!
//! | message | who | convinces by | says |
//! | --- | --- | --- | --- |
//! | `Prepare` | primary | counter `v:s+2` | slot `s` orders this batch |
//! | `Commit` | backup | counter `v:s+2` | I hold that batch and commit to it |
//! | `ViewChange` | any | counter `v:0` | I left all lower views; this is what I committed to |
//! | `NewView` | primary | counter `v:1` | a quorum of VIEW-CHANGEs; what follows from them |
//! | `Acknowledge` | backup | counter `v:1` | I checked that NEW-VIEW and hold its batches |
//! | `Enter` | all | counter `v:2` | `f + 1` checked it; I commit to it |
//! | `Settle` | client | channel | of MinZyzzyva: see to it that this slot becomes final |
//! | `Shared` | | | what all protocols say: [`crate::common::message::Shared`] |

pub mod byzantine;
pub mod certificate;
pub mod compaction;
pub mod events;
pub mod explore;
pub mod justification;
pub mod message;
pub mod ordering;
pub mod recall;
pub mod record;
pub mod redundant;
pub mod replica;
pub mod resend;
pub mod statements;
pub mod view_change;

pub use super::counters::order::Order;
pub use byzantine::Byzantine;
pub use certificate::{Entry, NewView, ViewChange};
pub use explore::{STARTS, is_settled};
pub use message::{Message, Steps};
pub use record::Record;
pub use replica::{OnUsig, Variant};
