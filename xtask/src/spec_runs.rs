//! Has TLC follow recorded runs of Hybster: whether what correct replicas did is what the
//! specification allows. `docs/spec/README.md` says what of a run it sees.

use crate::Failure;
use crate::check::cargo;
use crate::spec::tlc;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The example that records runs.
const RECORDER: &str = "hybster_runs";

/// Modules that are copied beside the runs.
const MODULES: [&str; 2] = ["Hybster.tla", "HybsterRun.tla"];

/// What the recorder says of a file of runs, in comments at its top.
struct Group {
    n: String,
    faulty: String,
    views: String,
    values: String,
}

impl Group {
    fn of(text: &str) -> Result<Self, Failure> {
        let find = |name: &str| {
            let start = format!("\\* {name} = ");
            let found = text.lines().find_map(|line| line.strip_prefix(&start));
            found.map(str::to_owned).ok_or_else(|| format!("a file of runs names no {name}"))
        };
        let (n, faulty) = (find("N")?, find("Faulty")?);
        Ok(Self { n, faulty, views: find("MaxView")?, values: find("Values")? })
    }

    fn config(&self) -> String {
        let Self { n, faulty, views, values } = self;
        format!(
            "SPECIFICATION RunSpec\nINVARIANTS Agreement OwnWordsAreValid\nCONSTANTS\n  N = {n}\n  \
             Faulty = {faulty}\n  MaxView = {views}\n  Values = {values}\n  NeedsBasis = TRUE\n  \
             Resolved = TRUE\n  Established = TRUE\n  HighestFrom = TRUE\n"
        )
    }
}

/// Where seeded bugs are listed, each with what is to find it.
const MUTANTS: &str = "crates/core/src/mutant/list.rs";

/// Seeds of the simulated worlds whose runs a check follows. Few worlds show a given step, and
/// which ones do changes with the simulator: of 120 worlds, three took the step that the second bug
/// below alters, and of 20 none did.
const SEEDS: u64 = 120;

/// Two seeded bugs, each with a number of seeds of which some run shows it. The first takes a view
/// change whose members come from different views, which few worlds have.
const SHOWN: [(&str, u64); 2] =
    [("hybster.lowest-origin", 410), ("hybster.leaves-without-certificate", SEEDS)];

/// Some runs of Hybster's implementation, as it is and with two seeded bugs.
pub fn quick(root: &Path) -> Result<(), Failure> {
    runs(root, SEEDS, None)?;
    SHOWN.iter().try_for_each(|(mutant, seeds)| {
        println!("{mutant}");
        runs(root, *seeds, Some(mutant))
    })
}

/// Records runs in the worlds of so many seeds, and has TLC follow them. With a seeded bug, or with
/// each that is claimed to be found so, they are expected to be refused.
pub fn runs(root: &Path, seeds: u64, mutant: Option<&str>) -> Result<(), Failure> {
    if mutant != Some("all") {
        return runs_of(root, seeds, mutant);
    }
    let list = fs::read_to_string(root.join(MUTANTS)).map_err(|error| error.to_string())?;
    for mutant in specified(&list) {
        println!("{mutant}");
        runs_of(root, seeds, Some(mutant))?;
    }
    Ok(())
}

/// The mutants of the list that the specification is to find.
fn specified(list: &str) -> Vec<&str> {
    let entries = list.split("    mutant(").skip(1);
    let entries = entries.filter(|entry| entry.contains(".specified()"));
    entries.filter_map(|entry| entry.split('"').nth(1)).collect()
}

/// Prints a line for each group of runs.
fn runs_of(root: &Path, seeds: u64, mutant: Option<&str>) -> Result<(), Failure> {
    let jar = tlc(root)?;
    let folder = root.join("target/spec/runs");
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(io)?;
    }
    fs::create_dir_all(&folder).map_err(io)?;
    // With the features of the whole workspace: as its tests have built it.
    cargo(root, &["build", "--quiet", "--workspace", "--example", RECORDER], &[])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let recorded = Command::new(target.join("debug/examples").join(RECORDER))
        .arg(&folder)
        .arg(seeds.to_string())
        .args(mutant)
        .current_dir(root)
        .status();
    if !recorded.is_ok_and(|status| status.success()) {
        return Err("the runs were not recorded".into());
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).map_err(io)?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut refused = 0;
    for file in &files {
        let text = fs::read_to_string(file).map_err(io)?;
        let group = Group::of(&text)?;
        let said = follow(root, &jar, &file.with_extension(""), &text, &group)?;
        let outcome = match why_not(&said, &text)? {
            None => "allowed".to_owned(),
            Some(why) => {
                refused += 1;
                format!("REFUSED: {why}")
            }
        };
        println!("n = {}, faulty {}: {outcome}", group.n, group.faulty);
    }
    match (refused, mutant) {
        (0, None) => Ok(()),
        (0, Some(mutant)) => Err(format!("{mutant} is not seen in these runs")),
        (_, None) => Err("what replicas did is not what the specification allows".into()),
        (_, Some(_)) => Ok(()),
    }
}

/// What TLC says of the runs in a file.
fn follow(
    root: &Path,
    jar: &Path,
    folder: &Path,
    runs: &str,
    group: &Group,
) -> Result<String, Failure> {
    let io = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(io)?;
    for module in MODULES {
        fs::copy(root.join("docs/spec").join(module), folder.join(module)).map_err(io)?;
    }
    fs::write(folder.join("Runs.tla"), runs).map_err(io)?;
    fs::write(folder.join("HybsterRun.cfg"), group.config()).map_err(io)?;
    let output = Command::new("java")
        .args(["-XX:+UseParallelGC", "-cp"])
        .arg(jar)
        .args(["tlc2.TLC", "-config", "HybsterRun.cfg", "HybsterRun.tla"])
        .current_dir(folder)
        .output()
        .map_err(|error| format!("java: {error}; install a Java runtime"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Which step is not allowed, or what does not hold behind it; none if all is well.
fn why_not(said: &str, runs: &str) -> Result<Option<String>, Failure> {
    if said.contains("No error has been found") {
        return Ok(None);
    }
    let stuck = said.contains("Deadlock reached");
    let violated = said.lines().find(|line| line.contains("is violated"));
    if !stuck && violated.is_none() {
        return Err(format!("TLC did not finish:\n{said}"));
    }
    let last = |name: &str| {
        let start = format!("/\\ {name} = ");
        let found = said.lines().rev().find_map(|line| line.strip_prefix(&start));
        found.and_then(|value| value.parse::<usize>().ok())
    };
    let (Some(run), Some(at)) = (last("run"), last("at")) else {
        return Err(format!("TLC names no run:\n{said}"));
    };
    let names = runs.lines().skip_while(|line| *line != "Names == <<").skip(1);
    let name = names.clone().nth(run.saturating_sub(1)).unwrap_or_default();
    let name = name.trim().trim_end_matches(',');
    let steps = runs.lines().skip_while(|line| *line != "Runs == <<");
    let ends = |line: &&str| line.trim_start().starts_with(">>");
    let mut before = 0;
    let own = steps.skip(1).skip_while(move |line| {
        let there = before + 1 >= run;
        before += usize::from(ends(line));
        !there
    });
    let step = own.filter(|line| line.contains("act |->")).nth(at.saturating_sub(1));
    let step = step.unwrap_or_default().trim().trim_end_matches(',');
    Ok(Some(match violated {
        Some(line) => format!("{name}: before step {at}, {}", line.trim()),
        None => format!("{name}: step {at}, {step}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: &str = "---- MODULE Runs ----\n\\* N = 3\n\\* Faulty = {1}\n\\* MaxView = 2\n\
        \\* Values = {\"b0\"}\nNames == <<\n  \"seed 1, slot 1\",\n  \"seed 2, slot 4\"\n>>\n\
        Runs == <<\n  <<\n    [act |-> \"a\"],\n    [act |-> \"b\"]\n  >>,\n  <<\n    \
        [act |-> \"c\"],\n    [act |-> \"d\"]\n  >>\n>>\n====\n";

    #[test]
    fn a_step_that_is_not_allowed_is_named() {
        let stuck = |run: usize, at: usize| {
            let before = "Error: Deadlock reached.\n/\\ at = 1\n/\\ run = 9\n";
            format!("{before}/\\ at = {at}\n/\\ run = {run}\n")
        };
        let why = |said: &str| why_not(said, RUNS).unwrap().unwrap();
        assert_eq!(why(&stuck(1, 2)), "\"seed 1, slot 1\": step 2, [act |-> \"b\"]");
        assert_eq!(why(&stuck(2, 1)), "\"seed 2, slot 4\": step 1, [act |-> \"c\"]");
        let violated = "Error: Invariant Agreement is violated.\n/\\ at = 2\n/\\ run = 2\n";
        assert!(why(violated).starts_with("\"seed 2, slot 4\": before step 2"));
        assert_eq!(why_not("No error has been found.", RUNS), Ok(None));
        assert!(why_not("Parse error", RUNS).is_err());
    }

    #[test]
    fn mutants_are_those_of_which_it_is_claimed() {
        let entries = [
            "    mutant(\"a.b\", \"c\"),\n",
            "    mutant(\n        \"a.d\",\n        \"e\",\n    )\n    .specified(),\n",
            "    mutant(\"a.f\", \"g\").unclaimed(),\n",
            "    mutant(\"a.h\", \"i\").specified(),\n",
        ];
        let list = entries.concat();
        assert_eq!(specified(&list), ["a.d", "a.h"]);
        assert!(specified(include_str!("../../crates/core/src/mutant/list.rs")).len() > 1);
    }

    #[test]
    fn what_the_recorder_says_of_a_group_is_what_tlc_is_told() {
        let config = Group::of(RUNS).unwrap().config();
        for line in ["  N = 3\n", "  Faulty = {1}\n", "  MaxView = 2\n", "  Values = {\"b0\"}\n"] {
            assert!(config.contains(line), "{config}");
        }
        assert!(Group::of("").is_err());
    }
}
