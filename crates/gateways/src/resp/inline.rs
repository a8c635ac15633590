//! Splits a typed line into words, as Redis does.

/// The words of a line, apart by white space. Double quotes hold `\n`, `\r`, `\t`, `\b`, `\a`,
/// `\xHH` and any other escaped byte; single quotes hold `\'`. `None` if a quote is not closed, or
/// something other than white space follows a closing one.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

/// The word at the start of a line, and what follows it.
fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Some((word, rest)),
            [byte, ..] if byte.is_ascii_whitespace() || *byte == 0 => {
                return Some((word, &rest[1..]));
            }
            [b'"', after @ ..] => return closed(word_in_double_quotes(word, after)?),
            [b'\'', after @ ..] => return closed(word_in_single_quotes(word, after)?),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn closed((word, rest): (Vec<u8>, &[u8])) -> Option<(Vec<u8>, &[u8])> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some((word, rest))
}

fn word_in_double_quotes(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'"', after @ ..] => return Some((word, after)),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescaped(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn word_in_single_quotes(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some((word, after)),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

const fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_unquoted() {
        let words = |line: &str| split(line.as_bytes());
        assert_eq!(words("  set  a\tb "), Some(vec![b"set".into(), b"a".into(), b"b".into()]));
        assert_eq!(
            words(r#""a\x41\n\"" 'it\'s \n' x"y""#),
            Some(vec![b"aA\n\"".into(), br"it's \n".into(), b"xy".into(),])
        );
        assert_eq!(words(r#""""#), Some(vec![b"".into()]));
        assert_eq!(words(""), Some(vec![]));
        for unbalanced in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#] {
            assert_eq!(words(unbalanced), None, "{unbalanced}");
        }
    }
}
