//! What a replica and the authority outside that ends its group's epochs say to each other, and how
//! far this replica's epoch has come to its end.

use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{Epoch, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Life;
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::succession::{Body, Issued, SignedReport, Succession};
use std::sync::Arc;

/// What a replica tells the authority. It may be lost, and what is still true is said again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToAuthority {
    /// This replica is in this epoch, as this life of its device: at the start, and then every five
    /// seconds. The authority answers with what is under way in the epoch, or how it ended.
    Status {
        /// The epoch.
        epoch: Epoch,
        /// The life.
        life: Life,
    },
    /// The replica has stopped in its epoch, which is durable if anything is.
    Report(Box<SignedReport>),
    /// A member keeps the group from its work, as far as this replica can see. Of each member at
    /// most once between two [`Status`](Self::Status).
    Accuse {
        /// In which epoch.
        epoch: Epoch,
        /// The accused member.
        about: ReplicaId,
        /// In a few words, for people.
        why: &'static str,
    },
}

/// What the authority tells a replica. The driver sees to it that the authority itself orders to
/// stop: that is not signed. It may come more than once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromAuthority {
    /// Stop in this epoch, and report.
    Wedge {
        /// The epoch.
        epoch: Epoch,
    },
    /// This is how the epoch, or a later one, ended.
    Begin {
        /// What the authority says of it.
        issued: Box<Issued>,
        /// The batches that it names, in order, from whoever has them.
        bodies: Vec<Body>,
    },
}

/// How far an epoch has come to the end that the authority sets.
#[derive(Default)]
pub struct Wedging {
    /// The core has stopped.
    pub is_wedged: bool,
    /// What the core had ordered; none before it has said so and that is durable.
    pub history: Option<History>,
    /// With what the next epoch begins, until this replica has made that its own.
    pub inheritance: Option<Inheritance>,
    /// It is known, and was told, that what was executed here is something else.
    pub has_diverged: bool,
    /// The members that were accused since the authority was last told where this replica is.
    pub accused: ReplicaSet,
}

/// With what an epoch begins.
pub struct Inheritance {
    /// What the authority says of it.
    pub succession: Succession,
    /// The batches that it names, in order.
    pub batches: Vec<Arc<Batch>>,
}
