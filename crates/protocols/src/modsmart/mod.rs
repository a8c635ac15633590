//! Mod-SMaRt, the protocol of BFT-SMaRt: `3f + 1` replicas, three phases, no trusted device, and
//! hardly a signature while no view fails; and its crash mode, with `2f + 1` replicas that do not
//! lie.
//!
//! # What it is
//! *From Byzantine Consensus to BFT State Machine Replication: A Latency-Optimal Transformation*
//! (Sousa, Bessani, EDCC 2012), which *State Machine Replication for the Masses with BFT-SMaRt*
//! (DSN 2014) describes as a system. A primary proposes batches; replicas write what it proposed,
//! and lock what a quorum wrote; what a quorum locked is decided. Nobody can show a third party
//! that others wrote, so a new primary concludes from what many replicas say of themselves.
//! `docs/protocols/modsmart.md` has the argument and the table of repairs.
//!
//! # Messages
//! | message | who | convinces by | says |
//! | --- | --- | --- | --- |
//! | `Propose` | primary | channel | slot `s` of view `v` orders this batch; I write it |
//! | `Write` | others; all, if taken over | channel | I hold this batch, and write no other |
//! | `Accept` | all | channel | I heard a quorum write it, and locked it |
//! | `ViewChange` | any | signature | I left all lower views; this I wrote and locked |
//! | `NewView` | primary | signature | VIEW-CHANGEs of `n - f` or more; what follows from them |
//! | `Decided` | any | channel | this slot is decided |
//! | `Shared` | | | what all protocols say: [`crate::common::message::Shared`] |
//!
//! PROPOSE and WRITE are signed if their author's table of writes in the slot has no room.
//!
//! # Normal case
//! `ordering.rs`: the primary proposes what waits at the end of each round; the others write, in
//! slot order, once they hold the whole batch. Who gets no proposal takes it from `f + 1` WRITEs
//! (*echo*). A quorum of WRITEs locks, a quorum of ACCEPTs decides. Several slots are under way at
//! a time. The rest is common to protocols ([`crate::common::frame`]).
//!
//! In the crash mode (`at_once.rs`) a replica locks what the primary proposes, without WRITEs:
//! PROPOSE is its primary's ACCEPT.
//!
//! # View change
//! `view_change.rs`: `f + 1` REQUEST-VIEW-CHANGEs (the paper's STOP), VIEW-CHANGE (STOPDATA),
//! NEW-VIEW (SYNC), which are not signed in the crash mode. `start.rs`: in each slot the lock of
//! the highest view wins that a quorum does not pass over and that somebody correct wrote; where a
//! quorum has no lock nothing was decided. What wins is written again in the new view.
//!
//! # Deviations from the paper
//! Many slots instead of one; no signed ACCEPTs and no proofs of decisions; the view stands in
//! every statement; first timestamp 1; tables of writes have a cap, beyond which WRITEs are signed.
//! Each has its reason on the protocol's page.

mod at_once;
mod byzantine;
mod certificate;
mod claims;
mod compaction;
mod descriptor;
mod explore;
mod justification;
mod message;
mod ordering;
mod recall;
mod record;
mod redundant;
mod replica;
mod resend;
mod signed_writes;
mod slot;
mod start;
mod statements;
mod variant;
mod view_change;
mod writes;
mod writing;

pub use byzantine::Byzantine;
pub use certificate::{Member, NewView, ViewChange};
pub use claims::{Claims, SlotClaim, Written};
pub use descriptor::{CRASH, DESCRIPTOR, SERIAL};
pub use explore::is_settled;
pub use message::{Locked, Message};
pub use record::Record;
pub use replica::{CrashModSmart, ModSmart, SerialModSmart};
pub use signed_writes::SignedWrites;
pub use start::Start;
pub use variant::{Crash, Serial, Variant, Windowed};
pub use writes::{Lock, Writes};

#[cfg(test)]
mod tests;
