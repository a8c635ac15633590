//! How one configuration follows on another, and what Olympus keeps of that.

use super::terms::LINKS_KEPT;
use alloc::vec::Vec;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::Epoch;
use pentarchy_core::membership::Membership;
use pentarchy_core::succession::Succession;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The end of a configuration, and the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where the one ends and with what the next one begins; names the next one by its digest.
    pub succession: Succession,
    /// The next one.
    pub next: Configuration,
}

impl Link {
    /// Names it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Hasher::new("olympus link").bytes(&self.to_bytes()).finish()
    }

    /// The members that begin.
    ///
    /// # Panics
    /// If there is not one life for each, which [`Self::is_sound`] excludes.
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.next.after(&self.succession.handover)
    }

    /// Whether it names a configuration that a group can have, and a life for each of its members.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let handover = &self.succession.handover;
        handover.lives.len() == self.next.members.len()
            && handover.next == Some(self.next.digest())
            && self.next.check().is_ok()
    }
}

impl Wire for Link {
    fn encode(&self, to: &mut Writer) {
        self.succession.encode(to);
        self.next.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let link =
            Self { succession: Succession::decode(from)?, next: Configuration::decode(from)? };
        if link.is_sound() { Ok(link) } else { Err(Malformed) }
    }
}

/// One attempt to begin the next configuration with what its members hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// Which attempt in this wedge, from 0.
    pub attempt: u32,
    /// What is issued once all members hold what it names.
    pub link: Link,
}

impl Wire for Proposal {
    fn encode(&self, to: &mut Writer) {
        to.u32(self.attempt);
        self.link.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { attempt: from.u32()?, link: Link::decode(from)? })
    }
}

/// The last links: each has the place of its epoch, so that a checkpoint writes the new one only.
pub struct Links {
    kept: Vec<Option<Link>>,
}

impl Default for Links {
    fn default() -> Self {
        Self { kept: (0..LINKS_KEPT).map(|_| None).collect() }
    }
}

impl Links {
    /// The place of an epoch's link.
    pub const fn place(epoch: Epoch) -> usize {
        (epoch.0 % LINKS_KEPT as u64) as usize
    }

    pub fn keep(&mut self, link: Link) {
        let place = Self::place(link.succession.handover.epoch);
        self.kept[place] = Some(link);
    }

    /// How this epoch ended, if it did and was not long ago.
    pub fn of(&self, epoch: Epoch) -> Option<&Link> {
        let link = self.kept[Self::place(epoch)].as_ref();
        link.filter(|link| link.succession.handover.epoch == epoch)
    }

    pub fn at(&self, place: usize) -> Option<&Link> {
        self.kept.get(place)?.as_ref()
    }

    /// Puts one back in its place.
    pub fn restore(&mut self, place: usize, link: Option<Link>) -> Result<(), Malformed> {
        let fits = |link: &Link| Self::place(link.succession.handover.epoch) == place;
        if place >= LINKS_KEPT || !link.as_ref().is_none_or(fits) {
            return Err(Malformed);
        }
        self.kept[place] = link;
        Ok(())
    }
}
