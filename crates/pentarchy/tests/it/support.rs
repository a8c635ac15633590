//! Running the real binary.

use std::path::Path;
use std::process::{Command, Output};

/// The binary under test, with its environment made plain.
pub fn pentarchy(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pentarchy"));
    command.args(arguments).env_remove("PENTARCHY_LOG").env("NO_COLOR", "1");
    command
}

/// Runs the binary to its end.
pub fn run(arguments: &[&str]) -> Output {
    pentarchy(arguments).output().expect("the binary starts")
}

/// What a run printed on stdout.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a run printed on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}
