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

/// Prints the lines of each trusted file.
pub fn tcb(root: &Path) -> Result<(), Failure> {
    let mut sum = 0;
    for path in TRUSTED {
        let text =
            fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let lines = trusted_lines(&text);
        println!("{lines:6}  {path}");
        sum += lines;
    }
    println!("{sum:6}  lines of trusted code (tests, comments and blank lines not counted)");
    Ok(())
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
