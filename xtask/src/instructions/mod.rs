//! How many instructions the path of a request takes, counted by callgrind: a figure that does not
//! depend on how busy the machine is. `docs/instructions.md` holds the figures that are the measure
//! of later ones, and says what is counted.

mod callgrind;
mod table;

use crate::Failure;
use crate::check::cargo;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use table::{Figures, Row};

/// Where the figures are.
const PAGE: &str = "docs/instructions.md";
/// The binary that is measured, and how it is built.
const BUILD: [&str; 7] =
    ["build", "--release", "--quiet", "-p", "pentarchy-costs", "--bin", "instructions"];
const BINARY: &str = "release/instructions";
/// The function during which callgrind counts.
const COLLECTED: &str = "--toggle-collect=instructions::collect_instructions*";

/// Counts, and compares with the page, or writes the page.
pub fn run(root: &Path, bless: bool) -> Result<(), Failure> {
    let version = Command::new("valgrind").arg("--version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("      skipped: valgrind is not installed (apt-get install valgrind)");
        return Ok(());
    }
    cargo(root, &BUILD, &[])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let cases = printed(Command::new(target.join(BINARY)))?;
    let rows: Vec<Row> =
        cases.lines().map(|case| measure(&target, case)).collect::<Result<_, _>>()?;
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    if bless {
        let page = table::replaced(&page, &rows)?;
        return fs::write(path, page).map_err(|error| format!("{PAGE}: {error}"));
    }
    let findings = table::compared(&table::rows(&page)?, &rows);
    findings.iter().for_each(|finding| println!("      {}", finding.text));
    if findings.iter().any(|finding| finding.is_failure) {
        return Err(format!(
            "the path of a request has changed: see above. If that is meant, \
             `cargo xtask instructions --bless` renews {PAGE}; commit both together"
        ));
    }
    Ok(())
}

/// Runs one case under callgrind.
fn measure(target: &Path, case: &str) -> Result<Row, Failure> {
    let profile = target.join(format!("instructions-{case}.out"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--quiet", COLLECTED, "--compress-pos=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", profile.display()));
    valgrind.arg(target.join(BINARY)).arg(case);
    let figures = printed(valgrind)?;
    let profile = fs::read_to_string(&profile).map_err(|error| format!("{case}: {error}"))?;
    let instructions =
        callgrind::instructions(&profile).map_err(|failure| format!("{case}: {failure}"))?;
    Row::new(case, instructions, &parsed(&figures))
}

/// Lines of a name and a number.
fn parsed(text: &str) -> Figures {
    let figure = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

/// What a program prints.
fn printed(mut command: Command) -> Result<String, Failure> {
    let output = command.stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{command:?} failed: {}", output.status)),
        Err(error) => Err(format!("cannot run {command:?}: {error}")),
    }
}
