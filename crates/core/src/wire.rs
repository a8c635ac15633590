//! The codec: bounded, little-endian, canonical, no derive. Equal values have equal bytes, and
//! every length that a peer can choose is checked before anything is allocated for it.

use crate::limits;
use alloc::vec::Vec;
use bytes::Bytes;

/// Bytes that are not a valid encoding. Says no more, because a peer chose them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("malformed bytes")
    }
}

impl core::error::Error for Malformed {}

/// Room for most messages, so that their buffers do not grow step by step.
const SMALL_BYTES: usize = 128;

/// A value with one canonical, bounded encoding.
pub trait Wire: Sized {
    /// Appends the encoding.
    fn encode(&self, to: &mut Writer);

    /// Reads one value and leaves the rest. Never panics, never allocates more than the bytes that
    /// are there justify.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not the canonical encoding of a value.
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// The encoding as a buffer of its own.
    fn to_bytes(&self) -> Bytes {
        let mut writer = Writer::onto(Vec::with_capacity(SMALL_BYTES));
        self.encode(&mut writer);
        writer.into_bytes()
    }

    /// Reads exactly one value.
    ///
    /// # Errors
    /// [`Malformed`] also if bytes are left over.
    fn from_bytes(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// Where encodings go.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Writes on after what `buffer` holds.
    #[must_use]
    pub const fn onto(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }
    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// A fixed number of bytes, without a length.
    pub fn array(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }
    /// A length and that many bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).expect("a value of ours fits its limit"));
        self.array(value);
    }
    /// A count and that many values.
    pub fn sequence<T: Wire>(&mut self, values: &[T]) {
        self.u32(u32::try_from(values.len()).expect("a sequence of ours fits its limit"));
        values.iter().for_each(|value| value.encode(self));
    }
    /// Whether there is one, and the one.
    pub fn option<T: Wire>(&mut self, value: Option<&T>) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            value.encode(self);
        }
    }
    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        Bytes::from(self.0)
    }
    /// What was written, to go on writing elsewhere.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
    /// What was written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Where encodings come from. Byte strings are cut out of the shared buffer, not copied.
pub struct Reader<'a> {
    buffer: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `buffer`.
    #[must_use]
    pub const fn new(buffer: &'a Bytes) -> Self {
        Self { buffer, at: 0 }
    }

    /// Where the next read begins.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.buffer.len() - self.at
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or(Malformed)?;
        let slice = self.buffer.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(slice)
    }

    /// A fixed number of bytes.
    ///
    /// # Errors
    /// [`Malformed`] if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// A byte.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }
    /// Two bytes.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }
    /// Four bytes.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }
    /// Eight bytes.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }
    /// A length and that many bytes, at most `max`; shares the buffer.
    ///
    /// # Errors
    /// [`Malformed`] if the length is over `max` or more than what is left.
    pub fn bytes(&mut self, max: usize) -> Result<Bytes, Malformed> {
        let length = self.u32()? as usize;
        if length > max {
            return Err(Malformed);
        }
        let start = self.at;
        self.take(length)?;
        Ok(self.buffer.slice(start..start + length))
    }
    /// The bytes from `start` to here; shares the buffer.
    #[must_use]
    pub fn since(&self, start: usize) -> Bytes {
        self.buffer.slice(start..self.at)
    }
    /// All that is left; shares the buffer.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        let start = self.at;
        self.at = self.buffer.len();
        self.buffer.slice(start..)
    }
    /// A count and that many values, at most `max`.
    ///
    /// # Errors
    /// [`Malformed`] if the count is over `max` or a value is malformed.
    pub fn sequence<T: Wire>(&mut self, max: usize) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        // Each value takes at least a byte, so a count beyond what is left is a lie.
        if count > max || count > self.remaining() {
            return Err(Malformed);
        }
        let mut values = Vec::with_capacity(count.min(limits::PREALLOCATE_MAX));
        for _ in 0..count {
            values.push(T::decode(self)?);
        }
        Ok(values)
    }
    /// Whether there is one, and the one.
    ///
    /// # Errors
    /// [`Malformed`] if the flag is neither 0 nor 1 or the value is malformed.
    pub fn option<T: Wire>(&mut self) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => T::decode(self).map(Some),
            _ => Err(Malformed),
        }
    }
    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }
    /// Ends the reading.
    ///
    /// # Errors
    /// [`Malformed`] if bytes are left over: an encoding has no slack to hide anything in.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.remaining() == 0 { Ok(()) } else { Err(Malformed) }
    }
}

impl Wire for Bytes {
    fn encode(&self, to: &mut Writer) {
        to.bytes(self);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.bytes(limits::FRAME_BYTES_MAX)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn encode(&self, to: &mut Writer) {
        self.0.encode(to);
        self.1.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Slot;

    #[test]
    fn a_sequence_longer_than_its_bytes_is_refused_before_allocating() {
        let mut writer = Writer::default();
        writer.u32(u32::MAX);
        let bytes = writer.into_bytes();
        assert_eq!(Reader::new(&bytes).sequence::<Slot>(usize::MAX), Err(Malformed));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let bytes = Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(Slot::from_bytes(&bytes), Err(Malformed));
        assert_eq!(Slot::from_bytes(&bytes.slice(..8)), Ok(Slot(1)));
    }

    #[test]
    fn byte_strings_share_the_buffer() {
        let mut writer = Writer::default();
        writer.bytes(b"shared");
        let bytes = writer.into_bytes();
        let read = Reader::new(&bytes).bytes(6).unwrap();
        assert_eq!(read.as_ptr(), bytes[4..].as_ptr());
        assert_eq!(Reader::new(&bytes).bytes(5), Err(Malformed));
    }
}
