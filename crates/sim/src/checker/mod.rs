//! What must hold, one property in each file. A checker is fed with observations of correct
//! replicas and clients, and says what differs as soon as something does.

pub mod acceptance;
pub mod agreement;
pub mod at_most_once;
pub mod bounds;
pub mod checkpoint;
pub mod counter_uniqueness;
pub mod linearizability;
pub mod liveness;
pub mod validity;

use core::fmt;

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
