//! Takes an input apart. What is missing at its end counts as zero, so that every input means
//! something.

use pentarchy_core::Bytes;

/// What is left of an input.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of it.
    #[must_use]
    pub const fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A length of two bytes and that many bytes, or as many as there are.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// All that is left, in a buffer of its own.
    pub fn shared(&mut self) -> Bytes {
        Bytes::copy_from_slice(self.rest())
    }
}

/// Appends what [`Input::bytes`] takes.
///
/// # Panics
/// If there are 2^16 bytes or more.
pub fn put_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    let length = u16::try_from(bytes.len()).expect("a seed is small");
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}
