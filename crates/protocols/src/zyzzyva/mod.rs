//! Zyzzyva: `3f + 1` replicas that execute what the primary orders at once, and clients that decide
//! when a result can be relied upon. And Zyzzyva5, with `5f + 1`: [`Table`] is the difference.
//!
//! # What it is
//! *Zyzzyva: Speculative Byzantine Fault Tolerance* (Kotla, Alvisi, Dahlin, Clement, Wong, TOCS
//! 2009), with another view change: the one of the paper loses what clients have acted on
//! (Abraham, Gueta, Malkhi, Alvisi, Kotla, Martin, *Revisiting Fast Practical Byzantine Fault
//! Tolerance*, 2017). `docs/protocols/zyzzyva.md` has the figure, the argument and the table of
//! repairs.
//!
//! # Messages
//! | message | who | convinces by | says |
//! | --- | --- | --- | --- |
//! | `Order` | primary | signature | behind this history slot `s` of view `v` orders this batch |
//! | `Vote` | all | signature | in view `v` I have executed this history up to `s` |
//! | `Commit` | all | channel | I keep a quorum of such signatures |
//! | `Misbehaviour` | any | itself | two orders that no correct primary gives |
//! | `ViewChange` | any | signature | I left all lower views; this I executed and can prove |
//! | `NewView` | primary | signature | VIEW-CHANGEs; what follows from them |
//! | `Confirm` | all | signature | I agree on what follows |
//! | `Confirmed` | any | itself | a quorum does |
//! | `Vouch` | client | channel | sign what you answered me |
//! | `Certificate` | client | itself | a quorum answered me alike |
//! | `Shared` | | | what all protocols say: [`crate::common::message::Shared`] |
//!
//! # Normal case
//! `ordering.rs`: the primary orders what waits at the end of each round; everyone executes it at
//! once and tells clients what came of it, with the history on which that rests. `client.rs`: a
//! client relies on a result if all say the same; if only a quorum does, it gathers their
//! signatures, has replicas keep them, and relies on the result once a quorum does. `commit.rs`:
//! replicas do the same among themselves at checkpoints, when somebody waits, and when nothing else
//! is to be done; what a quorum keeps proof of is final. The rest is common to protocols
//! ([`crate::common::frame`]): a quorum of equal signed final states makes a checkpoint stable;
//! reports and what they are answered with (`resend.rs`) repair loss.
//!
//! # View change
//! `view_change.rs`, `start.rs`: `f + 1` REQUEST-VIEW-CHANGEs, VIEW-CHANGE, NEW-VIEW, CONFIRM. Of
//! what the members show only what comes from the highest view counts that a quorum had confirmed
//! the beginning of: what that began with, the highest certificate, and what enough of them
//! executed. What was executed otherwise is taken back.
//!
//! # Deviations from the paper
//! Answers are signed only when a client needs that. A view begins when a quorum agrees on how.
//! Certificates of older views count for nothing. Only final states are signed, and execution waits
//! for that at each checkpoint. Histories are chained over batches with their times. Each has its
//! reason on the protocol's page.

mod byzantine;
mod certificate;
mod client;
mod commit;
mod compaction;
mod convict;
mod descriptor;
mod explore;
mod justification;
mod message;
mod new_view;
mod ordering;
mod recall;
mod record;
mod redundant;
mod replica;
mod resend;
mod shown;
mod start;
mod statements;
mod table;
mod variant;
mod view_change;

pub use byzantine::Byzantine;
pub use certificate::{Committed, Confirmed, Misbehaviour, Reached, Stable, ViewChange};
pub use client::Proving;
pub use descriptor::{DESCRIPTOR, FIVE, HASTY, PLAIN, PRINTED, SIGNED};
pub use explore::is_settled;
pub use message::{Message, Standing};
pub use new_view::{Member, NewView};
pub use record::Record;
pub use replica::Zyzzyva;
pub use start::Start;
pub use table::Table;
pub use variant::{Five, Hasty, Kind, Plain, Printed, Signed, Three, Variant};
