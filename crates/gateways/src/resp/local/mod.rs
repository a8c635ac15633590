//! Commands that concern the connection or the gateway, and are answered here.

mod catalogue;
mod client;
mod info;
mod session;

pub(crate) use session::Session;

use super::encoder::Encoder;
use super::server::Shared;
use pentarchy_services::kv::{CommandInfo, Error, registry::Keys};

type Run = fn(&mut Session, &Shared, &[&[u8]], &mut Encoder<'_>);

/// A command that is answered here.
pub(crate) struct Entry {
    pub info: CommandInfo,
    pub run: Run,
}

const fn entry(name: &'static str, arity: i8, run: Run, summary: &'static str) -> Entry {
    Entry {
        info: CommandInfo {
            name,
            arity,
            flags: &["loading", "stale", "fast"],
            keys: Keys { first: 0, last: 0, step: 0 },
            group: "connection",
            since: "1.0.0",
            summary,
        },
        run,
    }
}

/// All of them, by name.
static TABLE: &[Entry] = &[
    entry("auth", -2, session::auth, "Refused: the gateway asks for no password"),
    entry("client", -2, client::client, "Names and describes connections"),
    entry("command", -1, catalogue::command, "Describes the commands"),
    entry("config", -2, info::config, "Returns settings of the gateway"),
    entry("echo", 2, session::echo, "Returns its argument"),
    entry("hello", -1, session::hello, "Chooses the version of the protocol"),
    entry("info", -1, info::info, "Describes the gateway"),
    entry("ping", -1, session::ping, "Returns PONG, or its argument"),
    entry("quit", -1, session::quit, "Closes the connection"),
    entry("reset", 1, session::reset, "Brings the connection to its initial state"),
    entry("select", 2, session::select, "Chooses database 0, the only one"),
];

/// The command of this name, in whatever case.
pub(crate) fn lookup(name: &[u8]) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| name.eq_ignore_ascii_case(entry.info.name.as_bytes()))
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

fn fail(out: &mut Encoder<'_>, error: &Error) {
    out.error(&error.to_string());
}

/// A command has no such subcommand. `command` in capitals.
fn unknown_subcommand(out: &mut Encoder<'_>, command: &str, word: &[u8]) {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    fail(out, &Error::other(format!("unknown subcommand '{word}'. Try {command} HELP.")));
}

/// Runs a subcommand if its words can be right: as many as `arity`, or at least as many if it is
/// negative, both names among them.
fn with_arity(
    args: &[&[u8]],
    arity: i8,
    name: &str,
    out: &mut Encoder<'_>,
    run: impl FnOnce(&mut Encoder<'_>),
) {
    let wanted = usize::from(arity.unsigned_abs());
    let right = if arity < 0 { args.len() >= wanted } else { args.len() == wanted };
    if right { run(out) } else { fail(out, &Error::wrong_arity(name)) }
}
