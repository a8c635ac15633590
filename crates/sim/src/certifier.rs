//! The name of a simulated trusted counter.

use pentarchy_core::counter::Instance;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId};

/// Which device certifies, in which of its lives and in which epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Certifier {
    /// Whose device.
    pub replica: ReplicaId,
    /// Which of that replica's.
    pub instance: Instance,
    /// Its life.
    pub incarnation: Incarnation,
    /// The epoch in which it is.
    pub epoch: Epoch,
}
