//! Patterns of `KEYS`, `SCAN` and `CONFIG GET`.

/// Whether `text` as a whole matches `pattern`: `*` is any run of bytes, `?` any one byte, `[abc]`,
/// `[a-z]` and `[^a]` one byte of or not of a set, and `\` takes the next byte literally. A set
/// without its `]` reaches to the end of the pattern. Time is at most the product of both lengths.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        // Redis lets no other pattern match nothing, not even two stars.
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut at, mut seen) = (0, 0);
    // Where to go on after the last star if what follows it does not match here. Only the last
    // star ever needs to give way: what an earlier one could take, the last one can take too.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if at < pattern.len() && pattern[at] == b'*' {
            at += 1;
            retry = Some((at, seen));
            continue;
        }
        if seen == text.len() {
            return at == pattern.len();
        }
        let step = if at < pattern.len() { one(&pattern[at..], text[seen]) } else { None };
        if let Some(length) = step {
            at += length;
            seen += 1;
            continue;
        }
        let Some((after, from)) = retry else { return false };
        (at, seen) = (after, from + 1);
        retry = Some((after, from + 1));
    }
}

/// How many bytes of the pattern match this byte, if they do.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => class(set, byte).map(|length| length + 1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// How long the set is up to and with its `]`, if the byte is in it (or not, for a negated one).
fn class(set: &[u8], byte: u8) -> Option<usize> {
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
    (found != negated).then_some(at)
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
