//! Whether equal seeds are equal runs of every protocol, however the compiler was told to optimise,
//! and however many run side by side.

use super::suite;
use crate::Failure;
use std::path::Path;
use std::process::{Command, Stdio};

/// Seeds of every protocol that are run once for each optimisation level.
const SEEDS: &str = "6";

/// Compares the program that tests have built with the one that users have.
pub fn audit(root: &Path) -> Result<(), Failure> {
    let of = |program: &Path, jobs: &str| {
        let mut command = Command::new(program);
        command.args(["sim", "--protocol", "all", "--seeds", SEEDS, "--requests", "100"]);
        command.args(["--json", "--jobs", jobs]).current_dir(root).stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
        audits(&String::from_utf8_lossy(&output.stdout))
    };
    let debug = of(&suite::simulator(root)?, "3")?;
    let release = of(&suite::released(root)?, "1")?;
    if debug == release {
        return Ok(());
    }
    Err(format!("equal seeds are different runs:\n  dev     {debug}\n  release {release}"))
}

/// The audits in what `sim --json` prints, each behind the name of its protocol.
fn audits(json: &str) -> Result<String, Failure> {
    let value = |line: &str, key: &str| {
        let value = line.trim().strip_prefix(key)?.trim_matches([':', ' ', ',', '"']);
        Some(value.to_owned())
    };
    let found = json.lines().filter_map(|line| {
        let name = value(line, "\"protocol\"").map(|name| format!("{name}:"));
        name.or_else(|| value(line, "\"audit\""))
    });
    let found: Vec<String> = found.collect();
    // A name and an audit of each, and of more than one.
    let is_whole = found.len() > 2 && found.len().is_multiple_of(2);
    is_whole.then(|| found.join(" ")).ok_or_else(|| format!("sim prints no audits:\n{json}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audits_are_found_with_the_names_of_their_protocols() {
        let one =
            |name| format!("  {{\n    \"protocol\": \"{name}\",\n    \"audit\": \"4f\",\n  }}\n");
        let two = [one("a"), one("b")].concat();
        assert_eq!(audits(&two).unwrap(), "a: 4f b: 4f");
        assert!(audits(&one("a")).is_err() && audits("").is_err());
        assert!(audits(&two.replacen("audit", "tea", 1)).is_err());
    }
}
