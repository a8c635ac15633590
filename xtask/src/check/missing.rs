//! Tests that need a program or a right which is not here: they fail with a word for it, and are
//! left out and listed instead.

/// What such a test begins its last words with; the rest of the line says what it needs.
const MARK: &str = "MISSING HERE: ";

/// What came of looking for it.
pub struct Missing {
    /// Whether no test failed for another reason.
    pub explains_all: bool,
    /// What was needed, and by which test.
    pub left_out: Vec<(String, String)>,
}

/// Reads what a program of tests printed.
pub fn missing(text: &str) -> Missing {
    let sections = text.split("\n---- ").skip(1);
    let (mut left_out, mut explains_all) = (Vec::new(), true);
    for section in sections {
        let Some((name, said)) = section.split_once(" stdout ----\n") else { continue };
        match said.lines().find_map(|line| line.split_once(MARK)) {
            Some((_, needed)) => left_out.push((needed.to_owned(), name.to_owned())),
            None => explains_all = false,
        }
    }
    // A program that fails without naming a test was killed, or does not even start.
    explains_all &= !left_out.is_empty();
    Missing { explains_all, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &str, said: &str) -> String {
        format!("\n---- {name} stdout ----\nthread '{name}' panicked at a.rs:1:2:\n{said}\n")
    }

    #[test]
    fn a_test_that_lacks_something_is_left_out_and_named() {
        let needed = "MISSING HERE: redis-cli (redis-tools)";
        let text = format!("\nfailures:\n{}", section("a::b", needed));
        let found = missing(&text);
        assert_eq!(found.left_out, [("redis-cli (redis-tools)".to_owned(), "a::b".to_owned())]);
        assert!(found.explains_all);
    }

    #[test]
    fn a_test_that_fails_is_not_excused_by_another() {
        let needed = section("a", "MISSING HERE: nft (nftables)");
        let found = missing(&format!("\nfailures:\n{needed}{}", section("b", "left: 1")));
        assert!(!found.explains_all && found.left_out.len() == 1);
        assert!(!missing("signal: 9").explains_all);
    }
}
