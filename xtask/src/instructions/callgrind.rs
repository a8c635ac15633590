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
    let (mut sum, mut hash, mut left_out) = (0i64, 0i64, 0i64);
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
                    false if place.is_hash() => hash += cost,
                    false => sum += cost,
                }
            }
            _ => {}
        }
    }
    let total = profile.lines().find_map(|line| line.strip_prefix("summary: "));
    if total.and_then(|total| total.trim().parse().ok()) != Some(sum + hash) {
        return Err("the profile does not add up to its own sum".into());
    }
    match u64::try_from(sum - left_out) {
        Ok(instructions) if instructions > 0 => Ok(instructions),
        _ => Err("callgrind counted nothing: is the collected function still there?".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
# callgrind format
positions: line
events: Ir
summary: 549

fl=(1) crates/core/src/digest.rs
fn=(1) pentarchy_core::digest::Hasher::finish
10 3
+2 4
fi=(2) /registry/blake3-1.8.7/src/lib.rs
90 100
fe=(1)
12 5
cfi=(2)
cfn=(2) blake3::Hasher::update
calls=1 50
13 400
cfn=(3) pentarchy_core::digest::count
calls=1 20
14 7

fl=(2)
fn=(2)
50 300
cfi=(3) string/memmove.S
cfn=(4) memcpy
calls=2 1
51 60
cfn=(5) blake3::ChunkState::update
calls=2 70
52 40

fn=(5)
70 40

fl=(3)
fn=(4)
1 90

fl=(1)
fn=(3)
20 7
";

    #[test]
    fn the_hash_function_and_what_it_calls_are_left_out() {
        // Own lines 3 + 4 + 5, the count 7, and of memcpy's 90 what others than the hash asked for.
        assert_eq!(instructions(PROFILE), Ok(3 + 4 + 5 + 7 + 90 - 60));
    }

    #[test]
    fn a_profile_of_nothing_is_a_failure() {
        assert!(instructions("events: Ir\nsummary: 0\n").is_err());
        assert!(instructions("summary: 50\nfn=(1) blake3::hash\n1 50\n").is_err());
        assert!(instructions("summary: 50\nfn=(1) a\n1 many\n").is_err());
    }

    #[test]
    fn a_profile_that_is_not_understood_is_a_failure() {
        assert_eq!(instructions("summary: 50\nfn=(1) a\n1 50\n"), Ok(50));
        assert!(instructions("summary: 50\nfn=(1) a\n1 49\n").is_err());
        assert!(instructions("fn=(1) a\n1 50\n").is_err());
    }
}
