//! What replicas of each protocol say to each other and keep, byte for byte, in
//! `tests/golden/<protocol>.txt`. The messages and the records are those of a group in memory.
//! Later on they need not be the same there: what is asked is that the golden bytes are read as
//! what they were, and that the same bytes are written of that. `UPDATE=1` takes the present ones;
//! review that as a diff.
//!
//! | line | what |
//! | --- | --- |
//! | `message KIND STATEMENT BYTES TEXT` | the first message of a kind, and what it says in short |
//! | `record FIRST BYTES` | the first record that begins so |
//! | `log BYTES` | what one replica kept through a view change, in order |
//! | `resumes TEXT` | where a replica stands that starts with this log |
//! | `says KIND STATEMENT` | what it says first |
//!
//! A statement is a digest; it is zero if only the channel vouches for the message. Of such a
//! message the text shows what is read, as far as it goes. Kinds that this group never says are not
//! there: lies, and what clients say.

mod group;

use group::{Group, of_group, restarted};
use pentarchy_core::Bytes;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::digest::Digest;
use pentarchy_protocols::{Descriptor, PROTOCOLS};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

/// What the files begin with.
const HEAD: &str = "\
# Messages and records of this protocol. The test `golden` of this crate reads them, and UPDATE=1
# has them written anew. A line that changes is another format, or another group in memory. Runs of
# at least 16 equal bytes are written as (COUNTxBYTE).
";

/// Equal bytes that are written as their number.
const RUN_MIN: usize = 16;

/// Those that users may run, and several of them side by side.
fn protocols() -> impl Iterator<Item = &'static Descriptor> {
    PROTOCOLS.iter().copied().filter(|it| it.is_for_users() || it.rules.pillars)
}

fn path(protocol: &Descriptor) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(protocol.rules.name).with_extension("txt")
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|one, other| one == other) {
        let byte = format!("{:02x}", run[0]);
        text.push_str(&match run.len() {
            count if count >= RUN_MIN => format!("({count}x{byte})"),
            count => byte.repeat(count),
        });
    }
    text
}

fn unhex(text: &str) -> Option<Bytes> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).ok();
    let (mut bytes, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        if let Some(run) = rest.strip_prefix('(') {
            let (run, after) = run.split_once(')')?;
            let (count, digits) = run.split_once('x')?;
            bytes.resize(bytes.len() + usize::from(count.parse::<u16>().ok()?), byte(digits)?);
            rest = after;
        } else {
            bytes.push(byte(rest.get(..2)?)?);
            rest = &rest[2..];
        }
    }
    Some(bytes.into())
}

/// What a record begins with: its kind, and which pillar's it is.
fn first(protocol: &Descriptor, record: &Bytes) -> String {
    hex(&record[..if protocol.rules.pillars { 2 } else { 1 }])
}

/// The file as the group in memory makes it now.
fn text(protocol: &'static Descriptor) -> String {
    let group = Group::that_talks(protocol);
    let core = of_group(protocol);
    let mut text = HEAD.to_owned();
    for (kind, outgoing) in &group.said {
        let (statement, body) = (hex(&outgoing.digest.0), hex(&outgoing.body));
        let says = core.describe(&core.seal(outgoing, AuthTag::Channel).1);
        writeln!(text, "message {kind} {statement} {body} {says}").expect("memory has room");
    }
    let mut known = BTreeSet::new();
    for record in group.records() {
        let first = first(protocol, record);
        if known.insert(first.clone()) {
            writeln!(text, "record {first} {}", hex(record)).expect("memory has room");
        }
    }
    let log = Group::log_of_one(protocol);
    for record in &log {
        writeln!(text, "log {}", hex(record)).expect("memory has room");
    }
    resumed(protocol, &log).iter().for_each(|line| text.extend([line, "\n"]));
    text
}

/// How a replica goes on that starts with this log, as lines of a file.
fn resumed(protocol: &Descriptor, log: &[Bytes]) -> Vec<String> {
    let (status, said) = restarted(protocol, log);
    let (view, committed) = (status.view, status.committed);
    let says = said.iter().map(|it| format!("says {} {}", it.kind, hex(&it.digest.0)));
    [format!("resumes {} in {view}, {committed}", status.phase)].into_iter().chain(says).collect()
}

/// Names each line that this program reads or writes otherwise.
fn problems(protocol: &'static Descriptor, text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let problem = |line: &str| {
        let name: String = line.chars().take(30).collect();
        line_problem(protocol, line).map(|problem| format!("{name}: {problem}"))
    };
    lines.filter_map(problem).chain(log_problem(protocol, text)).collect()
}

/// What is wrong with one line.
fn line_problem(protocol: &'static Descriptor, line: &str) -> Option<String> {
    match line.splitn(5, ' ').collect::<Vec<_>>()[..] {
        ["message", kind, statement, body, says] => {
            message_problem(protocol, kind, (statement, body, says))
        }
        ["record", first, bytes] => record_problem(protocol, first, bytes),
        ["log", bytes] if unhex(bytes).is_some() => None,
        ["resumes" | "says", ..] => None,
        _ => Some("this is no line of such a file".to_owned()),
    }
}

/// What is wrong with the log, all together.
fn log_problem(protocol: &Descriptor, text: &str) -> Option<String> {
    let log: Vec<Bytes> =
        text.lines().filter_map(|line| unhex(line.strip_prefix("log ")?)).collect();
    if log.is_empty() || (protocol.check_records)(&log).is_err() {
        return Some("log: it is not there, or not read".to_owned());
    }
    let is_said = |line: &&str| ["resumes ", "says "].iter().any(|it| line.starts_with(it));
    let (now, golden) = (resumed(protocol, &log), text.lines().filter(is_said));
    let goes_on = now.join(", ");
    (!golden.eq(now))
        .then(|| format!("log: a replica that starts with it now goes on so: {goes_on}"))
}

fn message_problem(
    protocol: &'static Descriptor,
    kind: &str,
    (statement, body, says): (&str, &str, &str),
) -> Option<String> {
    let core = of_group(protocol);
    let body = unhex(body).unwrap_or_default();
    let Some(read) = core.compose(&body) else { return Some("it is not read".to_owned()) };
    if read.body != body {
        return Some("it is written in other bytes".to_owned());
    }
    let said = core.describe(&core.seal(&read, AuthTag::Channel).1);
    let is_same = (read.kind, &*hex(&read.digest.0), &*said) == (kind, statement, says);
    (!is_same).then(|| format!("it is read as {} {said}, or has another statement", read.kind))
}

fn record_problem(protocol: &'static Descriptor, first: &str, bytes: &str) -> Option<String> {
    let record = unhex(bytes).unwrap_or_default();
    let is_read = |record: Bytes| (protocol.check_records)(&[record]).is_ok();
    let shorter = record.slice(..record.len().saturating_sub(1));
    let longer = Bytes::from([&record[..], &[0]].concat());
    let is_whole = is_read(record.clone()) && !is_read(shorter) && !is_read(longer);
    if is_whole && self::first(protocol, &record) == first {
        return None;
    }
    Some("it is not read, or not to its end".to_owned())
}

/// The names of a file's messages and records.
fn names(text: &str) -> BTreeSet<String> {
    let named =
        text.lines().filter(|line| ["message ", "record "].iter().any(|it| line.starts_with(it)));
    named.map(|line| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn messages_and_records_of_each_protocol_are_read_and_written_as_in_the_golden_files() {
    let mut wrong = Vec::new();
    for protocol in protocols() {
        let (path, made) = (path(protocol), text(protocol));
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        if found != made && std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &made).expect("the golden file can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        let mut problems = problems(protocol, &golden);
        let (golden, made) = (names(&golden), names(&made));
        let unsaid = golden.difference(&made).map(|it| format!("{it}: nobody says it any more"));
        let unknown = made.difference(&golden).map(|it| format!("{it}: without a golden line"));
        problems.extend(unsaid.chain(unknown));
        wrong.extend(problems.iter().map(|problem| format!("{}: {problem}", path.display())));
    }
    let what = "another format, or UPDATE=1 is missing";
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    let folder = std::fs::read_dir(path(PROTOCOLS[0]).with_file_name("")).expect("the folder");
    let there: BTreeSet<PathBuf> = folder.map(|file| file.expect("a file").path()).collect();
    assert_eq!(there, protocols().map(path).collect(), "one file for each protocol");
}

/// What a line could be instead.
fn altered(line: &str) -> Vec<String> {
    match line.splitn(5, ' ').collect::<Vec<_>>()[..] {
        ["message", kind, statement, body, says] => {
            let other = hex(&Digest::of(statement.as_bytes()).0);
            let cut = body.strip_suffix(|c: char| c.is_ascii_hexdigit()).unwrap_or("");
            vec![
                format!("message another {statement} {body} {says}"),
                format!("message {kind} {other} {body} {says}"),
                format!("message {kind} {statement} {body}00 {says}"),
                format!("message {kind} {statement} {cut} {says}"),
                format!("message {kind} {statement} {body} another"),
            ]
        }
        ["record", first, bytes] => {
            vec![format!("record {first} {bytes}00"), format!("record {first} ff")]
        }
        ["log", bytes] => vec![format!("log {bytes}00")],
        _ => vec!["says something".to_owned()],
    }
}

#[test]
fn what_is_altered_in_a_golden_file_is_found() {
    for protocol in protocols() {
        let whole = text(protocol);
        assert_eq!(problems(protocol, &whole), [""; 0]);
        let lines: Vec<&str> = whole.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            for instead in altered(line) {
                let is_found = line_problem(protocol, &instead).is_some() || {
                    let text = [&lines[..at], &[&*instead], &lines[at + 1..]].concat().join("\n");
                    log_problem(protocol, &text).is_some()
                };
                assert!(is_found, "{}: {instead:.90}", protocol.rules.name);
            }
        }
    }
}
