//! The table of commands: what there is, how it is called, and what runs it.

use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::store::Store;
use super::table::TABLE;
use pentarchy_core::service::Context;

/// What is known of a command beside its code. A gateway shows it to clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandInfo {
    /// In lower case.
    pub name: &'static str,
    /// Words with the name; negative if that is the least.
    pub arity: i8,
    /// As Redis names them.
    pub flags: &'static [&'static str],
    /// Where the keys stand among the words.
    pub keys: Keys,
    /// As Redis groups commands.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does.
    pub summary: &'static str,
}

/// Where the keys stand among a command's words; all 0 if there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keys {
    /// The first key.
    pub first: i8,
    /// The last key; -1 is the last word.
    pub last: i8,
    /// From one key to the next.
    pub step: i8,
}

impl CommandInfo {
    /// Whether so many words, the name among them, can be this command.
    #[must_use]
    pub const fn takes(&self, words: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= arity } else { words == arity }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.flags.contains(&"readonly")
    }

    /// Where the key of the collection stands to which the command adds elements, if it adds to one
    /// that is there and does not put another in its place.
    #[must_use]
    pub fn grown(&self) -> Option<usize> {
        let Keys { first, last, step } = self.keys;
        match (self.group, (first, last, step)) {
            ("list" | "hash" | "set" | "sorted-set", (1, 1, 1)) => Some(1),
            ("list", (1, 2, 1)) => Some(2),
            _ => None,
        }
    }

    /// The keys among a command's words.
    pub fn keys_of<'a, 'b>(&self, words: &'b [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> + 'b {
        let at = |index: i8| {
            usize::try_from(index)
                .unwrap_or(words.len().saturating_sub(index.unsigned_abs().into()))
        };
        let end = words.len().min(at(self.keys.last) + 1);
        let start = at(self.keys.first).min(end);
        let range = if self.keys.first == 0 { 0..0 } else { start..end };
        words[range].iter().step_by(at(self.keys.step).max(1)).copied()
    }
}

type Read = fn(&Store, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;
type Write = fn(&mut Store, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;
type Taken = fn(&mut Store, &Context, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;
type Drawn = fn(&Store, &Context, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;

/// What runs a command. Its kind says what the command can do, whatever its flags say.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Looks at the state.
    Read(Read),
    /// May change the state.
    Write(Write),
    /// May change the state, and make it larger.
    Grow(Write),
    /// Looks at the state, and at what only an ordered operation has.
    Drawn(Drawn),
    /// May change the state, by what only an ordered operation has.
    Taken(Taken),
}

/// A command.
pub(crate) struct Entry {
    pub info: CommandInfo,
    pub handler: Handler,
}

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
