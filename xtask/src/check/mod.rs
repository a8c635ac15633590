//! The check, in three depths: what every commit must pass, with that one slice of what a release
//! must pass, and all of it. Which slice it is goes by the commit's number.

mod audit;
mod missing;
mod steps;
mod suite;
mod times;

use crate::{Failure, wrap};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use steps::{SLICES, STEPS, Step, When};

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// What every commit must pass.
    Commit,
    /// That, and this slice of the rest.
    Slice(u8),
    /// All.
    Deep,
}

impl Depth {
    /// As it is typed: a number below [`SLICES`], or `auto` for the one whose turn it is.
    pub fn slice(typed: &str, root: &Path) -> Result<Self, Failure> {
        let slice = match typed {
            "auto" => Some(turn(root)),
            number => number.parse().ok().filter(|slice| *slice < SLICES),
        };
        let slice = slice.ok_or_else(|| format!("--slice takes auto, or 0 to {}", SLICES - 1))?;
        Ok(Self::Slice(slice))
    }

    fn has(self, step: &Step) -> bool {
        match (step.when, self) {
            (When::Always, _) | (_, Self::Deep) => true,
            (When::Slice(_), Self::Commit) => false,
            (When::Slice(its), Self::Slice(chosen)) => its == chosen,
        }
    }
}

/// The slice whose turn it is, by the number of commits; 0 if that cannot be told.
fn turn(root: &Path) -> u8 {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git.current_dir(root).args(arguments).stderr(Stdio::null()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if git(&["rev-parse", "--is-shallow-repository"]).as_deref() != Some("false") {
        return 0;
    }
    let commits = git(&["rev-list", "--count", "HEAD"]).and_then(|count| count.parse::<u64>().ok());
    commits.map_or(0, |commits| (commits % u64::from(SLICES)) as u8)
}

/// What steps work with, and what they leave behind for the end.
pub struct Checked<'a> {
    root: &'a Path,
    /// Of the simulator's sweeps, if that was said.
    seeds: Option<u64>,
    /// What was left out, by what is missing for it.
    left_out: BTreeMap<String, Vec<String>>,
}

impl Checked<'_> {
    /// Notes that something is missing here and what cannot be done without it.
    fn leave_out(&mut self, missing: impl Into<String>, what: impl Into<String>) {
        self.left_out.entry(missing.into()).or_default().push(what.into());
    }
}

/// Runs the steps of this depth, or one step, and stops at the first that fails.
pub fn check(
    root: &Path,
    depth: Depth,
    only: Option<&str>,
    seeds: Option<u64>,
) -> Result<(), Failure> {
    let is_chosen = |step: &&Step| only.map_or_else(|| depth.has(step), |only| step.name == only);
    let chosen: Vec<&Step> = STEPS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("no such step; there are: {}", names.join(", ")));
    }
    if let (Depth::Slice(slice), None) = (depth, only) {
        println!("slice {slice} of {SLICES}: --slice {slice} repeats it");
    }
    let begun = Instant::now();
    let mut checked = Checked { root, seeds, left_out: BTreeMap::new() };
    for (number, step) in (1..).zip(&chosen) {
        let place = format!("[{number}/{}] {}", chosen.len(), step.name);
        println!("{place} ...");
        let step_begun = Instant::now();
        (step.run)(&mut checked).map_err(|failure| {
            format!("{failure}\n{place} FAILED. This step alone: {}", rerun(step.name, seeds))
        })?;
        println!("{place} ok, {:.1} s", step_begun.elapsed().as_secs_f32());
    }
    if !checked.left_out.is_empty() {
        println!("left out, as it needs what is missing here:");
        for (missing, what) in &checked.left_out {
            println!("  {missing}: {}", what.join(", "));
        }
    }
    println!("all is well, {:.0} s", begun.elapsed().as_secs_f32());
    Ok(())
}

/// The line to paste.
fn rerun(step: &str, seeds: Option<u64>) -> String {
    let seeds = seeds.map_or_else(String::new, |seeds| format!(" --seeds {seeds}"));
    match step {
        "sim" | "sweep" => format!("cargo xtask check --only {step}{seeds}"),
        "format" => "cargo xtask check --only format   (cargo xtask fix mends it)".into(),
        _ => format!("cargo xtask check --only {step}"),
    }
}

/// Mends what tools can mend.
pub fn fix(root: &Path) -> Result<(), Failure> {
    let clippy = ["clippy", "--fix", "--workspace", "--all-targets"];
    cargo(root, &[&clippy[..], &["--allow-dirty", "--allow-staged"]].concat(), &[])?;
    wrap::wrap(root)?;
    cargo(root, &["fmt", "--all"], &[])
}

/// Cargo, without what it told us of our own package: some build scripts look at that, and would
/// run again, with all that is built after them, whenever cargo is called in another way.
pub fn command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_NAME", "CARGO_BIN_NAME"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| ours.iter().any(|ours| name.starts_with(ours))) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs cargo and gives what it prints.
fn output(root: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = command().current_dir(root).args(arguments).stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            Err(format!("{said}cargo {} failed", arguments.join(" ")))
        }
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Runs cargo with its output going where ours goes.
pub fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), Failure> {
    let mut command = command();
    command.current_dir(root).args(arguments).envs(environment.iter().copied());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("cargo {} failed", arguments.join(" "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_answered_with_the_known_ones() {
        let failure = check(Path::new("."), Depth::Commit, Some("tydi"), None).unwrap_err();
        assert!(failure.contains("tidy") && failure.contains("clippy"), "{failure}");
    }

    #[test]
    fn a_failing_sweep_is_rerun_with_its_seeds() {
        assert_eq!(rerun("sim", Some(9)), "cargo xtask check --only sim --seeds 9");
        assert_eq!(rerun("fuzz", Some(9)), "cargo xtask check --only fuzz");
    }

    #[test]
    fn every_step_comes_round_and_every_slice_has_one() {
        let of = |depth: Depth| STEPS.iter().filter(move |step| depth.has(step)).count();
        let every = of(Depth::Commit);
        let more: Vec<usize> = (0..SLICES).map(|it| of(Depth::Slice(it)) - every).collect();
        assert!(more.iter().all(|steps| *steps > 0), "{more:?}");
        assert_eq!(every + more.iter().sum::<usize>(), STEPS.len());
        assert_eq!(of(Depth::Deep), STEPS.len());
    }

    #[test]
    fn without_git_it_is_the_first_slice() {
        let nowhere = std::env::temp_dir();
        assert_eq!(turn(&nowhere.join("there is no such folder")), 0);
        assert_eq!(Depth::slice("auto", &nowhere.join("nor this")), Ok(Depth::Slice(0)));
        assert!(Depth::slice("99", &nowhere).is_err() && Depth::slice("x", &nowhere).is_err());
    }
}
