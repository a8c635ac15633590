//! Golden traces: exact schedules in a small language that all protocols share, with what is said
//! and done in them.
//!
//! A file is a list of paragraphs: commands, a line `----`, and what they must print. Lines that
//! begin with `#` are for people. `UPDATE=1` in the environment rewrites what must be printed;
//! review it as a diff.
//!
//! | command | what it does |
//! | --- | --- |
//! | `group minbft n=3` | starts a group; also `checkpoint=`, `window=`, `batch=`, `in_flight=` |
//! | `request c1 "put a 1"` | a client sends one request; `to r0 r2` limits to whom |
//! | `again c1 1` | the client sends request 1 again, to everyone or `to r0` |
//! | `stabilize` | delivers all messages and ends rounds until nothing is under way |
//! | `deliver r0 r1` | delivers what is under way between them; a third word selects by content |
//! | `drop r0 r1` | loses it; `*` stands for anyone |
//! | `pending` | prints what is under way |
//! | `round r1` | ends a round of `r1` |
//! | `fire r1` | the armed timer with the lowest name runs out; `fire r1 2`: one of kind 2 |
//! | `timers` | prints armed timers as kind and subject |
//! | `advance 500` | clocks go on by so many milliseconds; no timer fires |
//! | `crash r1` | `r1` does nothing any more |
//! | `partition r0 \| r1 r2` | messages between the two sides are lost from now on |
//! | `heal` | no longer |
//! | `status` | prints where replicas stand |
//!
//! Requests are `put key value`, `append key value` and `get key`.
//!
//! # Groups that change
//!
//! `group minbft n=3 machines=4` starts a group that can change itself. Two of its administrators
//! `a1`, `a2` and `a3` have to propose the same change. The machines `r0` to `r2` are its members
//! at first, and `r3` may join.
//!
//! | command | what it does |
//! | --- | --- |
//! | `propose a1 add r3` | an administrator signs a change and sends it to all replicas |
//! | `propose a1 remove r2` | the same, with other changes: `r2` leaves, ... |
//! | `propose a1 replace r2 r3` | ... or leaves its place to `r3`, ... |
//! | `propose a1 switch hybster` | ... or the group orders by another protocol, ... |
//! | `propose a1 renew` | ... or members only get other keys, as with each change |
//! | `ready r3` | a machine that is to join says that it is ready, as members do by themselves |
//! | `join r3` | a machine that has become a member starts as a replica |
//!
//! `r3` is always the same machine, which has the member id 3. In what replicas say, `r2` is the
//! third replica of their configuration.

use crate::factories::Factories;
use core::fmt;
use std::path::Path;

mod command;
mod scene;
mod text_service;

use scene::Scene;

/// Finds a protocol by its name, with those to which its groups can switch.
pub type FindProtocol<'a> = dyn Fn(&str) -> Option<Factories<'a>> + 'a;

/// Why a trace did not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The line of the file, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TraceError {}

/// Between commands and what they print.
const RULE: &str = "----";

/// Runs a trace and gives the text as it should be.
///
/// # Errors
/// A command that does not exist or cannot be carried out.
pub fn rewrite(text: &str, find: &FindProtocol<'_>) -> Result<String, TraceError> {
    let mut scene: Option<Scene<'_>> = None;
    let mut output = String::new();
    let mut skipping = false;
    let mut printed = String::new();
    let mut commands = 0;
    for (index, line) in text.lines().enumerate() {
        let failed = |message| TraceError { line: index + 1, message };
        if line.trim().is_empty() {
            if commands > 0 && !skipping {
                return Err(failed(format!("commands without {RULE}")));
            }
            (skipping, commands) = (false, 0);
        }
        if skipping {
            continue;
        }
        output.push_str(line.trim_end());
        output.push('\n');
        if line.trim() == RULE {
            output.push_str(&core::mem::take(&mut printed));
            skipping = true;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            commands += 1;
            printed.push_str(&command::run(line, &mut scene, find).map_err(failed)?);
        }
    }
    Ok(output)
}

/// Runs a trace and compares.
///
/// # Errors
/// The first line that differs, or a command that fails.
pub fn check(text: &str, find: &FindProtocol<'_>) -> Result<(), TraceError> {
    let actual = rewrite(text, find)?;
    let (mut expected, mut printed) = (text.lines(), actual.lines());
    for line in 1.. {
        let (wanted, got) = (expected.next(), printed.next());
        if wanted.map(str::trim_end) != got {
            let show = |text: Option<&str>| text.unwrap_or("the end").to_owned();
            let message = format!("expected\n  {}\ngot\n  {}", show(wanted), show(got));
            return Err(TraceError { line, message });
        }
        if wanted.is_none() {
            break;
        }
    }
    Ok(())
}

/// Runs a trace file; rewrites it if `UPDATE` is set in the environment.
///
/// # Errors
/// What differs, with the file's name, or that the file cannot be read or written.
pub fn check_file(path: &Path, find: &FindProtocol<'_>) -> Result<(), String> {
    let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    if std::env::var_os("UPDATE").is_none() {
        return check(&text, find).map_err(|error| named(&error));
    }
    let actual = rewrite(&text, find).map_err(|error| named(&error))?;
    if actual != text {
        std::fs::write(path, actual).map_err(|error| named(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
