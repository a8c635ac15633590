//! What a replica of pillars keeps across a crash: what each of them keeps.

use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// A record of one pillar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record<R> {
    /// Which.
    pub pillar: u8,
    /// What.
    pub inner: R,
}

impl<R: Wire> Wire for Record<R> {
    fn encode(&self, to: &mut Writer) {
        to.u8(self.pillar);
        self.inner.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { pillar: from.u8()?, inner: R::decode(from)? })
    }
}
