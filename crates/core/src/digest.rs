//! Digests, and the domain that every signed or certified statement is bound to.
//!
//! How much was hashed is counted, for whoever watches the process. Nothing that a core does may
//! depend on the counts.

use crate::ids::{Epoch, GroupId};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static HASHES: AtomicU64 = AtomicU64::new(0);
static HASHED_BYTES: AtomicU64 = AtomicU64::new(0);

fn count(bytes: u64) {
    HASHES.fetch_add(1, Relaxed);
    HASHED_BYTES.fetch_add(bytes, Relaxed);
}

/// Digests that this process has made since it began, and the bytes that went into them.
#[must_use]
pub fn hashed() -> (u64, u64) {
    (HASHES.load(Relaxed), HASHED_BYTES.load(Relaxed))
}

/// A 32-byte BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        count(bytes.len() as u64);
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Wire for Digest {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

/// Bytes that a [`Hasher`] gathers before it hashes any: as many as nearly every statement has.
/// Those are hashed in one call, without the state of BLAKE3 for input without end, which has
/// 1.9 KiB.
const GATHERED: usize = 256;

/// Hashes fields one after the other. Integers are fixed-width and byte strings carry their
/// length, so two different lists of fields never hash the same bytes.
pub struct Hasher {
    gathered: [u8; GATHERED],
    len: usize,
    /// The hasher that took all bytes so far, once there were too many to gather.
    longer: Option<Box<blake3::Hasher>>,
}

impl Hasher {
    /// Starts with a tag that names what is being hashed.
    #[must_use]
    pub fn new(tag: &'static str) -> Self {
        let mut hasher = Self::plain();
        hasher.bytes(tag.as_bytes());
        hasher
    }
    /// Starts without one, to get what [`Digest::of`] gives of bytes that come one after the other.
    #[must_use]
    pub const fn plain() -> Self {
        Self { gathered: [0; GATHERED], len: 0, longer: None }
    }
    /// Adds bytes without their length: for [`Self::plain`].
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        let (gathered, end) = (&mut self.gathered, self.len + value.len());
        if self.longer.is_none() && end <= GATHERED {
            gathered[self.len..end].copy_from_slice(value);
            self.len = end;
            return self;
        }
        let longer = self.longer.get_or_insert_with(|| {
            let mut longer = Box::new(blake3::Hasher::new());
            longer.update(&gathered[..self.len]);
            longer
        });
        longer.update(value);
        self
    }
    /// Adds a number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }
    /// Adds a byte string with its length.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u64(value.len() as u64).raw(value)
    }
    /// Adds a digest.
    pub fn digest(&mut self, value: &Digest) -> &mut Self {
        self.raw(&value.0)
    }
    /// The hash of all that was added.
    #[must_use]
    pub fn finish(&self) -> Digest {
        let Some(longer) = &self.longer else { return Digest::of(&self.gathered[..self.len]) };
        count(longer.count());
        Digest(*longer.finalize().as_bytes())
    }
}

/// Which epoch it is, of which group, under which configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EpochId {
    /// The group.
    pub group: GroupId,
    /// [`Configuration::digest`](crate::configuration::Configuration::digest) of the members, keys
    /// and quorums.
    pub configuration: Digest,
    /// The epoch's number. One number means one configuration only.
    pub epoch: Epoch,
}

impl Wire for EpochId {
    fn encode(&self, to: &mut Writer) {
        self.group.encode(to);
        self.configuration.encode(to);
        self.epoch.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (group, configuration) = (GroupId::decode(from)?, Digest::decode(from)?);
        Ok(Self { group, configuration, epoch: Epoch::decode(from)? })
    }
}

/// What every statement is bound to: the format version, the group, its configuration and the
/// epoch. A statement made for one group, membership or version means nothing in another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Domain(Digest);

impl Domain {
    /// The domain of one epoch.
    #[must_use]
    pub fn new(id: &EpochId) -> Self {
        let EpochId { group, configuration, epoch } = id;
        let epoch = if mutant!("domain.epochs-shared") { Epoch(0) } else { *epoch };
        let shared = mutant!("domain.configurations-shared");
        let configuration = if shared { Digest::default() } else { *configuration };
        let mut hasher = Hasher::new("pentarchy domain");
        hasher.u64(crate::limits::WIRE_VERSION).bytes(&group.0).u64(epoch.0).digest(&configuration);
        Self(hasher.finish())
    }

    /// The domain of a group in all of its epochs.
    #[must_use]
    pub fn of_group(group: &GroupId) -> Self {
        let mut hasher = Hasher::new("pentarchy group");
        hasher.u64(crate::limits::WIRE_VERSION).bytes(&group.0);
        Self(hasher.finish())
    }

    /// The domain of a group whose order is split.
    #[must_use]
    pub fn split(&self, pillars: u8, rotates: bool) -> Self {
        let mut hasher = self.statement("pentarchy pillars");
        hasher.u64(u64::from(pillars)).u64(u64::from(rotates));
        Self(hasher.finish())
    }

    /// The domain of one pillar of a group: what is said in it means nothing in another.
    #[must_use]
    pub fn pillar(&self, pillar: u8) -> Self {
        let pillar = if mutant!("pillars.statements-shared") { 0 } else { pillar };
        Self(self.statement("pentarchy pillar").u64(u64::from(pillar)).finish())
    }

    /// Starts hashing a statement of the named kind within this domain.
    #[must_use]
    pub fn statement(&self, kind: &'static str) -> Hasher {
        let mut hasher = Hasher::new(kind);
        hasher.digest(&self.0);
        hasher
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn how_bytes_come_one_after_the_other_makes_no_difference() {
        let bytes: Vec<u8> = (0..2 * GATHERED).map(|index| index as u8).collect();
        for len in (0..bytes.len()).step_by(3).chain([GATHERED - 1, GATHERED, GATHERED + 1]) {
            for piece in [1, 7, GATHERED - 1, GATHERED, GATHERED + 1] {
                let mut hasher = Hasher::plain();
                for part in bytes[..len].chunks(piece) {
                    hasher.raw(part);
                }
                assert_eq!(hasher.finish(), Digest::of(&bytes[..len]), "{len} by {piece}");
            }
        }
    }

    #[test]
    fn what_is_said_in_one_epoch_means_nothing_in_another() {
        let first = EpochId { group: GroupId([1; 16]), ..EpochId::default() };
        let second = EpochId { epoch: Epoch(1), ..first };
        let changed = EpochId { configuration: Digest::of(b"other keys"), ..first };
        let differs = |other| Domain::new(&first) != Domain::new(other);
        assert!(differs(&second));
        assert!(differs(&changed), "nor under another configuration");
        assert!(Domain::of_group(&first.group) != Domain::new(&first));
        #[cfg(feature = "mutants")]
        {
            assert!(!mutant::with(Some("domain.epochs-shared"), || differs(&second)));
            assert!(!mutant::with(Some("domain.configurations-shared"), || differs(&changed)));
        }
    }
}
