//! The encoding of a result. Typed, so that a gateway can render it in any version of RESP, and
//! flat, so that it can do so without building a tree.
//!
//! ```text
//! reply := 0                      OK
//!        | 1 length:u32 bytes     status
//!        | 2 value:i64            integer
//!        | 3 length:u32 bytes     bulk string
//!        | 4                      no value
//!        | 5                      no array
//!        | 6 count:u32 reply{count}
//!        | 7 kind:u8 length:u32 bytes     error; integers are little-endian
//!        | 8 count:u32 reply{2 count}     map, its fields and values in turn
//!        | 9 count:u32 reply{count}       set
//!        | 10 length:u32 bytes            floating-point number, as Redis spells it
//!        | 11 count:u32 reply{2 count}    array of pairs, which RESP2 has flat
//! ```

use super::error::{Error, ErrorKind};
use super::float;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::Malformed;

/// The longest encoded reply. A read that would need more is answered with an error; a write that
/// would is answered so before it changes anything.
pub const REPLY_BYTES_MAX: usize = OPERATION_BYTES_MAX;

const _: () = assert!(REPLY_BYTES_MAX == 1_048_576, "Error::REPLY_TOO_LARGE says so");

/// More elements than any reply can carry.
pub(crate) const ITEMS_MAX: usize = REPLY_BYTES_MAX / 5;

/// What an encoded error begins with.
pub(crate) const ERROR_TAG: u8 = 7;

/// Arrays within arrays that [`Reply::decode`] follows.
const DEPTH_MAX: usize = 8;

/// A result as a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// `OK`.
    Ok,
    /// A status other than `OK`, such as the type of a key.
    Status(Bytes),
    /// An integer.
    Int(i64),
    /// A byte string.
    Bulk(Bytes),
    /// No value.
    Nil,
    /// No value where an array was asked for. RESP2 tells it from [`Self::Nil`].
    NilArray,
    /// Several results.
    Array(Vec<Self>),
    /// The command failed.
    Error(ErrorKind, Bytes),
    /// Fields and values in turn.
    Map(Vec<Self>),
    /// Several results in no order.
    Set(Vec<Self>),
    /// A floating-point number in its spelling.
    Double(Bytes),
    /// Pairs, the first and the second of each in turn. RESP3 has an array for each.
    Pairs(Vec<Self>),
}

impl Reply {
    /// Decodes the result of an operation.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not exactly one reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut tokens = Tokens::new(bytes);
        let reply = Self::build(&mut tokens, 0)?;
        if tokens.0.is_empty() { Ok(reply) } else { Err(Malformed) }
    }

    fn build(tokens: &mut Tokens<'_>, depth: usize) -> Result<Self, Malformed> {
        Ok(match tokens.read()? {
            Token::Ok => Self::Ok,
            Token::Status(text) => Self::Status(Bytes::copy_from_slice(text)),
            Token::Int(value) => Self::Int(value),
            Token::Bulk(value) => Self::Bulk(Bytes::copy_from_slice(value)),
            Token::Nil => Self::Nil,
            Token::NilArray => Self::NilArray,
            Token::Error(kind, text) => Self::Error(kind, Bytes::copy_from_slice(text)),
            Token::Double(text) => Self::Double(Bytes::copy_from_slice(text)),
            Token::Array(count) => Self::Array(Self::items(tokens, count, 1, depth)?),
            Token::Set(count) => Self::Set(Self::items(tokens, count, 1, depth)?),
            Token::Map(count) => Self::Map(Self::items(tokens, count, 2, depth)?),
            Token::Pairs(count) => Self::Pairs(Self::items(tokens, count, 2, depth)?),
        })
    }

    fn items(
        tokens: &mut Tokens<'_>,
        count: u32,
        each: usize,
        depth: usize,
    ) -> Result<Vec<Self>, Malformed> {
        if depth == DEPTH_MAX {
            return Err(Malformed);
        }
        (0..count as usize * each).map(|_| Self::build(tokens, depth + 1)).collect()
    }

    /// The encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = ReplyWriter::default();
        self.write(&mut writer);
        writer.finish(Ok(()))
    }

    fn write(&self, to: &mut ReplyWriter) {
        match self {
            Self::Ok => to.ok(),
            Self::Status(text) => to.status(text),
            Self::Int(value) => to.int(*value),
            Self::Bulk(value) => to.bulk(value),
            Self::Nil => to.nil(),
            Self::NilArray => to.nil_array(),
            Self::Error(kind, text) => to.text(ERROR_TAG, Some(*kind as u8), text),
            Self::Double(text) => to.text(10, None, text),
            Self::Array(items) => Self::write_all(6, items.len(), items, to),
            Self::Set(items) => Self::write_all(9, items.len(), items, to),
            Self::Map(items) => Self::write_all(8, items.len() / 2, items, to),
            Self::Pairs(items) => Self::write_all(11, items.len() / 2, items, to),
        }
    }
}

impl From<&Error> for Reply {
    fn from(error: &Error) -> Self {
        Self::Error(error.kind, Bytes::copy_from_slice(error.message.as_bytes()))
    }
}

impl Reply {
    fn write_all(tag: u8, count: usize, items: &[Self], to: &mut ReplyWriter) {
        to.several(tag, count);
        items.iter().for_each(|item| item.write(to));
    }
}

/// One element of an encoded reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// See [`Reply::Ok`].
    Ok,
    /// See [`Reply::Status`].
    Status(&'a [u8]),
    /// See [`Reply::Int`].
    Int(i64),
    /// See [`Reply::Bulk`].
    Bulk(&'a [u8]),
    /// See [`Reply::Nil`].
    Nil,
    /// See [`Reply::NilArray`].
    NilArray,
    /// So many replies follow.
    Array(u32),
    /// See [`Reply::Error`].
    Error(ErrorKind, &'a [u8]),
    /// See [`Reply::Map`]; so many pairs of replies follow.
    Map(u32),
    /// See [`Reply::Set`]; so many replies follow.
    Set(u32),
    /// See [`Reply::Double`].
    Double(&'a [u8]),
    /// See [`Reply::Pairs`]; so many pairs of replies follow.
    Pairs(u32),
}

/// Reads an encoded reply element by element, without an allocation.
#[derive(Clone, Debug)]
pub struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    /// Reads from the start.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element. An array's count is no more than the bytes that are left, as each of its
    /// replies takes at least one.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no reply, or at their end.
    pub fn read(&mut self) -> Result<Token<'a>, Malformed> {
        Ok(match self.take::<1>()? {
            [0] => Token::Ok,
            [1] => Token::Status(self.bytes()?),
            [2] => Token::Int(i64::from_le_bytes(self.take()?)),
            [3] => Token::Bulk(self.bytes()?),
            [4] => Token::Nil,
            [5] => Token::NilArray,
            [6] => Token::Array(self.count(1)?),
            [8] => Token::Map(self.count(2)?),
            [9] => Token::Set(self.count(1)?),
            [10] => Token::Double(self.bytes()?),
            [11] => Token::Pairs(self.count(2)?),
            [7] => {
                let [kind] = self.take()?;
                Token::Error(ErrorKind::from_byte(kind).ok_or(Malformed)?, self.bytes()?)
            }
            _ => return Err(Malformed),
        })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn count(&mut self, each: usize) -> Result<u32, Malformed> {
        let count = u32::from_le_bytes(self.take()?);
        if count as usize <= self.0.len() / each { Ok(count) } else { Err(Malformed) }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }
}

/// Where a command writes its result. Stops, and remembers it, at [`REPLY_BYTES_MAX`].
#[derive(Default, Debug)]
pub(crate) struct ReplyWriter {
    buffer: Vec<u8>,
    overflowed: bool,
}

impl ReplyWriter {
    pub fn ok(&mut self) {
        self.tag(0);
    }
    pub fn status(&mut self, text: &[u8]) {
        self.text(1, None, text);
    }
    pub fn int(&mut self, value: i64) {
        if self.room(9) {
            self.buffer.push(2);
            self.buffer.extend_from_slice(&value.to_le_bytes());
        }
    }
    /// A count or a length, which fits because what is counted fits memory.
    pub fn count(&mut self, value: usize) {
        self.int(i64::try_from(value).unwrap_or(i64::MAX));
    }
    pub fn bulk(&mut self, value: &[u8]) {
        self.text(3, None, value);
    }
    pub fn nil(&mut self) {
        self.tag(4);
    }
    pub fn nil_array(&mut self) {
        self.tag(5);
    }
    /// So many replies follow; the caller writes them.
    pub fn array(&mut self, count: usize) {
        self.several(6, count);
    }
    /// So many pairs of replies follow, a field and a value each.
    pub fn map(&mut self, count: usize) {
        self.several(8, count);
    }
    /// So many replies follow, in no order.
    pub fn set(&mut self, count: usize) {
        self.several(9, count);
    }
    /// So many pairs of replies follow.
    pub fn pairs(&mut self, count: usize) {
        self.several(11, count);
    }
    fn several(&mut self, tag: u8, count: usize) {
        match u32::try_from(count) {
            Ok(count) if self.room(5) => {
                self.buffer.push(tag);
                self.buffer.extend_from_slice(&count.to_le_bytes());
            }
            _ => self.overflowed = true,
        }
    }
    pub fn double(&mut self, value: f64) {
        self.text(10, None, float::spell(value).as_bytes());
    }
    pub fn optional(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.nil(),
        }
    }

    /// Appends what another writer wrote.
    pub fn append(&mut self, other: &Self) {
        self.overflowed |= other.overflowed;
        if self.room(other.buffer.len()) {
            self.buffer.extend_from_slice(&other.buffer);
        }
    }

    /// Bytes that were written so far.
    pub const fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether what was written so far is too long already, so that a loop can end early.
    pub const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The encoded reply: what was written, or the error in its place.
    pub fn finish(mut self, outcome: Result<(), Error>) -> Vec<u8> {
        let outcome = if self.overflowed { Err(Error::REPLY_TOO_LARGE) } else { outcome };
        if let Err(error) = outcome {
            self.buffer.clear();
            self.overflowed = false;
            self.text(ERROR_TAG, Some(error.kind as u8), error.message.as_bytes());
        }
        self.buffer
    }

    fn tag(&mut self, tag: u8) {
        if self.room(1) {
            self.buffer.push(tag);
        }
    }

    fn text(&mut self, tag: u8, kind: Option<u8>, text: &[u8]) {
        if self.room(6 + text.len()) {
            self.buffer.push(tag);
            self.buffer.extend(kind);
            // Within room, so far below 2^32.
            self.buffer.extend_from_slice(&(text.len() as u32).to_le_bytes());
            self.buffer.extend_from_slice(text);
        }
    }

    fn room(&mut self, more: usize) -> bool {
        self.overflowed |= self.buffer.len() + more > REPLY_BYTES_MAX;
        if !self.overflowed && self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(more);
        }
        !self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn replies_come_back_as_they_were() {
        let bytes = Bytes::from_static;
        let reply = Reply::Array(vec![
            Reply::Ok,
            Reply::Status(bytes(b"list")),
            Reply::Int(-7),
            Reply::Bulk(bytes(b"\0\r\n")),
            Reply::Nil,
            Reply::NilArray,
            Reply::Array(vec![Reply::Array(vec![])]),
            Reply::Map(vec![Reply::Int(1), Reply::Nil]),
            Reply::Set(vec![Reply::Int(1)]),
            Reply::Pairs(vec![Reply::Int(1), Reply::Double(bytes(b"1.5"))]),
            Reply::Error(ErrorKind::WrongType, bytes(b"no")),
        ]);
        let encoded = reply.encode();
        assert_eq!(Reply::decode(&encoded), Ok(reply));
        for cut in 0..encoded.len() {
            assert_eq!(Reply::decode(&encoded[..cut]), Err(Malformed), "cut at {cut}");
        }
    }

    #[test]
    fn hostile_replies_are_refused_before_allocating_and_without_deep_recursion() {
        assert_eq!(Reply::decode(&[6, 255, 255, 255, 255, 0]), Err(Malformed));
        let nested = [6u8, 1, 0, 0, 0].repeat(100_000);
        assert_eq!(Reply::decode(&nested), Err(Malformed));
        assert_eq!(Reply::decode(&[0, 0]), Err(Malformed));
    }

    #[test]
    fn a_reply_that_grows_too_long_becomes_an_error() {
        let mut writer = ReplyWriter::default();
        writer.array(3);
        (0..3).for_each(|_| writer.bulk(&[0; REPLY_BYTES_MAX / 2]));
        assert!(writer.overflowed());
        let reply = Reply::decode(&writer.finish(Ok(()))).unwrap();
        assert!(matches!(reply, Reply::Error(ErrorKind::Err, _)));
    }
}
