//! PBFT: `3f + 1` replicas, three phases, no trusted device; and HybridPBFT, the same with a
//! trusted MAC where a vote or a view change is signed.
//!
//! # What it is
//! *Practical Byzantine Fault Tolerance and Proactive Recovery* (Castro, Liskov, TOCS 2002), in the
//! variant with signatures. A primary proposes batches; replicas vote for what it proposed, so that
//! no two of them can hold proof of different batches in one slot; and they commit to what they
//! hold proof of, so that a later primary cannot miss it. `docs/protocols/pbft.md` has the figure,
//! the argument and the table of repairs.
//!
//! # Messages
//! | message | who | convinces by | says |
//! | --- | --- | --- | --- |
//! | `PrePrepare` | primary | signature | slot `s` of view `v` orders this batch |
//! | `Prepare` | others; all, if taken over | signature | the same, of a batch that I hold |
//! | `Commit` | all | channel | I hold `2f + 1` such signatures |
//! | `ViewChange` | any | signature | I left all lower views; of this I hold such signatures |
//! | `NewView` | primary | signature | `2f + 1` VIEW-CHANGEs; what follows from them |
//! | `Shared` | | | what all protocols say: [`crate::common::message::Shared`] |
//!
//! In HybridPBFT a trusted MAC stands for each of these signatures ([`Seal`]).
//!
//! # Normal case
//! `ordering.rs`: the primary proposes what waits at the end of each round; the others vote, in
//! slot order, once they hold the whole batch. `2f + 1` signatures under one statement are a
//! *certificate*: the slot is prepared. `2f + 1` COMMITs decide it. The rest is common to protocols
//! ([`crate::common::frame`]): decided slots execute in order; `2f + 1` equal signed states make a
//! checkpoint stable; while anyone is not level, replicas report what they have and send each other
//! what the other lacks (`resend.rs`).
//!
//! # View change
//! `view_change.rs`: `f + 1` REQUEST-VIEW-CHANGEs, VIEW-CHANGE, NEW-VIEW. A view takes over, for
//! each slot, the certificate of the highest view that a member of the NEW-VIEW holds, and orders
//! nothing where there is none; what it took over is voted for again.
//!
//! # Deviations from the paper
//! Votes are signed, so that certificates convince third parties; COMMITs are not. A replica leaves
//! a view only when `f + 1` ask for it. A VIEW-CHANGE's signature covers what it claims, and its
//! proofs stand beside that, so a NEW-VIEW needs proof of the claims that win and of no others.
//! Bodies are fetched by digest. HybridPBFT (*Hybrids on Steroids*, section 6) certifies COMMITs
//! too; here the channel vouches for them. Tentative execution (`tentative.rs`) is a protocol of
//! its own by name. Each has its reason on the protocol's page.

mod byzantine;
mod certificate;
mod client;
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
mod seal;
mod statements;
mod tentative;
mod variant;
mod view_change;

pub use byzantine::Byzantine;
pub use certificate::{Claim, Claims, Member, NewView, Prepared, Start, ViewChange};
pub use client::Agreeing;
pub use descriptor::{DESCRIPTOR, HYBRID, TENTATIVE};
pub use explore::is_settled;
pub use message::{Certified, Message};
pub use record::Record;
pub use replica::{HybridPbft, Pbft, TentativePbft};
pub use seal::Seal;
pub use variant::{Decided, Tentative, Trusted, Variant};

#[cfg(test)]
mod tests;
