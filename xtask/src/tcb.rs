//! How many lines must be right for the trusted devices to keep their promises.

use crate::Failure;
use std::fs;
use std::path::Path;

/// The trusted code: what runs inside a device.
const TRUSTED: [&str; 4] = [
    "crates/trusted/src/usig.rs",
    "crates/trusted/src/trinx.rs",
    "crates/trusted/src/session.rs",
    "crates/crypto/src/session.rs",
];

/// What has to be right beside it if the device is in a process of its own, where it meets bytes of
/// its host.
const APART: [&str; 5] = [
    "crates/trusted/src/backend/process/serve.rs",
    "crates/trusted/src/backend/process/question.rs",
    "crates/trusted/src/backend/process/harden.rs",
    "crates/mailbox/src/mailbox.rs",
    "crates/mailbox/src/memory.rs",
];

/// Prints the lines of each trusted file.
pub fn tcb(root: &Path) -> Result<(), Failure> {
    let sum = count(root, &TRUSTED)?;
    println!("{sum:6}  lines of trusted code (tests, comments and blank lines not counted)");
    let sum = count(root, &APART)?;
    println!("{sum:6}  lines more for a device in a process of its own");
    Ok(())
}

/// Prints the lines of each of these files, and adds them up.
fn count(root: &Path, paths: &[&str]) -> Result<usize, Failure> {
    let mut sum = 0;
    for path in paths {
        let text =
            fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let lines = trusted_lines(&text);
        println!("{lines:6}  {path}");
        sum += lines;
    }
    Ok(sum)
}

/// Lines of code before the tests.
fn trusted_lines(text: &str) -> usize {
    let code = text.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
    code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts() {
        let text =
            "//! Doc.\n\nfn a() {\n    // Why.\n    b();\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(trusted_lines(text), 3);
    }
}
