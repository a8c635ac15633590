//! MinBFT: `2f + 1` replicas, two phases, one trusted counter in each.
//!
//! # What it is
//! *Efficient Byzantine fault tolerance* (Veronese, Correia, Bessani, Lung, Verissimo), section 4.
//! A primary orders batches by certifying PREPAREs with its counter, backups certify COMMITs, and
//! `f + 1` commitments decide, because a device that certified one statement at a position never
//! certifies another there. `docs/protocols/minbft.md` has the figure, the argument and the table
//! of repairs.
//!
//! The same replica is one of MinZyzzyva (section 5) if it executes what is ordered at once:
//! `speculation.rs`, with `client.rs`, and `docs/protocols/minzyzzyva.md`. As `minzyzzyva-2010` its
//! views begin as printed, which is not safe: for the museum.
//!
//! # Messages
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
//!
//! # Normal case
//! `ordering.rs`: the primary proposes what waits at the end of each round; a backup commits in
//! slot order once it holds the whole batch; `f + 1` commitments, the PREPARE among them, decide.
//! The rest is common to protocols ([`crate::common::frame`]): decided slots execute in order;
//! every `checkpoint_slots`, or earlier if batches are large, all sign their state, of which
//! `f + 1` equal signatures make a stable checkpoint; while anyone is not level, replicas report
//! what they have and send each other what the other lacks (`resend.rs`).
//!
//! # View change
//! `view_change.rs`: `f + 1` REQUEST-VIEW-CHANGEs, VIEW-CHANGE, NEW-VIEW, ACKNOWLEDGE, ENTER. What
//! the view takes over executes on `f + 1` ENTERs.
//!
//! # Deviations from the paper
//! Counters are bound to views and remember the last commitment, so a VIEW-CHANGE shows one window
//! of headers, however many views failed before it; there are no per-sender streams to replay, and
//! loss is repaired slot by slot. NEW-VIEW takes effect only once committed to. COMMITs carry
//! digests; bodies are fetched by digest. Checkpoints are signed. REQUEST-VIEW-CHANGEs are signed
//! and travel in VIEW-CHANGEs. Each has its reason on the protocol's page.

mod byzantine;
mod certificate;
mod client;
mod confirming;
mod explore;
mod message;
mod moot;
mod ordering;
mod recall;
mod record;
mod renew;
mod replica;
mod resend;
mod speculation;
#[cfg(test)]
mod tests;
mod view_change;

pub use crate::common::counters::order::Order;
pub use byzantine::Byzantine;
pub use certificate::{Entry, NewView, ViewChange};
pub use client::Settling;
pub use explore::{STARTS, is_settled};
pub use message::{Message, Steps};
pub use record::Record;
pub use replica::{MinBft, MinZyzzyva, MinZyzzyva2010, OnUsig};
