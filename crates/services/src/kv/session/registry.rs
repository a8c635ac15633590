//! Commands that concern the sessions, or need more than the keys.

use super::super::command_info::{CommandInfo, Keys};

/// What runs a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// See [`super::blocking`].
    Block,
    /// See [`super::pubsub`].
    Publish,
    /// See [`super::pubsub`].
    Pubsub,
    /// Tells the agreed time.
    Time,
    /// See [`super::once`].
    Once,
}

/// A command.
pub struct Entry {
    pub info: CommandInfo,
    pub run: Run,
}

const fn entry_of(
    name: &'static str,
    arity: i8,
    run: Run,
    (first, last): (i8, i8),
    since: &'static str,
    summary: &'static str,
) -> Entry {
    let (flags, group): (&[_], _) = match run {
        Run::Block => (&["write", "denyoom", "blocking"], "list"),
        Run::Publish => (&["pubsub", "loading", "stale", "fast"], "pubsub"),
        Run::Pubsub => (&["pubsub", "loading", "stale"], "pubsub"),
        Run::Time => (&["loading", "stale", "fast"], "server"),
        Run::Once => (&["write", "denyoom"], "generic"),
    };
    let keys = Keys { first, last, step: if first == 0 { 0 } else { 1 } };
    Entry { info: CommandInfo { name, arity, flags, keys, group, since, summary }, run }
}

/// All of them, by name.
static TABLE: &[Entry] = &[
    entry_of("blmove", 6, Run::Block, (1, 2), "6.2.0", "Moves an element, or waits for one"),
    entry_of("blmpop", -5, Run::Block, (0, 0), "7.0.0", "Pops elements, or waits for one"),
    entry_of("blpop", -3, Run::Block, (1, -2), "2.0.0", "Pops a first element, or waits for one"),
    entry_of("brpop", -3, Run::Block, (1, -2), "2.0.0", "Pops a last element, or waits for one"),
    entry_of("brpoplpush", 4, Run::Block, (1, 2), "2.2.0", "Moves an element, or waits for one"),
    entry_of("bzmpop", -5, Run::Block, (0, 0), "7.0.0", "Pops members, or waits for one"),
    entry_of("bzpopmax", -3, Run::Block, (1, -2), "5.0.0", "Pops a last member, or waits for one"),
    entry_of("bzpopmin", -3, Run::Block, (1, -2), "5.0.0", "Pops a first member, or waits for one"),
    entry_of("once", -4, Run::Once, (1, 1), "7.0.0", "Executes a command unless it was before"),
    entry_of("publish", 3, Run::Publish, (0, 0), "2.0.0", "Sends a message to a channel"),
    entry_of("pubsub", -2, Run::Pubsub, (0, 0), "2.8.0", "Describes channels and subscriptions"),
    entry_of("time", 1, Run::Time, (0, 0), "2.6.0", "Returns the agreed time"),
];

/// The command of this name, in whatever case.
pub fn entry(name: &[u8]) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| name.eq_ignore_ascii_case(entry.info.name.as_bytes()))
}

/// All of them, by name.
pub fn all() -> impl ExactSizeIterator<Item = &'static CommandInfo> {
    TABLE.iter().map(|entry| &entry.info)
}

/// Whether a command may wait.
#[must_use]
pub fn is_blocking(info: &CommandInfo) -> bool {
    info.flags.contains(&"blocking")
}
