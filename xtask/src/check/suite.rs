//! The tests: one build of all, which has seeded bugs too so that the simulator's steps need no
//! other, and then the programs that came of it, as many at a time as there are processors.

use super::missing::missing;
use super::times::{Time, counts, slowest, times};
use super::{Checked, command};
use crate::Failure;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// With what all tests are built.
pub const FEATURES: [&str; 2] = ["--features", "pentarchy/mutants"];

/// Set for tests that then go through more than they do in every check.
const DEEP: &str = "PENTARCHY_DEEP";

/// How many of the slowest tests are named at the end.
const NAMED: usize = 12;

/// A program that the build has made.
struct Program {
    /// The folder of its crate.
    folder: PathBuf,
    /// What it is called in its crate: of a library's own tests, as the crate.
    name: String,
    path: PathBuf,
    is_test: bool,
}

impl Program {
    /// One of the messages of cargo, if it is about a program.
    fn of(message: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        let path = message["executable"].as_str()?.into();
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let name = message["target"]["name"].as_str()?.to_owned();
        Some(Self { folder, name, path, is_test: message["profile"]["test"] == true })
    }

    /// A name for people.
    fn title(&self) -> String {
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("{folder}/{}", self.name)
    }
}

/// Builds all tests, and the programs that they start.
fn build(root: &Path) -> Result<Vec<Program>, Failure> {
    let mut cargo = command();
    cargo.current_dir(root).args(["test", "--workspace", "--no-run"]).args(FEATURES);
    cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(Program::of).collect())
}

/// The program that simulates, with seeded bugs, as tests have it.
pub fn simulator(root: &Path) -> Result<PathBuf, Failure> {
    let programs = build(root)?;
    let found = programs.into_iter().find(|it| !it.is_test && it.name == "pentarchy");
    found.map(|it| it.path).ok_or_else(|| "the tests are built without the binary".into())
}

/// The program as users have it.
pub fn released(root: &Path) -> Result<PathBuf, Failure> {
    let begun = Instant::now();
    super::cargo(root, &["build", "--release", "--quiet", "-p", "pentarchy"], &[])?;
    println!("      built in {:.1} s", begun.elapsed().as_secs_f32());
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    Ok(target.join("release/pentarchy"))
}

/// Builds and runs the tests; with `deep`, of those that say so, more.
pub fn test(checked: &mut Checked, deep: bool) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut programs = build(checked.root)?;
    programs.retain(|it| it.is_test);
    if deep {
        programs.retain(|it| goes_deep(&it.folder));
    }
    println!("      built in {:.1} s", begun.elapsed().as_secs_f32());
    // The longest first, so that none of them is left for the end.
    programs.sort_by_key(|it| std::cmp::Reverse(fs::metadata(&it.path).map_or(0, |it| it.len())));
    let logs = checked.root.join("target/check");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let outcomes = run_all(&programs, &logs, deep);
    let (mut failures, mut all) = (Vec::new(), Vec::new());
    let (mut passed, mut failed) = (0, 0);
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => {
                for (missing, test) in outcome.left_out {
                    checked.leave_out(missing, test);
                }
                all.extend(outcome.times);
                (passed, failed) = (passed + outcome.passed, failed + outcome.failed);
                failures.extend(outcome.failure);
            }
            Err(failure) => failures.push(failure),
        }
    }
    slowest(&mut all, NAMED).for_each(|time| println!("      {time}"));
    println!("{passed} passed, {failed} failed");
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Whether any test of a crate goes through more if it is told to.
fn goes_deep(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| match path.extension() {
        Some(ending) if ending == "rs" => {
            fs::read_to_string(&path).is_ok_and(|text| text.contains(DEEP))
        }
        _ => path.is_dir() && goes_deep(&path),
    })
}

/// What came of the tests of one program.
struct Outcome {
    times: Vec<Time>,
    left_out: Vec<(String, String)>,
    passed: usize,
    /// Without those that were left out.
    failed: usize,
    failure: Option<Failure>,
}

fn run_all(programs: &[Program], logs: &Path, deep: bool) -> Vec<Result<Outcome, Failure>> {
    let jobs = std::thread::available_parallelism().map_or(1, |jobs| jobs.get());
    let queue = Mutex::new(programs.iter().collect::<VecDeque<_>>());
    let next = || queue.lock().expect("no panic while popping").pop_front();
    let work = || std::iter::from_fn(next).map(|it| run(it, logs, deep)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|it| it.join().expect("no test runs in here")).collect()
    })
}

/// Runs the tests of one program, and prints a line.
fn run(program: &Program, logs: &Path, deep: bool) -> Result<Outcome, Failure> {
    let title = program.title();
    let log = logs.join(format!("{}.log", title.replace('/', "-")));
    let fail = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(fail)?;
    let begun = Instant::now();
    let mut command = Command::new(&program.path);
    // Times are not a stable option yet; the compiler has had no part in this any more.
    command.args(["--color", "never", "-Zunstable-options", "--report-time"]);
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &program.folder);
    if deep {
        command.env(DEEP, "1");
    }
    command.current_dir(&program.folder).stdin(Stdio::null());
    command.stdout(file.try_clone().map_err(fail)?).stderr(file);
    let status = command.status().map_err(|error| format!("{title}: {error}"))?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(fail)?).into_owned();
    let times = times(&title, &text);
    let found = missing(&text);
    let failed = !status.success() && !found.explains_all;
    let verdict = if failed { "FAILED" } else { "ok" };
    let count = times.len();
    println!("      {title:<36} {verdict}, {count} tests, {:.1} s", begun.elapsed().as_secs_f32());
    let failure = failed.then(|| {
        let told = text.split_once("\nfailures:\n").map_or(text.as_str(), |(_, told)| told);
        format!("{title}:\n{told}\nall that it said: {}", log.display())
    });
    let (passed, failed) = counts(&text);
    let failed = failed.saturating_sub(found.left_out.len());
    Ok(Outcome { times, left_out: found.left_out, passed, failed, failure })
}
