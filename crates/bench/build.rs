//! Tells the program from which commit and by which compiler it was built, so that `bench` can say
//! what it measured. Without git, or outside a checkout, it says nothing.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The commit, and whether anything beside it went into the build.
    println!("cargo::rerun-if-changed=../../crates");
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    tell("PENTARCHY_RUSTC", output(&compiler, &["--version"]));
    tell("PENTARCHY_COMMIT", output("git", &describe));
}

fn tell(name: &str, value: Option<String>) {
    if let Some(value) = value {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The only line that a program prints, if it prints one and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty())?;
    output.status.success().then(|| line.to_owned())
}
