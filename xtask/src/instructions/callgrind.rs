//! Reads what callgrind writes: the cost of each line of each function, and of calls.

use crate::Failure;
use std::collections::BTreeMap;

/// Names that are written out where they first occur, and then by number.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// The name behind `(7) name` or `(7)`.
    fn get(&mut self, field: &str) -> String {
        let (number, name) = field.split_once(' ').unwrap_or((field, ""));
        match name {
            "" => self.0.get(number).cloned().unwrap_or_else(|| field.to_owned()),
            name => {
                self.0.insert(number.to_owned(), name.to_owned());
                name.to_owned()
            }
        }
    }
}

/// Where a cost stands.
#[derive(Default)]
struct Place {
    file: String,
    function: String,
}

impl Place {
    /// Whether this is the hash function, whose instructions depend on the processor: callgrind
    /// does not know the widest ones, so it counts another program than the one that runs.
    fn is_hash(&self) -> bool {
        self.file.contains("/blake3-") || self.function.starts_with("blake3")
    }
}

/// Instructions in the profile without those of the hash function and of what it calls.
///
/// # Errors
/// If the profile is not understood, or nothing was counted.
pub fn instructions(profile: &str) -> Result<u64, Failure> {
    let (mut files, mut functions) = (Names::default(), Names::default());
    let (mut place, mut callee) = (Place::default(), Place::default());
    // A callee in another file has that named before it.
    let mut callee_file = None;
    let (mut sum, mut left_out) = (0i64, 0i64);
    let mut is_call = false;
    for line in profile.lines() {
        match line.split_once('=') {
            Some(("fl" | "fi" | "fe", name)) => place.file = files.get(name),
            Some(("fn", name)) => place.function = functions.get(name),
            Some(("cfi" | "cfl", name)) => callee_file = Some(files.get(name)),
            Some(("cfn", name)) => {
                callee.function = functions.get(name);
                callee.file = callee_file.take().unwrap_or_else(|| place.file.clone());
            }
            Some(("calls", _)) => is_call = true,
            _ if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let cost = line.split(' ').nth(1).unwrap_or("0");
                let cost: i64 = cost.parse().map_err(|_| format!("not a cost: {line}"))?;
                match std::mem::take(&mut is_call) {
                    true if place.is_hash() && !callee.is_hash() => left_out += cost,
                    true => {}
                    false if place.is_hash() => {}
                    false => sum += cost,
                }
            }
            _ => {}
        }
    }
    match u64::try_from(sum - left_out) {
        Ok(instructions) if instructions > 0 => Ok(instructions),
        _ => Err("callgrind counted nothing: is the collected function still there?".into()),
    }
}
