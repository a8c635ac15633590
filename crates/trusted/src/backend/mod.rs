//! Ways to reach a trusted device. Each proves something different about who cannot tamper with it.
//!
//! | backend | withstands | does not withstand |
//! | --- | --- | --- |
//! | [`in_process`] | bugs in the protocol, malicious messages | anyone who controls the process |
//! | [`trinx_in_process`] | the same | the same |
//! | [`process`], of either kind | also what shows or spoils its memory | who acts as its user |

pub mod in_process;
pub mod process;
pub mod trinx_in_process;

use crate::trinx::{Ask, Certificate, InstanceId, Memory};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::Incarnation;

/// The TrInX instances of one member, wherever they run. Each question names its instance; what
/// crosses this line is plain data of fixed size, so that a backend may put it through a pipe.
pub trait Trinx: Send {
    /// The life of all instances.
    fn incarnation(&self) -> Incarnation;

    /// How many instances there are; their numbers ascend by one, from 0 unless a device has been
    /// split.
    fn instances(&self) -> u16;

    /// Goes over to a later epoch with this instance alone: whoever has the others comes there in
    /// their own time. Nothing to do if it is in it already.
    ///
    /// # Errors
    /// [`Refused::Spent`] if it was in a later one; [`Refused::Unavailable`] if there is no such
    /// instance or it has failed.
    fn begin_epoch(&mut self, instance: u16, epoch: &EpochId) -> Result<(), Refused>;

    /// Has an instance certify the digest with these values, or repeat that it did.
    ///
    /// # Errors
    /// [`Refused::Spent`] if a value is below what is allowed; [`Refused::Unavailable`] if there is
    /// no such instance or it has failed.
    fn certify(
        &mut self,
        instance: u16,
        ask: &Ask,
        digest: &Digest,
    ) -> Result<Certificate, Refused>;

    /// What an instance remembers of its epoch. None if it keeps that itself, or does not exist.
    fn memory(&self, instance: u16) -> Option<Memory>;

    /// Brings an instance that has moved no counter in this epoch to where one of the same life
    /// was.
    ///
    /// # Errors
    /// [`Refused::Spent`] if a counter has moved, if no instance could have such a memory, or if it
    /// keeps its memory itself; [`Refused::Unavailable`] if there is no such instance.
    fn restore(&mut self, instance: u16, memory: &Memory) -> Result<(), Refused>;

    /// Whether an instance of the group gave this certificate to the digest in this context
    /// ([`context`](crate::trinx::context)), in whatever life it names. The epochs in which the
    /// instances here are have no part in the answer.
    fn verify(
        &self,
        context: &Digest,
        by: InstanceId,
        certificate: &Certificate,
        digest: &Digest,
    ) -> bool;
}
