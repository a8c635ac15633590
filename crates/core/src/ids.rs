//! Names of things. Each is its own type, so that a slot and a view cannot be swapped.

use crate::wire::{Malformed, Reader, Wire, Writer};
use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal, $read:ident, $write:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this one. Saturates, so that a hostile number cannot overflow.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }

        impl Wire for $name {
            fn encode(&self, to: &mut Writer) {
                to.$write(self.0);
            }
            fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                from.$read().map(Self)
            }
        }
    };
}

number!(
    /// Index of a replica in its membership, from 0. Who is behind it may differ by configuration.
    ReplicaId(u16), "r", u16, u16
);
number!(
    /// Who a member is in all configurations of its group. Counts up; no number is given twice.
    MemberId(u32), "m", u32, u32
);
number!(
    /// Number of a primary's reign. The primary of view `v` is replica `v mod n`.
    View(u64), "v", u64, u64
);
number!(
    /// Position in the total order. The first batch stands in slot 1; slot 0 is the initial state.
    Slot(u64), "s", u64, u64
);
number!(
    /// Number of a membership.
    Epoch(u64), "e", u64, u64
);
number!(
    /// One life of a trusted device. A device that lost its state comes back under another one.
    Incarnation(u64), "i", u64, u64
);
number!(
    /// Agreed time in milliseconds since the Unix epoch, as a primary proposed it.
    Millis(u64), "t", u64, u64
);

/// A client is its Ed25519 public key: whoever can sign for the key is the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClientId(pub [u8; 32]);

impl ClientId {
    /// Whether this is the client with this key. Looks at the first bytes first, where nearly all
    /// others differ: the author of each request is compared with each member.
    #[must_use]
    pub fn has_key(&self, key: &[u8; 32]) -> bool {
        self.0.first_chunk::<8>() == key.first_chunk::<8>() && self.0 == *key
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c")?;
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Wire for ClientId {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

/// Random name of one group of replicas, fixed when its keys are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct GroupId(pub [u8; 16]);

impl Wire for GroupId {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

/// Someone at the other end of a link: a member of the group or a client of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A member of the group. Which replica it is, a link does not know: that depends on the epoch.
    Member(MemberId),
    /// Anyone with a key.
    Client(ClientId),
}

/// A set of replicas as a bit mask; groups have at most 64 members
/// ([`crate::limits::REPLICAS_MAX`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReplicaSet(pub u64);

impl ReplicaSet {
    /// Nobody.
    pub const EMPTY: Self = Self(0);

    /// Adds a replica; false if it was there already.
    pub fn insert(&mut self, id: ReplicaId) -> bool {
        let bit = 1u64 << (id.0 % 64);
        let fresh = self.0 & bit == 0;
        self.0 |= bit;
        fresh
    }

    /// Takes a replica out.
    pub fn remove(&mut self, id: ReplicaId) {
        self.0 &= !(1u64 << (id.0 % 64));
    }

    /// Whether the replica is in the set.
    #[must_use]
    pub const fn contains(self, id: ReplicaId) -> bool {
        self.0 & (1u64 << (id.0 % 64)) != 0
    }

    /// How many replicas are in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether nobody is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = ReplicaId> {
        (0..64u16).map(ReplicaId).filter(move |id| self.contains(*id))
    }
}

impl FromIterator<ReplicaId> for ReplicaSet {
    fn from_iter<I: IntoIterator<Item = ReplicaId>>(ids: I) -> Self {
        let mut set = Self::EMPTY;
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Wire for ReplicaSet {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.u64().map(Self)
    }
}
