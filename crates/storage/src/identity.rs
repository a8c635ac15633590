//! Whose files these are.

use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Stands in every file, so that a folder that was copied, restored or mixed up is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The group.
    pub group: GroupId,
    /// The replica.
    pub replica: ReplicaId,
    /// The life of its trusted device that wrote this.
    pub incarnation: Incarnation,
}

impl Identity {
    /// Whose an empty folder is that is only looked at.
    pub(crate) const NOBODY: Self =
        Self { group: GroupId([0; 16]), replica: ReplicaId(0), incarnation: Incarnation(0) };

    /// What differs from what is expected, in words; none if nothing does.
    #[must_use]
    pub fn difference(&self, expected: &Self) -> Option<String> {
        if self.group != expected.group {
            return Some("it belongs to another group".to_owned());
        }
        if self.replica != expected.replica {
            return Some(format!("it belongs to replica {}", self.replica.0));
        }
        (self.incarnation != expected.incarnation)
            .then(|| "it belongs to another life of this replica's trusted device".to_owned())
    }
}

impl Wire for Identity {
    fn encode(&self, to: &mut Writer) {
        self.group.encode(to);
        self.replica.encode(to);
        self.incarnation.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            group: GroupId::decode(from)?,
            replica: ReplicaId::decode(from)?,
            incarnation: Incarnation::decode(from)?,
        })
    }
}
