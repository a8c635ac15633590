//! Pillars: several instances of one protocol side by side, each of which agrees on a part of the
//! order.
//!
//! # What it is
//! *Hybrids on Steroids: SGX-Based High Performance BFT* (Behl, Distler, Kapitza), section 5.3:
//! consensus-oriented parallelisation, there HybsterX and PBFTcop. A replica has `N` pillars. Each
//! is a whole core ([`Pillar`]) with a trusted counter, views, checkpoints and a window of its own,
//! and shares no state with the others. Slot `k` of all pillars together is *row* `k`; execution
//! goes through row after row, in each from the first pillar to the last (`merge.rs`).
//!
//! - A [`PillarCore`] is one pillar, with all that needs to look into its core.
//! - The [`Merger`] has the order of all together, and what goes between them and execution. It
//!   knows of each only what it was told.
//! - [`Pillars`] is a replica that runs one merger and all pillar cores in one thread. A host may
//!   run each in a thread of its own instead: what they say to each other may come late.
//!
//! `docs/protocols/pillars.md` has the argument.
//!
//! # Messages
//! Those of the pillar's protocol, followed by the number of the pillar. What they say is bound to
//! that number, to the number of pillars and to whether their primaries rotate.
//!
//! # Normal case
//! A client belongs to one pillar. What a pillar decided waits until everything before it in the
//! global order is decided too. Where that takes too long because nobody asks for anything there,
//! slots are *filled* with nothing (`filling.rs`, and [`crate::common::frame`]).
//!
//! # View change
//! Each pillar changes its views alone.
//!
//! # Deviations from the paper
//! There one pillar coordinates a view change, and its messages come in parts of which all are
//! needed. Here none is split, so none can be incomplete. Slots that nobody fills lead to a view
//! change of the pillar that lacks them, whoever else is content.

mod byzantine;
mod comparing;
mod descriptor;
mod filling;
mod merge;
mod merger;
mod merging;
mod message;
mod parts;
mod pillar_core;
mod pillared;
mod record;
mod replica;
mod running;
mod scratch;
#[cfg(test)]
mod tests;
mod transit;

pub use crate::common::parts::{Part, Parts};
pub use byzantine::Byzantine;
pub use descriptor::describe;
pub use merger::Merger;
pub use message::{Message, PillarTimer};
pub use pillar_core::{Pillar, PillarCore};
pub use pillared::Pillared;
pub use record::Record;
pub use replica::Pillars;
