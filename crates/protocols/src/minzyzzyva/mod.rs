//! MinZyzzyva: `2f + 1` replicas that execute what the primary orders at once, one trusted counter
//! in each, and clients that decide when a result can be relied upon.
//!
//! # What it is
//! *Efficient Byzantine fault tolerance* (Veronese, Correia, Bessani, Lung, Verissimo), section 5.
//! It is MinBFT whose replicas do not wait for commitments. `docs/protocols/minzyzzyva.md` has the
//! figure, the argument and the table of repairs. What it shares with MinBFT is in
//! [`crate::common::usig`]. As `minzyzzyva-2010` its views begin as printed, which is not safe: for
//! the museum.
//!
//! # Messages
//! Those of [`crate::common::usig`], and from clients `Settle`: see to it that this slot becomes
//! final.
//!
//! # Normal case
//! `speculation.rs`: a replica executes what the primary ordered and tells the client. A client
//! that was not answered alike by all has the place confirmed (`client.rs`, `confirming.rs`);
//! backups commit then, at checkpoints and when nothing else is to be done, and what `f + 1`
//! replicas committed to is final.
//!
//! # View change
//! `view_change.rs` of [`crate::common::usig`]. What the view does not take over is taken back.
//!
//! # Deviations from the paper
//! Those of MinBFT. Commitments are made only when somebody needs them, and one to a slot is one to
//! all before it. Each has its reason on the protocol's page.

mod client;
mod confirming;
mod descriptor;
mod speculation;
mod variant;
mod views;

pub use crate::common::usig::{Message, Order, Record, Steps, ViewChange};
pub use client::Settling;
pub use descriptor::{DESCRIPTOR, PRINTED};
pub use speculation::Speculation;
pub use variant::{MinZyzzyva, MinZyzzyva2010};
pub use views::{Ordered, Printed, Repaired, Views};
