//! Two versions of the program in one group: builds the program of an earlier commit, and has the
//! tests of upgrades replace one by the other on each machine of a group, and back.

use crate::Failure;
use crate::check::cargo;
use std::path::Path;
use std::process::Command;

/// Where the other version's source is checked out and built.
const FOLDER: &str = "target/other-version";

/// The tests. They take the program of the other version from `PENTARCHY_OTHER`.
const TESTS: [&str; 8] = [
    "test",
    "--package=pentarchy",
    "--features=pentarchy/mutants",
    "--test=it",
    "--",
    "upgraded::machines",
    "--test-threads=1",
    "--nocapture",
];

/// Builds that commit's program and runs the tests with it.
pub fn upgrade(root: &Path, commit: &str) -> Result<(), Failure> {
    let folder = root.join(FOLDER);
    let folder = folder.to_str().ok_or("the project's folder has a name that is no text")?;
    let commit = format!("{commit}^{{commit}}");
    let commit = git(root, &["rev-parse", "--verify", "--quiet", &commit])?;
    git(root, &["worktree", "prune"])?;
    if !root.join(FOLDER).join(".git").exists() {
        git(root, &["worktree", "add", "--quiet", "--detach", folder, &commit])?;
    }
    git(Path::new(folder), &["checkout", "--quiet", "--detach", &commit])?;
    let target = format!("{folder}/target");
    let build = ["build", "--package=pentarchy", "--bin=pentarchy"];
    cargo(Path::new(folder), &build, &[("CARGO_TARGET_DIR", &target)])?;
    let other = format!("{target}/debug/pentarchy");
    cargo(root, &TESTS, &[("PENTARCHY_OTHER", &other)])
}

/// Runs git, and gives what it prints.
fn git(root: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {} failed: {said}", arguments.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
