//! Commands that concern the connection or the gateway, and are answered here.

mod auth;
mod catalogue;
mod client;
mod info;
mod refused;
mod sentinel;
mod session;
mod subcommands;

pub(crate) use session::{Queued, Session, Transaction};
pub(crate) use subcommands::check as check_subcommand;

use super::encoder::Encoder;
use super::shared::Shared;
use pentarchy_services::kv::session::Topic;
use pentarchy_services::kv::{CommandInfo, Error, command_info::Keys};

type RunHere = fn(&mut Session, &Shared, &[&[u8]], &mut Encoder<'_>);

/// What is done with a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Answered at once.
    Here(RunHere),
    /// Concerns what the connection has under way.
    Special(Special),
}

/// A command that concerns what a connection has under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Special {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    /// Begins (`true`) or ends subscriptions.
    Subscribe(Topic, bool),
    Reset,
}

/// A command that is answered here.
pub(crate) struct Entry {
    pub info: CommandInfo,
    pub run: Run,
    /// Also before the client has said its password.
    pub open: bool,
    /// Also while a version 2 connection is subscribed.
    pub subscribed: bool,
    /// Also in a transaction.
    pub transacted: bool,
}

const fn entry_of(name: &'static str, arity: i8, run: Run, summary: &'static str) -> Entry {
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
        open: false,
        subscribed: false,
        transacted: true,
    }
}

const fn here(name: &'static str, arity: i8, run: RunHere, summary: &'static str) -> Entry {
    entry_of(name, arity, Run::Here(run), summary)
}

const fn special(
    name: &'static str,
    arity: i8,
    run: Special,
    group: &'static str,
    summary: &'static str,
) -> Entry {
    let mut entry = entry_of(name, arity, Run::Special(run), summary);
    entry.info.group = group;
    entry.subscribed = matches!(run, Special::Subscribe(..) | Special::Reset);
    entry.open = matches!(run, Special::Reset);
    if matches!(run, Special::Watch) {
        entry.info.keys = Keys { first: 1, last: -1, step: 1 };
    }
    entry
}

/// Also before the client has said its password; not in a transaction.
const fn open(mut entry: Entry) -> Entry {
    entry.open = true;
    entry.transacted = false;
    entry
}

const fn subscribed(mut entry: Entry) -> Entry {
    entry.subscribed = true;
    entry
}

const fn subscription(
    name: &'static str,
    arity: i8,
    (topic, begins): (Topic, bool),
    summary: &'static str,
) -> Entry {
    special(name, arity, Special::Subscribe(topic, begins), "pubsub", summary)
}

const TRANSACTIONS: &str = "transactions";

/// All of them, by name.
static TABLE: &[Entry] = &[
    open(here("auth", -2, auth::auth, "Says the password")),
    here("client", -2, client::client, "Names and describes connections"),
    here("command", -1, catalogue::command, "Describes the commands"),
    here("config", -2, info::config, "Returns settings of the gateway"),
    here("debug", -2, refused::debug, "Refused"),
    special("discard", 1, Special::Discard, TRANSACTIONS, "Gives up a transaction"),
    here("echo", 2, session::echo, "Returns its argument"),
    special("exec", 1, Special::Exec, TRANSACTIONS, "Executes a transaction"),
    open(here("hello", -1, auth::hello, "Chooses the version of the protocol")),
    here("info", -1, info::info, "Describes the gateway"),
    here("latency", -2, refused::latency, "Has nothing to tell: no latencies are kept"),
    here("memory", -2, refused::memory, "Has nothing to tell: memory is the replicas'"),
    special("multi", 1, Special::Multi, TRANSACTIONS, "Begins a transaction"),
    subscribed(here("ping", -1, session::ping, "Returns PONG, or its argument")),
    subscription("psubscribe", -2, (Topic::Pattern, true), "Subscribes to patterns"),
    subscription("punsubscribe", -1, (Topic::Pattern, false), "Ends subscriptions to patterns"),
    subscribed(open(here("quit", -1, session::quit, "Closes the connection"))),
    special("reset", 1, Special::Reset, "connection", "Begins the connection anew"),
    here("role", 1, sentinel::role, "Says that the gateway takes writes"),
    here("select", 2, session::select, "Chooses database 0, the only one"),
    here("sentinel", -2, sentinel::sentinel, "Names this gateway as one that serves"),
    here("shutdown", -1, refused::shutdown, "Refused"),
    here("slowlog", -2, refused::slowlog, "Has nothing to tell: no slow commands are kept"),
    subscription("subscribe", -2, (Topic::Channel, true), "Subscribes to channels"),
    subscription("unsubscribe", -1, (Topic::Channel, false), "Ends subscriptions to channels"),
    special("unwatch", 1, Special::Unwatch, TRANSACTIONS, "Forgets what is watched"),
    here("wait", 3, session::wait, "Tells how many replicas executed what was replied to"),
    special("watch", -2, Special::Watch, TRANSACTIONS, "Has EXEC fail if a key changes"),
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
