//! All commands, by name.

use super::command_info::{CommandInfo, Entry};
use super::table::TABLE;

/// Longer than every name.
const NAME_BYTES_MAX: usize = 16;

/// The command of this name, in whatever case.
pub(crate) fn entry(name: &[u8]) -> Option<&'static Entry> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let found = TABLE.binary_search_by(|entry| entry.info.name.as_bytes().cmp(lower));
    found.ok().map(|index| &TABLE[index])
}

/// What is known of the command of this name, in whatever case.
#[must_use]
pub fn lookup(name: &[u8]) -> Option<&'static CommandInfo> {
    let special = || super::session::entry(name).map(|entry| &entry.info);
    entry(name).map(|entry| &entry.info).or_else(special)
}

/// All commands, those of [`super::session`] last.
pub fn all() -> impl Iterator<Item = &'static CommandInfo> {
    TABLE.iter().map(|entry| &entry.info).chain(super::session::all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_table_is_sorted_and_every_name_is_found_in_any_case() {
        assert!(TABLE.is_sorted_by(|a, b| a.info.name < b.info.name));
        for info in all() {
            assert_eq!(lookup(info.name.to_ascii_uppercase().as_bytes()), Some(info));
        }
        assert_eq!(lookup(b"a name that is longer than all others"), None);
        assert_eq!(lookup(b""), None);
    }

    #[test]
    fn keys_are_found_among_the_words() {
        let keys = |words: &[&'static str]| -> Vec<&[u8]> {
            let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
            lookup(words[0]).unwrap().keys_of(&words).collect()
        };
        assert_eq!(keys(&["get", "a"]), [b"a"]);
        assert_eq!(keys(&["mset", "a", "1", "b", "2"]), [b"a", b"b"]);
        assert_eq!(keys(&["del", "a", "b", "c"]), [b"a", b"b", b"c"]);
        assert_eq!(keys(&["lmove", "a", "b", "left", "right"]), [b"a", b"b"]);
        assert_eq!(keys(&["scan", "0"]), Vec::<&[u8]>::new());
        assert_eq!(keys(&["copy", "a"]), [b"a"], "too few words are no panic");
    }
}
