//! Fuzzing: `fuzz/driver` puts libFuzzer in front of the targets of `fuzz`. It is built here with
//! the instrumentation that libFuzzer needs, all of which the stable compiler has.

use crate::Failure;
use pico_args::Arguments;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Seconds for each target in the check: enough to find a bound that is gone.
pub const CHECK_SECONDS: u64 = 10;

/// Seconds for each target unless told otherwise.
const SECONDS: u64 = 60;

/// Counters at every edge, their places, and what is compared.
const INSTRUMENTATION: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The longest input that is kept in a corpus.
const INPUT_BYTES_MAX: u64 = 4096;

/// What is kept for one target, in bytes; the largest inputs go first.
const CORPUS_BYTES_MAX: u64 = 48 << 10;

/// Inputs that are kept for one target.
const CORPUS_INPUTS_MAX: usize = 96;

/// How targets are run.
const RUN: [&str; 4] =
    ["-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=20", "-report_slow_units=20"];

/// `cargo xtask fuzz`.
pub fn command(root: &Path, mut arguments: Arguments) -> Result<(), Failure> {
    let said = |error: pico_args::Error| error.to_string();
    let seconds: Option<u64> = arguments.opt_value_from_str("--seconds").map_err(said)?;
    let input: Option<PathBuf> = arguments.opt_value_from_str("--input").map_err(said)?;
    let renew = arguments.contains("--renew");
    let target: Option<String> = arguments.opt_free_from_str().map_err(said)?;
    crate::finish(arguments)?;
    let fuzzer = Fuzzer::build(root)?;
    let targets = fuzzer.targets(target.as_deref())?;
    match (input, renew) {
        (Some(input), _) if target.is_some() => fuzzer.replay(&targets[0], &input),
        (Some(_), _) => Err("say for which target: cargo xtask fuzz TARGET --input FILE".into()),
        (None, true) => fuzzer.renew(&targets),
        (None, false) => fuzzer.run(&targets, seconds.unwrap_or(SECONDS)),
    }
}

/// The step of the check: every target for a short time.
pub fn check(root: &Path) -> Result<(), Failure> {
    let fuzzer = Fuzzer::build(root)?;
    let targets = fuzzer.targets(None)?;
    fuzzer.run(&targets, CHECK_SECONDS)
}

/// The built driver and its folders.
struct Fuzzer {
    root: PathBuf,
    binary: PathBuf,
    /// What runs find, and their logs.
    work: PathBuf,
}

impl Fuzzer {
    fn build(root: &Path) -> Result<Self, Failure> {
        let host = host()?;
        let target_dir = root.join("target/fuzz");
        let driver = root.join("fuzz/driver");
        let mut cargo = cargo(&driver);
        // With a target named, build scripts are built without the instrumentation.
        cargo.args(["build", "--release", "--locked", "--quiet", "--target", &host]);
        cargo.env("CARGO_TARGET_DIR", &target_dir);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\u{1f}"));
        succeed(&mut cargo)?;
        let binary = target_dir.join(host).join("release/pentarchy-fuzz-driver");
        Ok(Self { root: root.to_path_buf(), binary, work: target_dir.join("runs") })
    }

    fn corpus(&self, target: &str) -> PathBuf {
        self.root.join("fuzz/corpora").join(target)
    }

    /// The names of all targets, or the one.
    fn targets(&self, only: Option<&str>) -> Result<Vec<String>, Failure> {
        let listed = output(self.driver("").env("PENTARCHY_FUZZ_LIST", "1"))?;
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        if let Some(only) = only {
            if !names.iter().any(|name| name == only) {
                return Err(format!("no target {only}; there are: {}", names.join(", ")));
            }
            names = vec![only.to_owned()];
        }
        Ok(names)
    }

    fn driver(&self, target: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(&self.root).env("PENTARCHY_FUZZ_TARGET", target);
        command
    }

    /// Runs one input, with all that it prints.
    fn replay(&self, target: &str, input: &Path) -> Result<(), Failure> {
        succeed(self.driver(target).arg(input))
    }

    /// Runs targets, as many at a time as there are processors, and says what came of each.
    fn run(&self, targets: &[String], seconds: u64) -> Result<(), Failure> {
        let jobs = std::thread::available_parallelism().map_or(1, |jobs| jobs.get());
        let queue = Mutex::new(targets.iter().collect::<VecDeque<_>>());
        let failures = Mutex::new(Vec::new());
        let next = || queue.lock().expect("no panic while popping").pop_front();
        let work = || {
            while let Some(target) = next() {
                match self.run_one(target, seconds) {
                    Ok(line) => println!("      {line}"),
                    Err(failure) => {
                        failures.lock().expect("no panic while pushing").push(failure);
                    }
                }
            }
        };
        std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
        let failures = failures.into_inner().expect("no panic while pushing");
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    fn run_one(&self, target: &str, seconds: u64) -> Result<String, Failure> {
        let folder = self.work.join(target);
        let found = folder.join("found");
        make(&found)?;
        let artifacts = format!("-artifact_prefix={}/", folder.display());
        let log = folder.join("log");
        let stderr = fs::File::create(&log).map_err(|error| named(&log, error))?;
        let mut command = self.driver(target);
        command.args(RUN).arg(format!("-max_total_time={seconds}")).arg(&artifacts);
        command.arg(format!("-max_len={}", 4 * INPUT_BYTES_MAX)).arg(&found);
        command.arg(self.corpus(target)).stdout(Stdio::null()).stderr(stderr);
        let status = command.status().map_err(|error| named(&self.binary, error))?;
        let text = fs::read(&log).map_err(|error| named(&log, error))?;
        let text = String::from_utf8_lossy(&text);
        if status.success() {
            return Ok(format!("{target:<13} {}", Progress::read(&text)));
        }
        let input = artifact(&text).unwrap_or("(no input was kept)");
        Err(format!(
            "{target} FAILED\n{}\nrepeat: cargo xtask fuzz {target} --input {input}",
            cause(&text)
        ))
    }

    /// Makes the corpora anew: seeds, what was kept and what runs found, as few inputs as reach all
    /// that these reach together.
    fn renew(&self, targets: &[String]) -> Result<(), Failure> {
        let seeds = self.work.join("seeds");
        remove(&seeds)?;
        make(&seeds)?;
        succeed(self.driver("").env("PENTARCHY_FUZZ_SEEDS", &seeds))?;
        for target in targets {
            let (kept, merged) = (self.corpus(target), self.work.join(target).join("merged"));
            let found = self.work.join(target).join("found");
            remove(&merged)?;
            [&merged, &found, &kept].into_iter().try_for_each(|folder| make(folder))?;
            let mut command = self.driver(target);
            command.arg("-merge=1").args(RUN).arg(format!("-max_len={INPUT_BYTES_MAX}"));
            command.args([&merged, &seeds.join(target), &kept, &found]);
            succeed(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
            let (inputs, bytes) = keep(&merged, &kept)?;
            println!("      {target:<13} {inputs} inputs, {bytes} bytes");
        }
        Ok(())
    }
}

/// Replaces the inputs that libFuzzer named by those in `from`, the smallest first. Inputs with
/// other names were found to break something once, and stay.
fn keep(from: &Path, to: &Path) -> Result<(usize, u64), Failure> {
    for path in files(to)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            fs::remove_file(&path).map_err(|error| named(&path, error))?;
        }
    }
    let size = |path: &Path| fs::metadata(path).map_or(u64::MAX, |known| known.len());
    let mut inputs: Vec<(u64, PathBuf)> =
        files(from)?.into_iter().map(|path| (size(&path), path)).collect();
    inputs.sort();
    let (mut count, mut total) = (0, 0);
    for (length, path) in inputs {
        if count == CORPUS_INPUTS_MAX || total + length > CORPUS_BYTES_MAX {
            break;
        }
        let name = path.file_name().expect("a file has a name");
        fs::copy(&path, to.join(name)).map_err(|error| named(&path, error))?;
        (count, total) = (count + 1, total + length);
    }
    Ok((count, total))
}

/// Where a run came to.
#[derive(Default)]
struct Progress<'a> {
    executions: u64,
    per_second: u64,
    coverage: &'a str,
    corpus: &'a str,
    peak_mb: &'a str,
}

impl<'a> Progress<'a> {
    /// Reads what libFuzzer prints at its end.
    fn read(log: &'a str) -> Self {
        let mut progress = Self::default();
        for line in log.lines() {
            let number = |text: &str| text.trim().parse().unwrap_or(0);
            if let Some(value) = line.strip_prefix("stat::number_of_executed_units:") {
                progress.executions = number(value);
            } else if let Some(value) = line.strip_prefix("stat::average_exec_per_sec:") {
                progress.per_second = number(value);
            } else if let Some(value) = line.strip_prefix("stat::peak_rss_mb:") {
                progress.peak_mb = value.trim();
            } else if line.starts_with('#') && line.contains("DONE") {
                let mut words = line.split_whitespace();
                while let Some(word) = words.next() {
                    match word {
                        "cov:" => progress.coverage = words.next().unwrap_or_default(),
                        "corp:" => progress.corpus = words.next().unwrap_or_default(),
                        _ => {}
                    }
                }
            }
        }
        progress
    }
}

impl std::fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { executions, per_second, coverage, corpus, peak_mb } = self;
        write!(f, "{executions:>10} executions, {per_second:>7}/s, {coverage:>6} edges, ")?;
        write!(f, "corpus {corpus}, peak {peak_mb} MB")
    }
}

/// The lines of a log that say what went wrong.
fn cause(log: &str) -> String {
    let telling = |line: &&str| {
        line.contains("panicked at") || line.contains("ERROR: libFuzzer") || line.contains("assert")
    };
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = log.lines();
    while let Some(line) = rest.next() {
        if telling(&line) {
            lines.push(line);
            lines.extend(rest.by_ref().take(3));
            break;
        }
    }
    lines.join("\n")
}

/// The file of the input that failed.
fn artifact(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path)
}

fn host() -> Result<String, Failure> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".into())
}

fn cargo(folder: &Path) -> Command {
    let mut command = crate::check::command();
    command.current_dir(folder);
    command
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

fn output(command: &mut Command) -> Result<String, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
    String::from_utf8(output.stdout).map_err(|_| format!("{program} printed no text"))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| named(folder, error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().map_err(|error| named(folder, error))
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| named(folder, error))
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(named(folder, error)),
        _ => Ok(()),
    }
}

fn named(path: &Path, error: impl std::fmt::Display) -> Failure {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_understood() {
        let log = "#128\tDONE   cov: 412 ft: 900 corp: 31/2048b lim: 4096 exec/s: 12 rss: 60Mb\n\
                   stat::number_of_executed_units: 128\nstat::average_exec_per_sec:     12\n\
                   stat::peak_rss_mb:              61\n";
        let line = Progress::read(log).to_string();
        for part in ["128 executions", "12/s", "412 edges", "corpus 31/2048b", "peak 61 MB"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_failure_names_its_cause_and_its_input() {
        let log = "INFO: Loaded\nthread panicked at src/a.rs:1:2:\nindex out of bounds\nb\nc\nd\n\
                   artifact_prefix='/x/'; Test unit written to /x/crash-1\n";
        assert!(cause(log).contains("index out of bounds"));
        assert_eq!(artifact(log), Some("/x/crash-1"));
    }
}
