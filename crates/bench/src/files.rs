//! Results as files.

use super::machine::{Machine, Program};
use pentarchy_console::failure::{Failure, Outcome};
use serde::Serialize;
use std::path::Path;
use tempfile::TempDir;

/// A result with where it was measured.
#[derive(Serialize)]
struct Figures<T> {
    /// Changes with the meaning of any field.
    format: u32,
    machine: Machine,
    program: Program,
    #[serde(flatten)]
    result: T,
}

/// A folder that goes with the value.
pub fn temporary_folder(prefix: &str) -> Outcome<TempDir> {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir();
    folder.map_err(|error| Failure::Internal(format!("cannot make a temporary folder: {error}")))
}

/// Writes the result as JSON, if a file is named.
pub fn write_json(path: Option<&Path>, machine: Machine, result: impl Serialize) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    let figures = Figures { format: 1, machine, program: Program::this(), result };
    let text = json(&figures)?;
    write_file(Some(path), || text + "\n")
}

/// Writes a file, if one is named.
pub fn write_file(path: Option<&Path>, text: impl FnOnce() -> String) -> Outcome {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))
}

/// Fails before anything is measured if a result could not be written where it is to go.
pub fn check_writable<const N: usize>(paths: [Option<&Path>; N]) -> Outcome {
    for path in paths.into_iter().flatten() {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        opened
            .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// A result for programs.
pub fn json(result: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(result)
        .map_err(|error| Failure::Internal(format!("cannot write JSON: {error}")))
}
