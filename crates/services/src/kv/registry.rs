//! The table of commands: what there is, how it is called, and what runs it.

use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::store::Store;
use super::{keys, lists, scan, strings};
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

    /// The keys among a command's words.
    pub fn keys_of<'a, 'b>(&self, words: &'b [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> + 'b {
        let at = |index: i8| usize::try_from(index).unwrap_or(words.len().saturating_sub(1));
        let end = words.len().min(at(self.keys.last) + 1);
        let start = at(self.keys.first).min(end);
        let range = if self.keys.first == 0 { 0..0 } else { start..end };
        words[range].iter().step_by(at(self.keys.step).max(1)).copied()
    }
}

type Read = fn(&Store, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;
type Write = fn(&mut Store, &Args<'_>, &mut ReplyWriter) -> Result<(), Error>;
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
}

/// A command.
pub(crate) struct Entry {
    pub info: CommandInfo,
    pub handler: Handler,
}

const fn keys_at(first: i8, last: i8, step: i8) -> Keys {
    Keys { first, last, step }
}

macro_rules! commands {
    ($($name:literal $arity:literal $kind:ident $handler:path, [$($flag:literal)*]
       ($first:literal $last:literal $step:literal) $group:literal $since:literal
       $summary:literal;)*) => {
        &[$(Entry {
            info: CommandInfo {
                name: $name,
                arity: $arity,
                flags: commands!(@flags $kind $($flag)*),
                keys: keys_at($first, $last, $step),
                group: $group,
                since: $since,
                summary: $summary,
            },
            handler: Handler::$kind($handler),
        }),*]
    };
    (@flags Read $($flag:literal)*) => { &["readonly", $($flag),*] };
    (@flags Drawn $($flag:literal)*) => { &["readonly", $($flag),*] };
    (@flags Write $($flag:literal)*) => { &["write", $($flag),*] };
    (@flags Grow $($flag:literal)*) => { &["write", "denyoom", $($flag),*] };
}

/// All commands, by name.
static TABLE: &[Entry] = commands![
    "append" 3 Grow strings::append, ["fast"] (1 1 1)
        "string" "2.0.0" "Appends a string to the value of a key";
    "copy" -3 Grow keys::copy, [] (1 2 1)
        "generic" "6.2.0" "Copies the value of a key to another key";
    "dbsize" 1 Read keys::dbsize, ["fast"] (0 0 0)
        "server" "1.0.0" "Counts the keys";
    "decr" 2 Grow strings::decr, ["fast"] (1 1 1)
        "string" "1.0.0" "Takes one from the integer value of a key";
    "decrby" 3 Grow strings::decrby, ["fast"] (1 1 1)
        "string" "1.0.0" "Takes a number from the integer value of a key";
    "del" -2 Write keys::del, [] (1 -1 1)
        "generic" "1.0.0" "Deletes keys";
    "exists" -2 Read keys::exists, ["fast"] (1 -1 1)
        "generic" "1.0.0" "Counts which of the given keys exist";
    "flushall" -1 Write keys::flush, [] (0 0 0)
        "server" "1.0.0" "Deletes all keys";
    "flushdb" -1 Write keys::flush, [] (0 0 0)
        "server" "1.0.0" "Deletes all keys";
    "get" 2 Read strings::get, ["fast"] (1 1 1)
        "string" "1.0.0" "Returns the string value of a key";
    "getdel" 2 Write strings::getdel, ["fast"] (1 1 1)
        "string" "6.2.0" "Returns the string value of a key and deletes the key";
    "getrange" 4 Read strings::getrange, [] (1 1 1)
        "string" "2.4.0" "Returns a part of the string value of a key";
    "getset" 3 Grow strings::getset, ["fast"] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key and returns the one before";
    "incr" 2 Grow strings::incr, ["fast"] (1 1 1)
        "string" "1.0.0" "Adds one to the integer value of a key";
    "incrby" 3 Grow strings::incrby, ["fast"] (1 1 1)
        "string" "1.0.0" "Adds a number to the integer value of a key";
    "keys" 2 Read keys::keys, [] (0 0 0)
        "generic" "1.0.0" "Returns the keys that match a pattern";
    "lindex" 3 Read lists::lindex, [] (1 1 1)
        "list" "1.0.0" "Returns an element of a list by its index";
    "linsert" 5 Grow lists::linsert, [] (1 1 1)
        "list" "2.2.0" "Inserts an element before or after another one";
    "llen" 2 Read lists::llen, ["fast"] (1 1 1)
        "list" "1.0.0" "Returns the length of a list";
    "lmove" 5 Grow lists::lmove, [] (1 2 1)
        "list" "6.2.0" "Moves an element from an end of one list to an end of another";
    "lpop" -2 Write lists::lpop, ["fast"] (1 1 1)
        "list" "1.0.0" "Removes and returns the first elements of a list";
    "lpush" -3 Grow lists::lpush, ["fast"] (1 1 1)
        "list" "1.0.0" "Puts elements before a list, which is created if need be";
    "lpushx" -3 Grow lists::lpushx, ["fast"] (1 1 1)
        "list" "2.2.0" "Puts elements before a list that exists";
    "lrange" 4 Read lists::lrange, [] (1 1 1)
        "list" "1.0.0" "Returns a range of elements of a list";
    "lrem" 4 Write lists::lrem, [] (1 1 1)
        "list" "1.0.0" "Removes elements of a list by their value";
    "lset" 4 Grow lists::lset, [] (1 1 1)
        "list" "1.0.0" "Sets an element of a list by its index";
    "ltrim" 4 Write lists::ltrim, [] (1 1 1)
        "list" "1.0.0" "Removes the elements of a list outside a range";
    "mget" -2 Read strings::mget, ["fast"] (1 -1 1)
        "string" "1.0.0" "Returns the string values of keys";
    "mset" -3 Grow strings::mset, [] (1 -1 2)
        "string" "1.0.1" "Sets the string values of keys, all at once";
    "msetnx" -3 Grow strings::msetnx, [] (1 -1 2)
        "string" "1.0.1" "Sets the string values of keys if none of them exists";
    "randomkey" 1 Drawn keys::randomkey, [] (0 0 0)
        "generic" "1.0.0" "Returns some key";
    "rename" 3 Write keys::rename, [] (1 2 1)
        "generic" "1.0.0" "Renames a key, over another one if need be";
    "renamenx" 3 Write keys::renamenx, ["fast"] (1 2 1)
        "generic" "1.0.0" "Renames a key if the new name is free";
    "rpop" -2 Write lists::rpop, ["fast"] (1 1 1)
        "list" "1.0.0" "Removes and returns the last elements of a list";
    "rpoplpush" 3 Grow lists::rpoplpush, [] (1 2 1)
        "list" "1.2.0" "Moves the last element of a list before another list";
    "rpush" -3 Grow lists::rpush, ["fast"] (1 1 1)
        "list" "1.0.0" "Puts elements behind a list, which is created if need be";
    "rpushx" -3 Grow lists::rpushx, ["fast"] (1 1 1)
        "list" "2.2.0" "Puts elements behind a list that exists";
    "scan" -2 Read scan::scan, [] (0 0 0)
        "generic" "2.8.0" "Walks all keys, some at a time";
    "set" -3 Grow strings::set, [] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key, whatever it held";
    "setnx" 3 Grow strings::setnx, ["fast"] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key that does not exist";
    "setrange" 4 Grow strings::setrange, [] (1 1 1)
        "string" "2.2.0" "Overwrites a part of the string value of a key";
    "strlen" 2 Read strings::strlen, ["fast"] (1 1 1)
        "string" "2.2.0" "Returns the length of the string value of a key";
    "touch" -2 Read keys::exists, ["fast"] (1 -1 1)
        "generic" "3.2.1" "Counts which of the given keys exist";
    "type" 2 Read keys::type_of, ["fast"] (1 1 1)
        "generic" "1.0.0" "Returns the type of the value of a key";
    "unlink" -2 Write keys::del, ["fast"] (1 -1 1)
        "generic" "4.0.0" "Deletes keys";
];

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
    entry(name).map(|entry| &entry.info)
}

/// All commands, by name.
pub fn all() -> impl ExactSizeIterator<Item = &'static CommandInfo> {
    TABLE.iter().map(|entry| &entry.info)
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
