//! By what right whoever is at the other end of a channel speaks as a member.
//!
//! A member's identity key opens its channels for as long as there is the machine: also after the
//! group has gone on without it, when nobody counts it among the `f` faulty of a configuration any
//! more, and somebody may have found its disk. So the identity key alone convinces nobody. A
//! replica signs each channel by the key by which it signs in a configuration, which it erases with
//! that, and what it says counts in that configuration and in no other.
//!
//! Both ends have other keys for the channel behind each welcome: whoever reads a replica's memory
//! later cannot go on where it spoke as a member of an earlier configuration.

use crate::auth::Signature;
use crate::digest::{Digest, Hasher};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};

/// A replica has begun a configuration, and says so over a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Welcome {
    /// The number of the configuration.
    pub number: u64,
    /// Of the [statement](Self::statement), by the replica's key of that configuration.
    pub signature: Signature,
}

impl Welcome {
    /// What the key signs: the configuration, and what names the channel to both ends.
    #[must_use]
    pub fn statement(configuration: &Digest, channel: &[u8; 32]) -> Digest {
        let mut hasher = Hasher::new("pentarchy welcome");
        hasher.digest(configuration).bytes(channel).finish()
    }

    /// Whether who said this over the channel speaks there as the member that signs by this key in
    /// the configuration of this number and digest. `is_signed` checks a signature by any key.
    pub fn convinces(
        &self,
        (number, configuration): (u64, &Digest),
        channel: &[u8; 32],
        key: &[u8; 32],
        is_signed: impl FnOnce(&[u8; 32], &Digest, &[u8; 64]) -> bool,
    ) -> bool {
        let statement = Self::statement(configuration, channel);
        self.number == number
            && (is_signed(key, &statement, &self.signature.0) || mutant!("welcome.by-identity"))
    }
}

impl Wire for Welcome {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.number);
        self.signature.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { number: from.u64()?, signature: Signature::decode(from)? })
    }
}
