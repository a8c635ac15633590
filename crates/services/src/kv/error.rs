//! Errors in the words of Redis, as clients match on them.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

/// The first word of an error, by which clients tell errors apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ErrorKind {
    /// `ERR`: anything without a word of its own.
    Err = 0,
    /// `WRONGTYPE`: the key holds a value of another type.
    WrongType = 1,
    /// `OOM`: the state is at its limit.
    OutOfMemory = 2,
}

impl ErrorKind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Err),
            1 => Some(Self::WrongType),
            2 => Some(Self::OutOfMemory),
            _ => None,
        }
    }

    /// The word itself.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Err => "ERR",
            Self::WrongType => "WRONGTYPE",
            Self::OutOfMemory => "OOM",
        }
    }
}

/// Why a command failed. Displays as the line that follows the `-` in RESP.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Error {
    /// The first word.
    pub kind: ErrorKind,
    /// The rest.
    pub message: Cow<'static, str>,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.message)
    }
}

impl core::error::Error for Error {}

/// Bytes of a name or of the arguments that an error repeats.
const QUOTED_BYTES_MAX: usize = 128;

impl Error {
    pub(crate) const WRONG_TYPE: Self = Self {
        kind: ErrorKind::WrongType,
        message: Cow::Borrowed("Operation against a key holding the wrong kind of value"),
    };
    pub(crate) const OUT_OF_MEMORY: Self = Self {
        kind: ErrorKind::OutOfMemory,
        message: Cow::Borrowed("command not allowed when used memory > 'maxmemory'."),
    };
    pub(crate) const COLLECTION_TOO_LARGE: Self = Self {
        kind: ErrorKind::OutOfMemory,
        message: Cow::Borrowed(
            "a list, hash or set takes no more elements from 67108864 bytes on; \
             spread them over several keys",
        ),
    };
    pub(crate) const NOT_AN_INTEGER: Self = Self::err("value is not an integer or out of range");
    pub(crate) const NOT_POSITIVE: Self = Self::err("value is out of range, must be positive");
    pub(crate) const SYNTAX: Self = Self::err("syntax error");
    pub(crate) const NO_SUCH_KEY: Self = Self::err("no such key");
    pub(crate) const INDEX_OUT_OF_RANGE: Self = Self::err("index out of range");
    pub(crate) const OFFSET_OUT_OF_RANGE: Self = Self::err("offset is out of range");
    pub(crate) const INVALID_CURSOR: Self = Self::err("invalid cursor");
    pub(crate) const NO_SUCH_DATABASE: Self = Self::err("DB index is out of range");
    pub(crate) const DATABASE_OUT_OF_RANGE: Self =
        Self::err("value is out of range, value must between -2147483648 and 2147483647");
    pub(crate) const SAME_OBJECT: Self = Self::err("source and destination objects are the same");
    pub(crate) const OVERFLOW: Self = Self::err("increment or decrement would overflow");
    pub(crate) const DECREMENT_OVERFLOW: Self = Self::err("decrement would overflow");
    pub(crate) const STRING_TOO_LONG: Self =
        Self::err("string exceeds maximum allowed size (proto-max-bulk-len)");
    pub(crate) const COUNT_OUT_OF_RANGE: Self = Self::err(
        "value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    pub(crate) const NO_KEYS: Self = Self::err("numkeys should be greater than 0");
    pub(crate) const TOO_MANY_KEYS: Self =
        Self::err("Number of keys can't be greater than number of args");
    pub(crate) const NEGATIVE_LIMIT: Self = Self::err("LIMIT can't be negative");
    pub(crate) const NO_COUNT: Self = Self::err("count should be greater than 0");
    pub(crate) const NOT_A_FLOAT: Self = Self::err("value is not a valid float");
    pub(crate) const INFINITE: Self = Self::err("increment would produce NaN or Infinity");
    pub(crate) const KEY_TOO_LONG: Self = Self::err("key is longer than 65536 bytes");
    pub(crate) const MALFORMED: Self = Self::err("malformed operation");
    pub(crate) const NO_TIMEOUT: Self = Self::err("timeout is not a float or out of range");
    pub(crate) const NEGATIVE_TIMEOUT: Self = Self::err("timeout is negative");
    pub(crate) const TIMEOUT_OUT_OF_RANGE: Self = Self::err("timeout is out of range");
    pub(crate) const TOO_MANY_SESSIONS: Self =
        Self::err("too many gateways watch, wait or are subscribed; try again later");
    pub(crate) const SESSION_FULL: Self = Self::err(
        "too much is watched, waited for or subscribed to; the manual has the limits of a session",
    );
    pub(crate) const TRANSACTION_REPLIES: Self = Self::err(
        "executed, but the reply does not fit: the replies of one EXEC are more than 1572864 bytes",
    );
    /// Where [`Self::TRANSACTION_REPLIES`] has no room either.
    pub(crate) const NO_ROOM: Self = Self::err("reply does not fit");
    pub(crate) const REPLY_TOO_LARGE: Self = Self::err(
        "reply is larger than 1048576 bytes; \
         ask for less at a time (LRANGE, SCAN, a count, fewer keys)",
    );

    pub(crate) const TOO_MUCH_WORK: Self = Self::err(
        "not executed: it is too much work for one operation; \
         ask for less at a time (SCAN, fewer or smaller keys, shorter transactions)",
    );
    pub(crate) const PATTERN_TOO_LONG: Self = Self::err("pattern is longer than 1024 bytes");

    pub(crate) const fn err(message: &'static str) -> Self {
        Self { kind: ErrorKind::Err, message: Cow::Borrowed(message) }
    }

    /// An `ERR` with a message made up for the occasion.
    #[must_use]
    pub fn other(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: ErrorKind::Err, message: message.into() }
    }

    /// No command has this name.
    #[must_use]
    pub fn unknown_command(args: &[&[u8]]) -> Self {
        let (name, rest) = args.split_first().map_or((&[][..], &[][..]), |(n, r)| (*n, r));
        let mut quoted = String::new();
        for arg in rest {
            if quoted.len() >= QUOTED_BYTES_MAX {
                break;
            }
            let room = QUOTED_BYTES_MAX - quoted.len();
            quoted += &format!("'{}' ", quote(arg, room));
        }
        let name = quote(name, QUOTED_BYTES_MAX);
        Self::other(format!("unknown command '{name}', with args beginning with: {quoted}"))
    }

    /// A command with the wrong number of arguments. `name` in lower case.
    #[must_use]
    pub fn wrong_arity(name: &str) -> Self {
        Self::other(format!("wrong number of arguments for '{name}' command"))
    }
}

/// As much of an argument as an error repeats: one line of text, up to its first zero byte.
fn quote(arg: &[u8], room: usize) -> String {
    let arg = &arg[..arg.len().min(room)];
    let arg = arg.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(arg).replace(['\r', '\n'], " ")
}

const _: () = assert!(super::COLLECTION_BYTES_MAX == 67_108_864, "COLLECTION_TOO_LARGE says so");
const _: () = assert!(super::KEY_BYTES_MAX == 65_536, "the message of KEY_TOO_LONG says so");
