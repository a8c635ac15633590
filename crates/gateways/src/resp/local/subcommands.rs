//! The subcommands of commands that have any, and how many words each takes: looked up before
//! anything is done or queued, so that a transaction with one that cannot be right is not executed.

use pentarchy_services::kv::Error;

/// A command, its subcommand, and its words: so many, or at least as many if it is negative, both
/// names among them.
type Subcommand = (&'static str, &'static str, i8);

const TABLE: &[Subcommand] = &[
    ("client", "caching", -2),
    ("client", "getname", 2),
    ("client", "getredir", 2),
    ("client", "id", 2),
    ("client", "info", 2),
    ("client", "kill", -3),
    ("client", "list", -2),
    ("client", "no-evict", 3),
    ("client", "no-loop", -2),
    ("client", "no-touch", 3),
    ("client", "pause", -2),
    ("client", "reply", 3),
    ("client", "setinfo", 4),
    ("client", "setname", 3),
    ("client", "tracking", -2),
    ("client", "trackinginfo", -2),
    ("client", "unblock", -2),
    ("client", "unpause", 2),
    ("command", "count", 2),
    ("command", "docs", -2),
    ("command", "info", -2),
    ("command", "list", -2),
    ("config", "get", -3),
    ("config", "resetstat", -2),
    ("config", "rewrite", -2),
    ("config", "set", -2),
    ("latency", "history", -2),
    ("latency", "latest", -2),
    ("latency", "reset", -2),
    ("memory", "doctor", -2),
    ("memory", "malloc-stats", -2),
    ("memory", "purge", -2),
    ("memory", "stats", -2),
    ("memory", "usage", -2),
    ("object", "encoding", 3),
    ("object", "freq", 3),
    ("object", "idletime", 3),
    ("object", "refcount", 3),
    ("pubsub", "channels", -2),
    ("pubsub", "numpat", 2),
    ("pubsub", "numsub", -2),
    ("sentinel", "get-master-addr-by-name", 3),
    ("sentinel", "master", 3),
    ("sentinel", "masters", 2),
    ("sentinel", "replicas", 3),
    ("sentinel", "sentinels", 3),
    ("sentinel", "slaves", 3),
    ("slowlog", "get", -2),
    ("slowlog", "len", -2),
    ("slowlog", "reset", -2),
];

/// Checks a subcommand, if the command has any and one is named.
///
/// # Errors
/// Redis's, if there is no such subcommand or it takes another number of words.
pub fn check(args: &[&[u8]]) -> Result<(), Error> {
    let [command, word, ..] = args else { return Ok(()) };
    let is = |name: &str, word: &[u8]| word.eq_ignore_ascii_case(name.as_bytes());
    let mut known = TABLE.iter().filter(|(name, ..)| is(name, command)).peekable();
    let Some((command, ..)) = known.peek().copied() else { return Ok(()) };
    let Some((_, name, arity)) = known.find(|(_, name, _)| is(name, word)) else {
        let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
        let command = command.to_ascii_uppercase();
        let line = format!("unknown subcommand '{word}'. Try {command} HELP.");
        return Err(Error::other(line));
    };
    let wanted = usize::from(arity.unsigned_abs());
    let right = if *arity < 0 { args.len() >= wanted } else { args.len() == wanted };
    if right { Ok(()) } else { Err(Error::wrong_arity(&format!("{command}|{name}"))) }
}
