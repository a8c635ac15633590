//! What a Redis client sends: the same requests come out whatever the pieces it comes in, each
//! within its bytes, and an error ends them all.

use super::kv_commands;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_gateways::resp::{Parser, ProtocolError};
use std::fmt::Write;

/// The words of each request, the error if there is one, and how many bytes are left.
type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize);

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let step = usize::from(input.u8()) + 1;
    let bytes = input.rest();
    let whole = bounded(bytes.len(), || parse(bytes, bytes.len()));
    let pieces = parse(bytes, step);
    assert_eq!((&whole.0, &whole.1), (&pieces.0, &pieces.1), "pieces of {step}");
    if whole.1.is_none() {
        assert_eq!(whole.2, pieces.2);
    }
}

/// As a connection does it.
fn parse(bytes: &[u8], step: usize) -> Parsed {
    let (mut parser, mut buffer) = (Parser::default(), Vec::new());
    let mut requests = Vec::new();
    for part in bytes.chunks(step.max(1)) {
        buffer.extend_from_slice(part);
        loop {
            match parser.parse(&buffer) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    assert!((1..=buffer.len()).contains(&length), "{length} bytes");
                    let args = parser.args(&buffer);
                    requests.push(args.iter().map(|word| word.to_vec()).collect());
                    buffer.drain(..length);
                    parser.reset();
                }
                Err(error) => {
                    if let ProtocolError::Mistake(line) = &error {
                        assert!(!line.contains(['\r', '\n']), "one line: {error:?}");
                    }
                    return (requests, Some(error), buffer.len());
                }
            }
        }
    }
    (requests, None, buffer.len())
}

/// Commands as arrays of byte strings.
pub fn requests(lines: &str) -> Vec<u8> {
    let mut text = String::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let _ = write!(text, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(text, "${}\r\n{word}\r\n", word.len());
        }
    }
    text.into_bytes()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let few: Vec<&str> = kv_commands::SCRIPT.lines().take(4).collect();
    let arrays = requests(&few.join("\n"));
    let typed = b"SET \"a b\" 'it\\'s'\r\nGET \"\\x41\\n\"\nPING\r\n\r\n  \n";
    let odd = b"*0\r\n*-1\r\n*1\r\n$0\r\n\r\n*1\r\n$4\r\nPINGxx";
    let wrong = b"*2\r\n$3\r\nGET\r\n:1\r\n";
    [&arrays[..], typed, odd, wrong, b"*1048577\r\n", b"*1\r\n$1048577\r\n", b"GET \"a\r\n"]
        .map(|bytes| [&[2][..], bytes].concat())
        .to_vec()
}
