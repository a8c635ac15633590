//! Patterns of `KEYS`, `SCAN`, `PSUBSCRIBE` and `CONFIG GET`.

use super::error::Error;
use super::work::Work;

/// The longest pattern.
pub const PATTERN_BYTES_MAX: usize = 1 << 10;

const _: () = assert!(PATTERN_BYTES_MAX == 1024, "Error::PATTERN_TOO_LONG says so");

/// A pattern of a command, unless it is too long.
pub(crate) fn pattern(arg: &[u8]) -> Result<&[u8], Error> {
    if arg.len() > PATTERN_BYTES_MAX { Err(Error::PATTERN_TOO_LONG) } else { Ok(arg) }
}

/// [`matches()`], as far as the work goes.
pub(crate) fn matches_within(pattern: &[u8], text: &[u8], work: &Work) -> Result<bool, Error> {
    let mut left = work.left();
    let Some(found) = search(pattern, text, &mut left) else { return Err(work.exhaust()) };
    work.note(work.left() - left);
    Ok(found)
}

/// Whether `text` as a whole matches `pattern`: `*` is any run of bytes, `?` any one byte, `[abc]`,
/// `[a-z]` and `[^a]` one byte of or not of a set, and `\` takes the next byte literally. A set
/// without its `]` reaches to the end of the pattern. Time is at most the product of both lengths.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut endless = u64::MAX;
    search(pattern, text, &mut endless) == Some(true)
}

/// Whether it matches; `None` if that is not known after so many steps, of which it leaves the
/// rest. A step is a byte of the text against a byte, or a set, of the pattern.
fn search(pattern: &[u8], text: &[u8], left: &mut u64) -> Option<bool> {
    if text.is_empty() {
        // Redis lets no other pattern match nothing, not even two stars.
        return Some(pattern.is_empty() || pattern == b"*");
    }
    let (mut at, mut seen) = (0, 0);
    // Where to go on after the last star if what follows it does not match here. Only the last
    // star ever needs to give way: what an earlier one could take, the last one can take too.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        // A star at the end takes all that is left.
        if retry == Some((pattern.len(), seen)) {
            return Some(true);
        }
        *left = left.checked_sub(1)?;
        if at < pattern.len() && pattern[at] == b'*' {
            at += 1;
            retry = Some((at, seen));
            continue;
        }
        if seen == text.len() {
            return Some(at == pattern.len());
        }
        let step = if at < pattern.len() { one(&pattern[at..], text[seen], left)? } else { None };
        if let Some(length) = step {
            at += length;
            seen += 1;
            continue;
        }
        let Some((after, from)) = retry else { return Some(false) };
        (at, seen) = (after, from + 1);
        retry = Some((after, from + 1));
    }
}

/// How many bytes of the pattern match this byte, if they do. The outer `None` is the end of the
/// steps.
fn one(pattern: &[u8], byte: u8, left: &mut u64) -> Option<Option<usize>> {
    Some(match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (found, length) = class(set, byte);
            *left = left.checked_sub(length as u64)?;
            found.then_some(length + 1)
        }
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    })
}

/// Whether the byte is in the set (or not, for a negated one), and how long it is up to and with
/// its `]`.
fn class(set: &[u8], byte: u8) -> (bool, usize) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &set[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn matches_as_redis_does() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("**", "", false),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("[abc", "b", true),
            ("[", "[", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*a", "aaa", true),
            ("[\\]]", "]", true),
            ("**a**", "bab", true),
            ("\\", "\\", true),
            ("a?", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(40) + "b";
        let text: String = "a".repeat(20_000);
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
