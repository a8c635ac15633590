//! `log`: check and print a replica's log.

use super::args::{LogArgs, LogCommand};
use super::{look_into, print};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::folder::OsFolder;
use pentarchy_storage::kept::{LOG, describe};
use pentarchy_storage::log::{self, Record, Recovered};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;

/// What `log verify` found.
#[derive(Serialize)]
struct Verified {
    /// Whether all of it can be read.
    whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    first: u64,
    next: u64,
    groups: u64,
    segments: usize,
    bytes: u64,
    /// What an interrupted write left; nobody was told that it was durable.
    torn_bytes: u64,
}

/// A record, printed.
#[derive(Serialize)]
struct Line {
    number: u64,
    epoch: u64,
    kind: &'static str,
    text: String,
}

/// Runs the command.
pub fn run(args: &LogArgs) -> Outcome {
    match &args.command {
        LogCommand::Verify { data, json } => verify(data, *json),
        LogCommand::Dump { data, from, last, json } => dump(data, *from, *last, *json),
    }
}

/// Reads the log of a replica that does not run: of one that does, the end is being written.
fn read(data: &Path, show: impl FnMut(Record)) -> Outcome<Result<Recovered, StorageError>> {
    let folder = look_into(data, LOG)?;
    if OsFolder::is_in_use(data) {
        let what = "a replica uses this folder, and its log grows; stop that one first";
        return Err(Failure::Usage(format!("{}: {what}", data.display())));
    }
    Ok(log::read(&*folder, None, show))
}

fn verify(data: &Path, json: bool) -> Outcome {
    let mut unknown = None;
    let read = read(data, |record| {
        if describe(record.kind, &record.body).is_err() {
            unknown.get_or_insert(record.number);
        }
    })?;
    let problem = match (&read, unknown) {
        (Err(problem), _) => Some(problem.to_string()),
        (Ok(_), Some(number)) => Some(format!("this program does not know record {number}")),
        (Ok(_), None) => None,
    };
    let empty = Recovered { first: 0, next: 0, groups: 0, segments: 0, bytes: 0, torn_bytes: 0 };
    let Recovered { first, next, groups, segments, bytes, torn_bytes } = read.unwrap_or(empty);
    let whole = problem.is_none();
    let verified = Verified { whole, problem, first, next, groups, segments, bytes, torn_bytes };
    print(json, &verified, || match &verified.problem {
        Some(problem) => format!("{}: {problem}", data.display()),
        None => format!(
            "{}: whole; records {first} to {}, {groups} groups since it began, {segments} segments \
             of {bytes} bytes together, {torn_bytes} bytes torn at the end",
            data.display(),
            next - 1
        ),
    });
    if whole { Ok(()) } else { Err(Failure::NotWell) }
}

fn dump(data: &Path, from: u64, last: Option<usize>, json: bool) -> Outcome {
    let mut lines: VecDeque<Line> = VecDeque::new();
    let tell = |line: &Line| {
        let Line { number, epoch, kind, text } = line;
        print(json, line, || format!("{number:>8}  epoch {epoch}  {kind:<10} {text}"));
    };
    let read = read(data, |record| {
        if record.number < from {
            return;
        }
        let line = match describe(record.kind, &record.body) {
            Ok(it) => {
                Line { number: record.number, epoch: it.epoch.0, kind: it.kind, text: it.text }
            }
            Err(_) => {
                let text = format!("{} bytes of kind {}", record.body.len(), record.kind);
                Line { number: record.number, epoch: 0, kind: "unknown", text }
            }
        };
        let Some(last) = last else { return tell(&line) };
        lines.push_back(line);
        if lines.len() > last {
            lines.pop_front();
        }
    })?;
    lines.iter().for_each(tell);
    match read {
        Ok(recovered) if recovered.next == recovered.first && !json => {
            say("no records");
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(problem) => Err(Failure::Unwell(problem.to_string())),
    }
}
