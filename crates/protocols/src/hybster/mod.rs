//! Hybster: `2f + 1` replicas, two phases, trusted counters bound to views and slots.
//!
//! # What it is
//! *Hybrids on Steroids: SGX-Based High Performance BFT* (Behl, Distler, Kapitza), section 5.2: the
//! basic, sequential protocol, there called HybsterS. A primary orders batches by certifying
//! PREPAREs with its TrInX counter, backups certify COMMITs, and a quorum decides. No view change
//! needs a history, so memory is bounded through any number of failed views.
//! `docs/protocols/hybster.md` has the argument and the table of repairs.
//!
//! # Messages
//! | message | who | convinces by | says |
//! | --- | --- | --- | --- |
//! | `Prepare` | primary | independent, `[v|s+1]` | slot `s` orders this batch |
//! | `Commit` | backup | independent, `[v|s+1]` | I hold that batch and commit to it |
//! | `ViewChange` | any | continuing, `[v|0]` | I left all lower views; what I have to show |
//! | `NewView` | primary | independent, `[v|1]` | a quorum of VIEW-CHANGEs; I propose that |
//! | `Enter` | backup | independent, `[v|1]` | I accepted that NEW-VIEW and commit to all of it |
//! | `Acknowledge` | any | signature | that NEW-VIEW is sound, but I had left its view |
//! | `ViewChanges` | any | itself | why I could leave a view |
//! | `Shared` | | | what all protocols say: [`crate::common::message::Shared`] |
//!
//! # Normal case
//! `ordering.rs`: the primary proposes what waits at the end of each round; a backup commits in
//! slot order once it holds the whole batch; a quorum of commitments, the PREPARE among them,
//! decides. The rest is common to protocols ([`crate::common::frame`]): decided slots execute in
//! order; all sign their state at checkpoints, of which `f + 1` equal signatures make one stable;
//! while anyone is not level, replicas report what they have and send each other what the other
//! lacks (`resend.rs`).
//!
//! # View change
//! `leaving.rs`: `f + 1` REQUEST-VIEW-CHANGEs, then a VIEW-CHANGE for each view in turn, from one
//! to the next only with a view-change certificate or the NEW-VIEW. `view_change.rs`: NEW-VIEW from
//! an established view, ENTER, and ACKNOWLEDGE by those who had gone on. `origins.rs`: which
//! NEW-VIEWs of lower views are kept, and vouched for.
//!
//! # Deviations from the paper
//! One certificate on the NEW-VIEW proposes all slots that it takes over, and one ENTER commits to
//! them. A NEW-VIEW comes from the highest `v_from` among its members, which must be established. A
//! view-change certificate has to be resolved. A replica leaves a view only when `f + 1` ask for
//! another. COMMITs carry digests; bodies are fetched by digest. CHECKPOINTs and ACKNOWLEDGEs are
//! signed. Each has its reason on the protocol's page.

mod byzantine;
mod certificate;
mod compaction;
mod descriptor;
mod explore;
mod justification;
mod leaving;
mod message;
mod ordering;
mod origins;
mod recall;
mod record;
mod redundant;
mod replica;
mod resend;
mod statements;
mod view_change;

pub use crate::common::counters::certificate::Prepared;
pub use crate::common::counters::order::Order;
pub use byzantine::Byzantine;
pub use certificate::{CertifiedViewChange, Entry, NewView, ViewChange, ViewChanges};
pub use descriptor::DESCRIPTOR;
pub use explore::is_settled;
pub use message::{Message, Steps};
pub use record::Record;
pub use replica::Hybster;
