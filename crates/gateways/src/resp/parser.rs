//! Reads requests: arrays of byte strings, or lines as a person types them.
//!
//! The parser remembers how far it came, so input that trickles in is looked at once, and it keeps
//! places in the buffer, not copies. Of a request that is too large to become an operation nothing
//! is kept: it is read to its end, so that its client gets an answer and can go on.

use super::inline;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_services::kv::command::{ARGUMENT_HEADER_BYTES, Args, HEADER_BYTES};
use pentarchy_services::kv::number::parse_i64;
use std::ops::Range;

/// The longest byte string of a request. It is Redis's, and far above what can be executed.
const BULK_BYTES_MAX: usize = 512 << 20;

/// Words that a request may announce. More could not become an operation.
const WORDS_MAX: usize = OPERATION_BYTES_MAX;

/// The longest line that a person may type.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Words of a request of somebody who has not said the password, and bytes of one.
const UNTRUSTED_MAX: (usize, usize) = (10, 16 << 10);

/// The longest line that holds a number.
const NUMBER_BYTES_MAX: usize = 64;

/// Why a connection cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    /// The client made a mistake: the line that follows the `-` in RESP.
    Mistake(String),
    /// The bytes are of another protocol, and who sends them may be led by a third party: nothing
    /// is answered. What was seen, in words.
    Foreign(&'static str),
}

fn refuse<T>(why: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError::Mistake(format!("ERR Protocol error: {why}")))
}

/// Whether a typed line may begin with this.
const fn is_typed(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

/// Whether these words are the first line of an HTTP request, which only a browser types.
fn is_of_http(words: &[Vec<u8>]) -> bool {
    let version = words.last().and_then(|word| word.get(..5));
    version.is_some_and(|version| version.eq_ignore_ascii_case(b"HTTP/"))
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
    /// The operation would be larger than any may be: words are skipped.
    too_large: bool,
    /// Bytes of the word that is skipped that are still to come, with the end of its line.
    skipping: usize,
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
        if *first != b'*' && self.missing.is_none() {
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
            self.operation = self.operation.saturating_add(ARGUMENT_HEADER_BYTES + length);
            self.too_large |= self.operation > OPERATION_BYTES_MAX;
            (self.length, self.skipping) = (Some(length), length + 2);
        }
        if self.too_large {
            return Ok(self.skip_word(buffer));
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

    /// Passes over the word that comes next. Says whether that was all of it.
    fn skip_word(&mut self, buffer: &[u8]) -> bool {
        let taken = self.skipping.min(buffer.len() - self.at);
        self.at += taken;
        self.skipping -= taken;
        if self.skipping > 0 {
            return false;
        }
        (self.missing, self.length) = (self.missing.map(|missing| missing - 1), None);
        true
    }

    /// How many bytes from the start of the buffer are of no use any more, as the request that is
    /// being read is too large. They may be taken away.
    pub fn take_skipped(&mut self) -> usize {
        if self.too_large { std::mem::take(&mut self.at) } else { 0 }
    }

    /// Whether the request that [`Self::parse`] found is too large to be executed, so that it has
    /// no words.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        self.too_large
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

    /// Reads a line as a person types it. A browser can be led to send lines in the midst of TLS
    /// or of HTTP, so whatever shows one of them ends the connection before a line is carried out.
    fn parse_line(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let fresh = &buffer[self.at..];
        let end = fresh.iter().position(|byte| *byte == b'\n');
        let is_typed = buffer.first().is_none_or(|byte| is_typed(*byte));
        if !is_typed || fresh[..end.unwrap_or(fresh.len())].contains(&0) {
            return Err(ProtocolError::Foreign("bytes that nobody types, as of TLS"));
        }
        let Some(end) = end.map(|end| self.at + end) else {
            self.at = buffer.len();
            let most = if self.untrusted { UNTRUSTED_MAX.1 } else { INLINE_BYTES_MAX };
            if buffer.len() > most {
                return refuse("too big inline request");
            }
            return Ok(None);
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        match inline::split(line) {
            Some(words) if is_of_http(&words) => {
                return Err(ProtocolError::Foreign("the first line of an HTTP request"));
            }
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
        let whole = parser.parse(input).map_err(|error| match error {
            ProtocolError::Mistake(line) => line,
            ProtocolError::Foreign(what) => what.to_owned(),
        });
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
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
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
    fn other_protocols_are_known_before_a_line_of_them_is_whole() {
        let tls = Err("bytes that nobody types, as of TLS".to_owned());
        let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\nSET pwned 1\n";
        for end in 1..hello.len() {
            assert_eq!(parse(&hello[..end]), tls, "after {end} bytes");
        }
        for line in [&b"SET pwned\0 1\n"[..], b"SET \"a\0b\" 1", b"\xffSET", b"\x7fSET\n", b"\0"] {
            assert_eq!(parse(line), tls, "{line:?}");
        }
        let mut parser = Parser::default();
        assert_eq!(parser.parse(b"SET a"), Ok(None));
        assert!(parser.parse(b"SET a\0").is_err(), "in a later piece");
        for line in ["SET /x HTTP/1.1\r\n", "GET / http/1.0\n", "x HTTP/\n"] {
            let http = Err("the first line of an HTTP request".to_owned());
            assert_eq!(parse(line.as_bytes()), http, "{line}");
        }
        for line in ["SET HTTP/1.1 x\n", "SET a xHTTP/1.1\n", "SET a HTTP\n", " \tPING\n"] {
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
        }
        // Words of an array are whatever they are.
        assert!(parse(b"*1\r\n$9\r\n\0HTTP/1.1\r\n").is_ok());
    }

    #[test]
    fn a_request_that_is_too_large_is_read_to_its_end_and_not_kept() {
        let mut parser = Parser::default();
        let mut buffer = Vec::new();
        let large = [b"*3\r\n$3\r\nSET\r\n$2000000\r\n", &[b'*'; 2_000_000][..], b"\r\n$1\r\n"];
        for piece in large.concat().chunks(1_000) {
            buffer.extend_from_slice(piece);
            assert_eq!(parser.parse(&buffer), Ok(None));
            buffer.drain(..parser.take_skipped());
            assert!(buffer.len() < 1_100);
        }
        buffer.extend_from_slice(b"v\r\nPING");
        let length = parser.parse(&buffer).unwrap().unwrap();
        assert!(parser.is_too_large() && buffer[length..] == b"PING"[..]);
        parser.reset();
        assert!(!parser.is_too_large());
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
