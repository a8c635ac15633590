//! How long each test took, and how many passed.

use std::fmt;

/// A test that has ended, well or not.
pub struct Time {
    name: String,
    seconds: f32,
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7.2} s  {}", self.seconds, self.name)
    }
}

/// The times in what a program of tests prints.
pub fn times(program: &str, text: &str) -> Vec<Time> {
    let time = |line: &str| {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let (_, seconds) = rest.trim_end().strip_suffix("s>")?.rsplit_once('<')?;
        Some(Time { name: format!("{program} {name}"), seconds: seconds.parse().ok()? })
    };
    text.lines().filter_map(time).collect()
}

/// How many tests passed and failed, as their program says at its end.
pub fn counts(text: &str) -> (usize, usize) {
    let result = text.lines().rev().find(|line| line.starts_with("test result: "));
    let of = |what: &str| {
        let (before, _) = result?.split_once(what)?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    (of("passed;").unwrap_or(0), of("failed;").unwrap_or(0))
}

/// The slowest of them.
pub fn slowest(all: &mut [Time], count: usize) -> impl Iterator<Item = &Time> {
    all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    all.iter().take(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_tests_are_named_first() {
        let text = "running 3 tests\ntest a::b ... ok <0.250s>\ntest c ... ignored\n\
                    test d ... FAILED <3.500s>\n\ntest result: FAILED. 1 passed; 1 failed\n";
        let ended = text.replace("1 failed", "12 failed; 1 ignored; 0 measured");
        assert_eq!((counts(&ended), counts("")), ((1, 12), (0, 0)));
        let mut all = times("core/it", text);
        let named: Vec<String> = slowest(&mut all, 9).map(ToString::to_string).collect();
        assert_eq!(named, ["   3.50 s  core/it d", "   0.25 s  core/it a::b"]);
    }
}
