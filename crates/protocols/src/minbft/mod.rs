//! MinBFT: `2f + 1` replicas, two phases, one trusted counter in each.
//!
//! # What it is
//! *Efficient Byzantine fault tolerance* (Veronese, Correia, Bessani, Lung, Verissimo), section 4.
//! A primary orders batches by certifying PREPAREs with its counter, backups certify COMMITs, and
//! `f + 1` commitments decide, because a device that certified one statement at a position never
//! certifies another there. `docs/protocols/minbft.md` has the figure, the argument and the table
//! of repairs.
//!
//! What MinZyzzyva shares with it, which is all but when slots are executed and when backups
//! commit, is in [`crate::common::usig`].
//!
//! # Messages
//! Those of [`crate::common::usig`]. Clients only ask.
//!
//! # Normal case
//! `ordering.rs`, with that of [`crate::common::usig`]: the primary proposes what waits at the end
//! of each round; a backup commits in slot order once it holds the whole batch; `f + 1`
//! commitments, the PREPARE among them, decide.
//! The rest is common to protocols ([`crate::common::frame`]): decided slots execute in order;
//! every `checkpoint_slots`, or earlier if batches are large, all sign their state, of which
//! `f + 1` equal signatures make a stable checkpoint; while anyone is not level, replicas report
//! what they have and send each other what the other lacks (`resend.rs`).
//!
//! # View change
//! `view_change.rs` of [`crate::common::usig`]: `f + 1` REQUEST-VIEW-CHANGEs, VIEW-CHANGE,
//! NEW-VIEW, ACKNOWLEDGE, ENTER. What the view takes over executes on `f + 1` ENTERs.
//!
//! # Deviations from the paper
//! Counters are bound to views and remember the last commitment, so a VIEW-CHANGE shows one window
//! of headers, however many views failed before it; there are no per-sender streams to replay, and
//! loss is repaired slot by slot. NEW-VIEW takes effect only once committed to. COMMITs carry
//! digests; bodies are fetched by digest. Checkpoints are signed. REQUEST-VIEW-CHANGEs are signed
//! and travel in VIEW-CHANGEs. Each has its reason on the protocol's page.

mod descriptor;
mod ordering;
#[cfg(test)]
mod tests;

pub use crate::common::usig::{
    Byzantine, Entry, Message, NewView, Order, Record, STARTS, Steps, ViewChange, is_settled,
};
pub use descriptor::DESCRIPTOR;
pub use ordering::MinBft;
