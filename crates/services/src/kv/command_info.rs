//! What is known of a command, and what runs it.

use super::command::Args;
use super::error::Error;
use super::reply::ReplyWriter;
use super::store::Store;
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
