//! Reads requests: arrays of byte strings, or lines as a person types them.
//!
//! The parser remembers how far it came, so input that trickles in is looked at once, and it keeps
//! places in the buffer, not copies. A request that cannot become an operation is refused when its
//! lengths are read, before its bytes are waited for.

use super::inline;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_services::kv::command::{ARGUMENT_HEADER_BYTES, Args, HEADER_BYTES};
use pentarchy_services::kv::number::parse_i64;
use std::ops::Range;

/// The longest byte string of a request.
const BULK_BYTES_MAX: usize = OPERATION_BYTES_MAX;

/// Words that a request may announce. More could not become an operation.
const WORDS_MAX: usize = OPERATION_BYTES_MAX;

/// The longest line that a person may type.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Words of a request of somebody who has not said the password, and bytes of one.
const UNTRUSTED_MAX: (usize, usize) = (10, 16 << 10);

/// The longest line that holds a number.
const NUMBER_BYTES_MAX: usize = 64;

/// Why a connection cannot go on. The line that follows the `-` in RESP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolError(pub String);

fn refuse<T>(why: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError(format!("ERR Protocol error: {why}")))
}

/// The state of reading one request.
#[derive(Default, Debug)]
pub struct Parser {
    /// The client has not said its password, so that less is read.
    pub untrusted: bool,
    /// Where to go on in the buffer.
    at: usize,
    /// Words still to come, once the array's header was read.
    missing: Option<usize>,
    /// Length of the word that comes next, once its header was read.
    length: Option<usize>,
    /// Where the words are.
    words: Vec<Range<usize>>,
    /// The words of a typed line, which may differ from what was typed.
    typed: Vec<Vec<u8>>,
    /// Bytes of the operation that the words would make.
    operation: usize,
}

impl Parser {
    /// Reads on. Says how many bytes of the buffer a whole request takes, or `None` if more must
    /// come first; the buffer must not lose bytes meanwhile. A request without words is nothing to
    /// answer.
    ///
    /// # Errors
    /// [`ProtocolError`] if no request can follow: the connection must end.
    pub fn parse(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(first) = buffer.first() else { return Ok(None) };
        if *first != b'*' {
            return self.parse_line(buffer);
        }
        if self.missing.is_none() {
            let Some(count) = self.number(buffer, "mbulk count")? else { return Ok(None) };
            let count = count.filter(|count| *count <= WORDS_MAX as i64);
            let Some(count) = count else { return refuse("invalid multibulk length") };
            if self.untrusted && count > UNTRUSTED_MAX.0 as i64 {
                return refuse("unauthenticated multibulk length");
            }
            self.missing = Some(usize::try_from(count).unwrap_or(0));
            self.operation = HEADER_BYTES;
        }
        while self.missing > Some(0) {
            if !self.parse_word(buffer)? {
                return Ok(None);
            }
        }
        Ok(Some(self.at))
    }

    /// Reads the next word, if it is there.
    fn parse_word(&mut self, buffer: &[u8]) -> Result<bool, ProtocolError> {
        if self.length.is_none() {
            match buffer.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => {
                    let other = char::from(*other);
                    return refuse(
                        &format!("expected '$', got '{other}'").replace(['\r', '\n'], " "),
                    );
                }
            }
            let Some(length) = self.number(buffer, "bulk count")? else { return Ok(false) };
            let length = length.and_then(|length| usize::try_from(length).ok());
            let Some(length) = length.filter(|length| *length <= BULK_BYTES_MAX) else {
                return refuse("invalid bulk length");
            };
            if self.untrusted && length > UNTRUSTED_MAX.1 {
                return refuse("unauthenticated bulk length");
            }
            self.operation += ARGUMENT_HEADER_BYTES + length;
            if self.operation > OPERATION_BYTES_MAX {
                return refuse(&format!("command larger than {OPERATION_BYTES_MAX} bytes"));
            }
            self.length = Some(length);
        }
        let Some((missing, length)) = self.missing.zip(self.length) else { return Ok(false) };
        let end = self.at + length;
        if buffer.len() < end + 2 {
            return Ok(false);
        }
        self.words.push(self.at..end);
        // What stands in place of the line's end is skipped unseen, as Redis does.
        self.at = end + 2;
        (self.missing, self.length) = (Some(missing - 1), None);
        Ok(true)
    }

    /// Reads a line of one marker byte and a number. The outer `None` is a line that is not whole,
    /// the inner one a number that is none.
    fn number(&mut self, buffer: &[u8], what: &str) -> Result<Option<Option<i64>>, ProtocolError> {
        let line = &buffer[self.at + 1..];
        let window = &line[..line.len().min(NUMBER_BYTES_MAX)];
        let Some(end) = window.iter().position(|byte| *byte == b'\r') else {
            if line.len() > NUMBER_BYTES_MAX {
                return refuse(&format!("too big {what} string"));
            }
            return Ok(None);
        };
        if line.len() < end + 2 {
            return Ok(None);
        }
        self.at += 1 + end + 2;
        Ok(Some(parse_i64(&line[..end])))
    }

    fn parse_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let fresh = &buffer[self.at..];
        let Some(end) = fresh.iter().position(|byte| *byte == b'\n').map(|end| self.at + end)
        else {
            self.at = buffer.len();
            let most = if self.untrusted { UNTRUSTED_MAX.1 } else { INLINE_BYTES_MAX };
            if buffer.len() > most {
                return refuse("too big inline request");
            }
            return Ok(None);
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        match inline::split(line) {
            Some(words) => self.typed = words,
            None => return refuse("unbalanced quotes in request"),
        }
        Ok(Some(end + 1))
    }

    /// The words of the request that [`Self::parse`] found in this buffer.
    #[must_use]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        let typed = self.typed.iter().map(Vec::as_slice);
        self.words.iter().map(|word| &buffer[word.clone()]).chain(typed).collect()
    }

    /// Forgets a request, to read the next one from the start of a buffer.
    pub fn reset(&mut self) {
        self.words.clear();
        if self.words.capacity() > 1024 {
            self.words.shrink_to(64);
        }
        let words = std::mem::take(&mut self.words);
        *self = Self { words, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a request and how many bytes it took.
    type Request = (Vec<Vec<u8>>, usize);

    fn parse(input: &[u8]) -> Result<Option<Request>, String> {
        let mut parser = Parser::default();
        let whole = parser.parse(input).map_err(|error| error.0);
        let words = |parser: &Parser| parser.args(input).iter().map(|word| word.to_vec()).collect();
        whole.map(|whole| whole.map(|length| (words(&parser), length)))
    }

    #[test]
    fn requests_are_read_in_any_pieces() {
        let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n\0x\r\nrest";
        let (words, length) = parse(input).unwrap().unwrap();
        assert_eq!(words, [&b"SET"[..], b"k", b"\r\n\0x"]);
        assert_eq!(&input[length..], b"rest");
        let mut parser = Parser::default();
        for end in 0..length {
            assert_eq!(parser.parse(&input[..end]), Ok(None), "after {end} bytes");
        }
        assert_eq!(parser.parse(&input[..length]), Ok(Some(length)));
        assert_eq!(parser.args(input).len(), 3);
    }

    #[test]
    fn lines_are_read_in_any_pieces() {
        let input = b"SET \"a b\" 'c'\r\n";
        assert_eq!(parse(input).unwrap().unwrap().0, [&b"SET"[..], b"a b", b"c"]);
        let mut parser = Parser::default();
        for end in 0..input.len() {
            assert_eq!(parser.parse(&input[..end]), Ok(None));
        }
        assert_eq!(parser.parse(input), Ok(Some(input.len())));
        assert_eq!(parse(b"\n").unwrap(), Some((vec![], 1)));
        assert_eq!(parse(b"*0\r\nx").unwrap(), Some((vec![], 4)));
        assert_eq!(parse(b"*-1\r\n").unwrap(), Some((vec![], 5)));
    }

    #[test]
    fn nonsense_is_refused_in_the_words_of_redis_and_before_its_bytes_come() {
        for (input, why) in [
            (&b"*x\r\n"[..], "invalid multibulk length"),
            (b"*1048577\r\n", "invalid multibulk length"),
            (b"*1\r\n:1\r\n", "expected '$', got ':'"),
            (b"*1\r\n*1\r\n", "expected '$', got '*'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$01\r\n", "invalid bulk length"),
            (b"*1\r\n$1048577\r\n", "invalid bulk length"),
            (b"*1\r\n$1048576\r\n", "command larger than 1048576 bytes"),
            (b"GET \"a\r\n", "unbalanced quotes in request"),
        ] {
            assert_eq!(parse(input), Err(format!("ERR Protocol error: {why}")));
        }
        let long = [b"*".as_slice(), &[b'1'; 100]].concat();
        assert_eq!(parse(&long), Err("ERR Protocol error: too big mbulk count string".into()));
        let long = [b"*1\r\n$".as_slice(), &[b'1'; 100]].concat();
        assert_eq!(parse(&long), Err("ERR Protocol error: too big bulk count string".into()));
        let long = vec![b'x'; INLINE_BYTES_MAX + 1];
        assert_eq!(parse(&long), Err("ERR Protocol error: too big inline request".into()));
    }

    #[test]
    fn hostile_bytes_never_panic_and_a_whole_request_stays_within_its_buffer() {
        let mut seed = 7u64;
        let mut roll = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        let alphabet = b"*$\r\n0123456789-\"'\\ aGET";
        for _ in 0..50_000 {
            let input: Vec<u8> =
                (0..roll(40)).map(|_| alphabet[roll(alphabet.len() as u64) as usize]).collect();
            if let Ok(Some((_, length))) = parse(&input) {
                assert!(length <= input.len());
            }
        }
    }
}
