//! The encoding of an operation that is one command: a tag, and the command as its arguments. Other
//! tags are in [`super::session`].
//!
//! ```text
//! operation := 0x00 count:u32 argument{count}        one command, its name first
//! argument  := length:u32 byte{length}               integers are little-endian
//! ```

use alloc::vec::Vec;
use bytes::{BufMut, Bytes};
use core::ops::Deref;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The tag of an operation that is one command.
pub(crate) const ONE_COMMAND: u8 = 0;

/// Bytes of an encoded operation before its first argument.
pub const HEADER_BYTES: usize = 5;

/// Bytes of an encoded argument beside its own.
pub const ARGUMENT_HEADER_BYTES: usize = 4;

/// Appends the encoding of one command. The caller keeps it within
/// [`OPERATION_BYTES_MAX`]; a longer operation is refused when it is executed.
///
/// # Panics
/// If there are 2^32 arguments or an argument has 2^32 bytes.
pub fn encode<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>, to: &mut impl BufMut) {
    to.put_u8(ONE_COMMAND);
    to.put_u32_le(u32::try_from(args.len()).expect("arguments of ours fit their limit"));
    for arg in args {
        to.put_u32_le(u32::try_from(arg.len()).expect("an argument of ours fits its limit"));
        to.put_slice(arg);
    }
}

/// One command as a value: its name and its arguments.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// The name first. Never empty once decoded.
    pub args: Vec<Bytes>,
}

impl Command {
    /// A command of these words.
    #[must_use]
    pub fn new<A: AsRef<[u8]>>(args: &[A]) -> Self {
        Self { args: args.iter().map(|arg| Bytes::copy_from_slice(arg.as_ref())).collect() }
    }

    /// The encoded operation.
    #[must_use]
    pub fn to_operation(&self) -> Bytes {
        self.to_bytes()
    }
}

impl Wire for Command {
    fn encode(&self, to: &mut Writer) {
        to.u8(ONE_COMMAND);
        to.sequence(&self.args);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        if from.u8()? != ONE_COMMAND {
            return Err(Malformed);
        }
        let args = from.sequence(OPERATION_BYTES_MAX / ARGUMENT_HEADER_BYTES)?;
        if args.is_empty() { Err(Malformed) } else { Ok(Self { args }) }
    }
}

/// Arguments that live inside the list; a command with more takes one allocation.
const INLINE: usize = 6;

/// A command that borrows its words. Decoded from an operation it is never empty: the first word is
/// the command's name.
#[derive(Debug)]
pub struct Args<'a> {
    inline: [&'a [u8]; INLINE],
    count: usize,
    spilled: Vec<&'a [u8]>,
}

impl<'a> Args<'a> {
    /// Decodes an operation.
    ///
    /// # Errors
    /// [`Malformed`] if it is not exactly one command, or longer than [`OPERATION_BYTES_MAX`].
    pub fn parse(operation: &'a [u8]) -> Result<Self, Malformed> {
        if operation.len() > OPERATION_BYTES_MAX {
            return Err(Malformed);
        }
        let (tag, rest) = operation.split_first().ok_or(Malformed)?;
        if *tag != ONE_COMMAND {
            return Err(Malformed);
        }
        let (args, rest) = Self::split(rest)?;
        if rest.is_empty() { Ok(args) } else { Err(Malformed) }
    }

    /// Decodes the command at the start, without a tag. Also says what follows it.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (count, mut rest) = split_u32(bytes)?;
        // Each argument takes at least its length, so a count beyond that is a lie.
        if count == 0 || count > rest.len() / ARGUMENT_HEADER_BYTES {
            return Err(Malformed);
        }
        let mut args = Self::with_capacity(count);
        for _ in 0..count {
            let (length, after) = split_u32(rest)?;
            let (arg, after) = after.split_at_checked(length).ok_or(Malformed)?;
            args.push(arg);
            rest = after;
        }
        Ok((args, rest))
    }
}

impl<'a> Args<'a> {
    fn with_capacity(count: usize) -> Self {
        let spilled = if count > INLINE { Vec::with_capacity(count) } else { Vec::new() };
        Self { inline: [&[]; INLINE], count: 0, spilled }
    }

    fn push(&mut self, arg: &'a [u8]) {
        if self.count < INLINE {
            self.inline[self.count] = arg;
        } else {
            if self.count == INLINE {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push(arg);
        }
        self.count += 1;
    }
}

impl<'a> FromIterator<&'a [u8]> for Args<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(words: I) -> Self {
        let words = words.into_iter();
        let mut args = Self::with_capacity(words.size_hint().0);
        words.for_each(|word| args.push(word));
        args
    }
}

fn split_u32(bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    let (head, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    Ok((u32::from_le_bytes(*head) as usize, rest))
}

impl<'a> Deref for Args<'a> {
    type Target = [&'a [u8]];
    fn deref(&self) -> &Self::Target {
        if self.count > INLINE { &self.spilled } else { &self.inline[..self.count] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn borrowed_and_owned_decoders_agree() {
        for count in [1, 5, 6, 7, 40] {
            let command = Command::new(&vec!["word"; count]);
            let operation = command.to_operation();
            let mut again = Vec::new();
            encode(command.args.iter().map(|arg| &arg[..]), &mut again);
            assert_eq!(operation, again);
            assert_eq!(Command::from_bytes(&operation), Ok(command.clone()));
            assert_eq!(&*Args::parse(&operation).unwrap(), &command.args[..]);
        }
    }

    #[test]
    fn every_damaged_operation_is_refused() {
        let operation = Command::new(&["SET", "key", "value"]).to_operation();
        for cut in 0..operation.len() {
            assert!(Args::parse(&operation[..cut]).is_err(), "cut at {cut}");
            assert!(Command::from_bytes(&operation.slice(..cut)).is_err(), "cut at {cut}");
        }
        let mut longer = operation.to_vec();
        longer.push(0);
        assert!(Args::parse(&longer).is_err());
        let mut tagged = operation.to_vec();
        tagged[0] = 1;
        assert!(Args::parse(&tagged).is_err());
        assert!(Args::parse(&[0, 0, 0, 0, 0]).is_err());
        assert!(Args::parse(&[0, 255, 255, 255, 255]).is_err());
    }
}
