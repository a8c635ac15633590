//! A protocol's message as it goes over a channel: its author, how that convinces, and what it
//! says.
//!
//! ```text
//! message := author:u16 tag body
//! ```

use crate::auth::{AuthTag, Verified};
use crate::digest::Digest;
use crate::ids::ReplicaId;
use crate::limits::FRAME_BYTES_MAX;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

/// Room for author and tag, unless the tag has a MAC for each of many members.
const HEAD_BYTES: usize = 128;

/// The bytes of a message whose body is encoded already.
#[must_use]
pub fn join(author: ReplicaId, tag: &AuthTag, body: &[u8]) -> Bytes {
    let mut to = Writer::onto(Vec::with_capacity(HEAD_BYTES + body.len()));
    author.encode(&mut to);
    tag.encode(&mut to);
    to.array(body);
    to.into_bytes()
}

/// The bytes of a message.
#[must_use]
pub fn encode(author: ReplicaId, tag: &AuthTag, message: &impl Wire) -> Bytes {
    join(author, tag, &message.to_bytes())
}

/// Author, tag and the reader of the body.
///
/// # Errors
/// [`Malformed`] if it does not begin as a message does.
pub fn divide(wire: &Bytes) -> Result<(ReplicaId, AuthTag, Reader<'_>), Malformed> {
    let mut from = Reader::new(wire);
    let (author, tag) = (ReplicaId::decode(&mut from)?, AuthTag::decode(&mut from)?);
    Ok((author, tag, from))
}

/// Author, tag and content.
///
/// # Errors
/// [`Malformed`] if it is not exactly one message.
pub fn decode<M: Wire>(wire: &Bytes) -> Result<(ReplicaId, AuthTag, M), Malformed> {
    let (author, tag, mut from) = divide(wire)?;
    let message = M::decode(&mut from)?;
    from.finish().map(|()| (author, tag, message))
}

/// As a replica keeps it in its own log, where nothing has to be checked again. Never for the
/// network: whoever decodes it believes it.
impl<M: Wire> Wire for Verified<M> {
    fn encode(&self, to: &mut Writer) {
        self.digest.encode(to);
        to.bytes(&self.wire);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let digest = Digest::decode(from)?;
        let wire = from.bytes(FRAME_BYTES_MAX)?;
        let (author, tag, message) = decode(&wire)?;
        Ok(Self { author, tag, digest, message: Arc::new(message), wire, is_direct: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::View;

    #[test]
    fn what_is_joined_is_divided_again() {
        for tag in [AuthTag::Channel, AuthTag::Signature([9; 64])] {
            let wire = encode(ReplicaId(3), &tag, &View(7));
            assert_eq!(decode(&wire), Ok((ReplicaId(3), tag.clone(), View(7))));
            let (author, divided, mut body) = divide(&wire).unwrap();
            assert_eq!((author, &divided, &body.rest()), (ReplicaId(3), &tag, &View(7).to_bytes()));
            assert_eq!(join(author, &tag, &View(7).to_bytes()), wire);
            assert_eq!(decode::<View>(&wire.slice(..wire.len() - 1)), Err(Malformed));
            let longer = [&wire[..], &[0]].concat();
            assert_eq!(decode::<View>(&Bytes::from(longer)), Err(Malformed));
        }
        assert!(divide(&Bytes::from_static(&[3])).is_err());
    }
}
