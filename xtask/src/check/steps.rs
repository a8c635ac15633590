//! What the steps are, in their order, and which of them belong to every check.

use super::audit::audit;
use super::suite;
use super::{Checked, cargo};
use crate::{Failure, fuzz, instructions, spec, tidy};
use std::path::Path;
use std::process::{Command, Stdio};

/// When a step is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// In every check.
    Always,
    /// In the check of a release, and in one of [`SLICES`] others.
    Slice(u8),
}

/// A prime number: who always lands as many commits at a time gets to see all slices too.
pub const SLICES: u8 = 7;

/// A part of the check.
pub struct Step {
    pub name: &'static str,
    pub when: When,
    pub run: fn(&mut Checked) -> Result<(), Failure>,
}

const fn always(name: &'static str, run: fn(&mut Checked) -> Result<(), Failure>) -> Step {
    Step { name, when: When::Always, run }
}

const fn slice(
    slice: u8,
    name: &'static str,
    run: fn(&mut Checked) -> Result<(), Failure>,
) -> Step {
    Step { name, when: When::Slice(slice), run }
}

pub static STEPS: [Step; 19] = [
    always("format", format),
    always("tidy", |checked| tidy::tidy(checked.root)),
    always("clippy", clippy),
    always("doc", doc),
    always("deny", deny),
    always("test", |checked| suite::test(checked, false)),
    always("doctest", doctest),
    always("sim", |checked| {
        let seeds = checked.seeds.unwrap_or(SEEDS);
        simulate(&suite::simulator(checked.root)?, checked.root, seeds)
    }),
    slice(0, "instructions", instructions),
    slice(0, "museum", |checked| simulator(checked, &["sim", "museum"])),
    slice(1, "fuzz", fuzz),
    slice(2, "spec", |checked| specification(checked, spec::quick)),
    slice(2, "known-mutants", |checked| {
        simulator(checked, &["sim", "mutants", "--starts", "1", "--known", KNOWN_WORLDS])
    }),
    slice(3, "audit", |checked| audit(checked.root)),
    slice(3, "sweep", |checked| {
        let seeds = checked.seeds.unwrap_or(SEEDS_OF_SWEEP);
        simulate(&suite::released(checked.root)?, checked.root, seeds)
    }),
    slice(4, "hunt-1", |checked| hunt(checked, "1/2")),
    slice(5, "hunt-2", |checked| hunt(checked, "2/2")),
    slice(6, "deep-test", |checked| suite::test(checked, true)),
    slice(6, "spec-views", |checked| specification(checked, spec::spec)),
];

/// Seeds of the simulator's sweep in every check, and in the slice that sweeps.
const SEEDS: u64 = 40;
const SEEDS_OF_SWEEP: u64 = 200;

/// In which worlds seeded bugs were found.
const KNOWN_WORLDS: &str = "crates/sim/known-worlds.txt";

fn format(checked: &mut Checked) -> Result<(), Failure> {
    if !has_component(checked, "fmt") {
        return Ok(());
    }
    cargo(checked.root, &["fmt", "--all", "--", "--check"], &[])
}

fn clippy(checked: &mut Checked) -> Result<(), Failure> {
    if !has_component(checked, "clippy") {
        return Ok(());
    }
    let lints = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    cargo(checked.root, &lints, &[])
}

/// Whether this part of Rust is there, of which some installations have only the smallest set.
fn has_component(checked: &mut Checked, name: &str) -> bool {
    let is_there = runs("cargo", &[name, "--version"]);
    if !is_there {
        checked.leave_out(format!("cargo {name} (rustup component add)"), name);
    }
    is_there
}

fn doc(checked: &mut Checked) -> Result<(), Failure> {
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
    cargo(checked.root, &doc, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Licences, advisories and duplicates.
fn deny(checked: &mut Checked) -> Result<(), Failure> {
    if runs("cargo", &["deny", "--version"]) {
        return cargo(checked.root, &["deny", "check"], &[]);
    }
    checked.leave_out("cargo-deny (cargo install cargo-deny)", "licences and advisories");
    Ok(())
}

fn doctest(checked: &mut Checked) -> Result<(), Failure> {
    let arguments = [&["test", "--workspace", "--doc", "--quiet"], &suite::FEATURES[..]].concat();
    super::output(checked.root, &arguments).map(drop)
}

fn instructions(checked: &mut Checked) -> Result<(), Failure> {
    if !runs("valgrind", &["--version"]) {
        checked.leave_out("valgrind", "counting instructions");
        return Ok(());
    }
    instructions::run(checked.root, false)
}

fn fuzz(checked: &mut Checked) -> Result<(), Failure> {
    if !runs("c++", &["--version"]) {
        checked.leave_out("c++ (Debian: build-essential)", "fuzzing");
        return Ok(());
    }
    fuzz::check(checked.root)
}

/// What the specification says, by a checker that needs Java and a package for Python.
fn specification(
    checked: &mut Checked,
    check: fn(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !runs("java", &["-version"]) || !runs("python3", &["-c", "import ensurepip"]) {
        let missing = "java or ensurepip (Debian: default-jre-headless, python3-venv)";
        checked.leave_out(missing, "checking the specification");
        return Ok(());
    }
    check(checked.root)
}

/// Hunts a share of the seeded bugs anew.
fn hunt(checked: &mut Checked, share: &str) -> Result<(), Failure> {
    simulator(checked, &["sim", "mutants", "--starts", "1", "--share", share])
}

fn simulator(checked: &mut Checked, arguments: &[&str]) -> Result<(), Failure> {
    run(&suite::simulator(checked.root)?, checked.root, arguments)
}

/// Long runs of the default protocol, and a quarter as many short ones of every protocol that is
/// meant to be safe.
fn simulate(program: &Path, root: &Path, seeds: u64) -> Result<(), Failure> {
    run(program, root, &["sim", "--seeds", &seeds.to_string()])?;
    let some = seeds.div_ceil(4).to_string();
    run(program, root, &["sim", "--protocol", "all", "--seeds", &some, "--requests", "100"])
}

/// Runs a program with its output going where ours goes.
fn run(program: &Path, root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let status = Command::new(program).current_dir(root).args(arguments).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("{} {} failed", program.display(), arguments.join(" "))),
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

/// Whether this is there and works.
fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
