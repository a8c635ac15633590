//! What a Byzantine replica can say so that others believe it: each protocol lists the lies that
//! make sense in it, and whoever searches for bugs chooses among them. A liar holds its own keys
//! and reaches its device only through the device's interface; that is the fault model.

use crate::counter::{Instance, Position, Refused, TrustedMac, Ui};
use crate::digest::Digest;
use crate::ids::{ReplicaId, Slot, View};
use crate::request::Envelope;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::Hasher;

/// What a liar has of its own.
pub trait Hand {
    /// Signs with the liar's key.
    fn sign(&self, digest: &Digest) -> [u8; 64];

    /// Asks one of the liar's devices for a certificate.
    ///
    /// # Errors
    /// [`Refused`] where the device keeps its promise.
    fn certify(
        &mut self,
        instance: Instance,
        position: Position,
        digest: &Digest,
    ) -> Result<Ui, Refused>;

    /// Asks one of the liar's devices for a trusted MAC.
    ///
    /// # Errors
    /// [`Refused`] if there is no such device.
    fn mac(&mut self, instance: Instance, digest: &Digest) -> Result<TrustedMac, Refused>;
}

/// Something that a liar could say. What exactly it says depends on what it has heard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lie {
    /// The kind of lie, as the protocol's list calls it.
    pub kind: &'static str,
    /// The view it speaks of.
    pub view: View,
    /// The slot it speaks of; 0 if of none.
    pub slot: Slot,
    /// Which of several of this kind.
    pub choice: u64,
}

impl fmt::Debug for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.view)?;
        if self.slot > Slot(0) {
            write!(f, " {}", self.slot)?;
        }
        write!(f, " #{}", self.choice)
    }
}

/// One liar of one protocol: what it has heard, and what it can make of it. Bounded like a core.
pub trait Forger: Send {
    /// A message reached the liar. What is not one is ignored. Own messages come here too.
    fn hear(&mut self, wire: &Bytes);

    /// A client's envelope reached the liar.
    fn hear_request(&mut self, envelope: &Arc<Envelope>);

    /// What it could say now and has not said, in a fixed order. Not all of it is believed.
    fn lies(&self) -> Vec<Lie>;

    /// Makes one of [`Self::lies`] and gives the bytes to send, to one replica or to several. None
    /// if it cannot be made, which is so where the device refuses.
    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes>;

    /// Adds all that it knows to a hash.
    fn fingerprint(&self, hasher: &mut dyn Hasher);

    /// A copy that knows the same.
    fn boxed_clone(&self) -> Box<dyn Forger>;
}

/// Makes a liar that is this replica.
pub type MakeForger = fn(ReplicaId, &crate::membership::Membership) -> Box<dyn Forger>;

/// Whether a message can never change what a replica of this status does. A search then counts it
/// as lost; a wrong yes makes it miss things, and a no is always right.
pub type IsSettled = fn(&crate::protocol::Status, &Bytes) -> bool;
