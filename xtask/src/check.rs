//! The one command that says whether all is well, step by step, cheapest first.

use crate::{Failure, fuzz, instructions, spec, tidy, wrap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seeds of the simulator sweep, unless told otherwise.
pub const SEEDS: u64 = 200;

/// A step's name and what it does; the number is that of the simulator's seeds.
type Step = (&'static str, fn(&Path, u64) -> Result<(), Failure>);

const STEPS: [Step; 13] = [
    ("format", |root, _| cargo(root, &["fmt", "--all", "--", "--check"], &[])),
    ("tidy", |root, _| tidy::tidy(root)),
    ("clippy", |root, _| {
        let check = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        cargo(root, &check, &[])
    }),
    ("doc", |root, _| {
        let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
        cargo(root, &doc, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    ("deny", |root, _| deny(root)),
    ("test", |root, _| cargo(root, &["test", "--workspace", "--no-fail-fast"], &[])),
    ("sim", |root, seeds| sim(root, seeds)),
    ("mutants", |root, _| {
        release(root, &["sim", "mutants", "--starts", "1", "--known", KNOWN_WORLDS])
    }),
    ("museum", |root, _| release(root, &["sim", "museum"])),
    ("audit", |root, _| audit(root)),
    ("instructions", |root, _| instructions::run(root, false)),
    ("spec", |root, _| spec::quick(root)),
    ("fuzz", |root, _| fuzz::check(root)),
];

/// The binary with seeded bugs that can be switched on: one build for all steps that simulate.
const BINARY: [&str; 5] = ["--quiet", "-p", "pentarchy", "--features", "mutants"];

/// In which worlds seeded bugs were found, so that not every check need hunt for them.
const KNOWN_WORLDS: &str = "crates/sim/known-worlds.txt";

/// Runs a command of the binary; building it is timed apart.
fn release(root: &Path, what: &[&str]) -> Result<(), Failure> {
    let binary = [&["--release"], &BINARY[..]].concat();
    let begun = Instant::now();
    cargo(root, &[&["build"], &binary[..]].concat(), &[])?;
    println!("      built in {:.1} s", begun.elapsed().as_secs_f32());
    cargo(root, &[&["run"], &binary[..], &["--"], what].concat(), &[])
}

/// Long runs of the protocol that most use, and a quarter as many short ones of every protocol
/// that is meant to be safe.
fn sim(root: &Path, seeds: u64) -> Result<(), Failure> {
    release(root, &["sim", "--protocol", "minbft", "--seeds", &seeds.to_string()])?;
    let some = seeds.div_ceil(4).to_string();
    release(root, &["sim", "--protocol", "all", "--seeds", &some, "--requests", "100"])
}

/// Seeds of every protocol that are run once for each optimisation level.
const AUDITED: &str = "6";

/// The same seeds are the same runs of every protocol, however the compiler was told to optimise,
/// and however many run side by side.
fn audit(root: &Path) -> Result<(), Failure> {
    let of = |profile: &str, jobs: &str| {
        let run = [&["run", "--profile", profile], &BINARY[..], &["--"]].concat();
        let what = ["sim", "--protocol", "all", "--seeds", AUDITED, "--requests", "100", "--json"];
        let output = output(root, &[&run[..], &what[..], &["--jobs", jobs]].concat())?;
        audits(&output)
    };
    let (debug, release) = (of("dev", "3")?, of("release", "1")?);
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

/// Runs all steps, or one, and stops at the first that fails.
pub fn check(root: &Path, only: Option<&str>, seeds: u64) -> Result<(), Failure> {
    let chosen: Vec<&Step> = match only {
        None => STEPS.iter().collect(),
        Some(only) => STEPS.iter().filter(|(name, _)| *name == only).collect(),
    };
    if chosen.is_empty() {
        let names: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("no such step; there are: {names}"));
    }
    let begun = Instant::now();
    for (number, (name, step)) in (1..).zip(&chosen) {
        let place = format!("[{number}/{}] {name}", chosen.len());
        println!("{place} ...");
        let step_begun = Instant::now();
        step(root, seeds).map_err(|failure| {
            format!("{failure}\n{place} FAILED. This step alone: {}", rerun(name, seeds))
        })?;
        println!("{place} ok, {:.1} s", step_begun.elapsed().as_secs_f32());
    }
    println!("all is well, {:.0} s", begun.elapsed().as_secs_f32());
    Ok(())
}

/// The line to paste.
fn rerun(step: &str, seeds: u64) -> String {
    match step {
        "sim" => format!("cargo xtask check --only sim --seeds {seeds}"),
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

/// Licences, advisories and duplicates, where the tool for it is installed.
fn deny(root: &Path) -> Result<(), Failure> {
    let version = Command::new("cargo").args(["deny", "--version"]).stderr(Stdio::null()).output();
    if version.is_ok_and(|output| output.status.success()) {
        return cargo(root, &["deny", "check"], &[]);
    }
    println!("      skipped: cargo-deny is not installed (cargo install cargo-deny)");
    Ok(())
}

fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo and gives what it prints.
fn output(root: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let output = command().current_dir(root).args(arguments).stderr(Stdio::inherit()).output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(_) => Err(format!("cargo {} failed", arguments.join(" "))),
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
        let failure = check(Path::new("."), Some("tydi"), 1).unwrap_err();
        assert!(failure.contains("tidy") && failure.contains("clippy"), "{failure}");
    }

    #[test]
    fn audits_are_found_with_the_names_of_their_protocols() {
        let one =
            |name| format!("  {{\n    \"protocol\": \"{name}\",\n    \"audit\": \"4f\",\n  }}\n");
        let two = [one("a"), one("b")].concat();
        assert_eq!(audits(&two).unwrap(), "a: 4f b: 4f");
        assert!(audits(&one("a")).is_err() && audits("").is_err());
        assert!(audits(&two.replacen("audit", "tea", 1)).is_err());
    }

    #[test]
    fn a_failing_sweep_is_rerun_with_its_seeds() {
        assert_eq!(rerun("sim", 9), "cargo xtask check --only sim --seeds 9");
    }
}
