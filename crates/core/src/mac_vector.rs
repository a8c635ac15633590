//! Authenticators as Castro and Liskov have them (*Practical Byzantine fault tolerance*, OSDI 1999,
//! section 5.2): one statement with a MAC for each member, which travels on and is checked by each.

use crate::ids::ReplicaId;
use crate::limits::REPLICAS_MAX;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use core::fmt;

/// Bytes of one MAC.
pub const MAC_BYTES: usize = 16;

/// One MAC.
pub type Mac = [u8; MAC_BYTES];

/// An author's MACs over one statement, by receiver. Each is made under a key that only the author
/// and that receiver have. So it convinces each receiver of its own entry, whoever passed it on,
/// and nobody else of anything: a receiver could have made its entry itself, and a lying author can
/// make some entries right and others wrong. At most [`REPLICAS_MAX`] entries, which is 1 KiB.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct MacVector(Arc<[Mac]>);

impl MacVector {
    /// Of these MACs, by receiver.
    ///
    /// # Panics
    /// If there are more than a group has members.
    #[must_use]
    pub fn new(macs: impl IntoIterator<Item = Mac>) -> Self {
        let macs: Arc<[Mac]> = macs.into_iter().collect();
        assert!(macs.len() <= REPLICAS_MAX, "a MAC for each member of a group");
        Self(macs)
    }

    /// The entry of a receiver in a group of `n`; none unless there is one entry for each of them.
    #[must_use]
    pub fn entry(&self, of: ReplicaId, n: usize) -> Option<&Mac> {
        self.0.get(usize::from(of.0)).filter(|_| self.0.len() == n)
    }

    /// All entries, by receiver.
    #[must_use]
    pub fn entries(&self) -> &[Mac] {
        &self.0
    }
}

impl fmt::Debug for MacVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} macs", self.0.len())
    }
}

impl Wire for MacVector {
    fn encode(&self, to: &mut Writer) {
        to.u8(u8::try_from(self.0.len()).expect("a group has fewer members"));
        self.0.iter().for_each(|mac| to.array(mac));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = usize::from(from.u8()?);
        if count > REPLICAS_MAX || count * MAC_BYTES > from.remaining() {
            return Err(Malformed);
        }
        (0..count).map(|_| from.array()).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn vector(count: u8) -> MacVector {
        MacVector::new((0..count).map(|receiver| [receiver; MAC_BYTES]))
    }

    #[test]
    fn a_receiver_has_an_entry_only_where_each_member_has_one() {
        let macs = vector(3);
        assert_eq!(macs.entry(ReplicaId(2), 3), Some(&[2; MAC_BYTES]));
        assert_eq!(macs.entry(ReplicaId(3), 3), None);
        assert_eq!(macs.entry(ReplicaId(0), 2), None);
        assert_eq!(macs.entry(ReplicaId(0), 4), None);
    }

    #[test]
    fn no_more_is_decoded_than_a_group_has_members() {
        let most = REPLICAS_MAX as u8;
        for count in [0, 1, 3, most] {
            let bytes = vector(count).to_bytes();
            assert_eq!(bytes.len(), 1 + usize::from(count) * MAC_BYTES);
            assert_eq!(MacVector::from_bytes(&bytes), Ok(vector(count)));
        }
        let more = [&[most + 1][..], &[0; (REPLICAS_MAX + 1) * MAC_BYTES]].concat();
        assert_eq!(MacVector::from_bytes(&more.into()), Err(Malformed));
        let whole = vector(3).to_bytes();
        for end in 0..whole.len() {
            assert_eq!(
                MacVector::from_bytes(&Bytes::copy_from_slice(&whole[..end])),
                Err(Malformed)
            );
        }
    }
}
