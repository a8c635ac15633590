//! What must hold, one property in each file. A checker is fed with observations of correct
//! replicas and clients, and says what differs as soon as something does.

pub mod acceptance;
pub mod agreed_time;
pub mod agreement;
pub mod at_most_once;
pub mod bounds;
pub mod checkpoint;
pub mod configuration;
pub mod confirmation;
pub mod counter_loss;
pub mod counter_uniqueness;
pub mod deposition;
pub mod durability;
pub mod epoch_handover;
pub mod events;
pub mod evidence;
pub mod justification;
pub mod leaving;
pub mod linearizability;
pub mod liveness;
pub mod moving_on;
pub mod promises;
pub mod promptness;
pub mod reads;
pub mod retirement;
pub mod self_contradiction;
pub mod speculation;
pub mod stability;
pub mod validity;

use core::fmt;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::protocol::Status;

/// Where a correct replica stands, for the text of a violation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stand {
    /// Which.
    pub id: ReplicaId,
    /// The last slot that it executed.
    pub executed: Slot,
    /// What its core says.
    pub status: Status,
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  {} executed {}: {:?}", self.id, self.executed, self.status)
    }
}

/// A property that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The property: the checker's name.
    pub property: &'static str,
    /// What differed.
    pub detail: String,
}

impl Broken {
    /// Names the property and what differed.
    pub fn new(property: &'static str, detail: impl Into<String>) -> Self {
        Self { property, detail: detail.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.detail)
    }
}

/// Whether a property holds.
pub type Verdict = Result<(), Broken>;
