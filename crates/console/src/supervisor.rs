//! The children of `up`. Each reads a pipe from this process as its standard input and stops when
//! the pipe ends, so none outlives its parent, however the parent dies.

use crate::child_log;
use crate::failure::{Failure, Outcome};
use crate::folder::Part;
use pentarchy_io::ports::{OF_GROUPS, Taken};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a child gets to stop by itself.
const GRACE: Duration = Duration::from_secs(5);

/// The processes of a cluster, in the order in which they were started.
#[derive(Default)]
pub struct Supervisor {
    children: Vec<Supervised>,
}

struct Supervised {
    part: Part,
    log: PathBuf,
    arguments: Vec<String>,
    /// Writes the log until the child has said its last words.
    writer: Option<JoinHandle<()>>,
    process: Child,
    leash: Option<ChildStdin>,
    exited: Option<ExitStatus>,
}

/// A child that has ended without being asked to.
pub struct Death {
    /// Which one, and how it ended.
    pub what: String,
    /// The last line that it left in its log.
    pub last_words: Option<String>,
    /// Its log.
    pub log: PathBuf,
}

impl Supervisor {
    /// Starts this program again with other arguments, on a leash. What it says goes to `log`.
    pub fn start(&mut self, part: Part, log: PathBuf, arguments: &[&str]) -> Outcome {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.children.push(Supervised::spawn(part, log, arguments)?);
        Ok(())
    }

    /// The same, before the child that was started last.
    pub fn start_before_last(&mut self, part: Part, log: PathBuf, arguments: &[&str]) -> Outcome {
        let last = self.children.pop();
        let started = self.start(part, log, arguments);
        self.children.extend(last);
        started
    }

    /// Forgets the children that have ended without an error, and of which this says that there is
    /// nothing more for them to do. Names them.
    pub fn done(&mut self, mut is_over: impl FnMut(&Part) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        self.children.retain_mut(|child| {
            let ended = child.exited.or_else(|| child.process.try_wait().ok().flatten());
            let is_done = ended.is_some_and(|status| status.success()) && is_over(&child.part);
            if is_done {
                child.finish_log();
                names.push(child.part.name.clone());
            }
            !is_done
        });
        names
    }

    /// Starts again what has ended, and says what that was.
    pub fn revive(&mut self) -> Outcome<Vec<String>> {
        let mut names = Vec::new();
        for child in &mut self.children {
            child.death();
            if child.exited.is_some() {
                let (part, log) = (child.part.clone(), child.log.clone());
                names.push(part.name.clone());
                *child = Supervised::spawn(part, log, child.arguments.clone())?;
            }
        }
        Ok(names)
    }

    /// What runs, for `cluster.json`.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.children.iter().map(|child| &child.part)
    }

    /// Whether the child of this number has not been seen to end.
    pub fn is_alive(&self, pid: u32) -> bool {
        self.children.iter().any(|child| child.part.pid == pid && child.exited.is_none())
    }

    /// The children that have ended since the last call.
    pub fn deaths(&mut self) -> Vec<Death> {
        self.children.iter_mut().filter_map(Supervised::death).collect()
    }

    /// Kills the child that was started last and waits for it. It is not among [`Self::deaths`].
    pub fn kill_last(&mut self) {
        if let Some(child) = self.children.last_mut() {
            // Refused only if it has ended already.
            let _ = child.process.kill();
            child.wait(GRACE);
            child.part.pid = 0;
        }
    }

    /// Stops the child that was started last and waits for it.
    pub fn stop_last(&mut self) {
        if let Some(last) = self.children.last_mut() {
            last.leash = None;
            last.wait(GRACE);
        }
    }

    /// Stops all children, the last started first, and waits for them. Those that do not stop in
    /// time are killed and named.
    pub fn stop(mut self) -> Vec<String> {
        let mut killed = Vec::new();
        self.stop_last();
        for child in &mut self.children {
            child.leash = None;
        }
        let deadline = Instant::now() + GRACE;
        for child in &mut self.children {
            if !child.wait(deadline.saturating_duration_since(Instant::now())) {
                let _ = child.process.kill();
                let _ = child.process.wait();
                killed.push(child.part.name.clone());
            }
            child.finish_log();
        }
        killed
    }
}

impl Supervised {
    fn spawn(part: Part, log: PathBuf, arguments: Vec<String>) -> Outcome<Self> {
        let cannot = |error: std::io::Error| {
            Failure::Internal(format!("cannot start {}: {error}", part.name))
        };
        let program = std::env::current_exe().map_err(cannot)?;
        let (reader, output) = std::io::pipe().map_err(cannot)?;
        let writer = child_log::follow(reader, &log).map_err(cannot)?;
        let mut process = Command::new(program)
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().map_err(cannot)?)
            .stderr(output)
            // Away from the terminal's Ctrl-C: the parent says when to stop, and in which order.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let leash = process.stdin.take();
        let part = Part { pid: process.id(), ..part };
        Ok(Self { part, log, arguments, writer: Some(writer), process, leash, exited: None })
    }

    fn death(&mut self) -> Option<Death> {
        if self.exited.is_some() {
            return None;
        }
        let status = self.process.try_wait().ok().flatten()?;
        self.exited = Some(status);
        self.finish_log();
        let what = format!("{} (pid {}) ended: {status}", self.part.name, self.part.pid);
        // The number may soon be another process's.
        self.part.pid = 0;
        Some(Death { what, last_words: last_line(&self.log), log: self.log.clone() })
    }

    /// Waits until the last words of a child that has ended are in its log.
    fn finish_log(&mut self) {
        if let Some(writer) = self.writer.take() {
            // A log that could not be written is only short.
            let _ = writer.join();
        }
    }

    /// Whether it ends within `limit`.
    fn wait(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.exited.is_none() {
            self.exited = self.process.try_wait().ok().flatten();
            if self.exited.is_none() {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        true
    }
}

/// The last line of a log, without reading more than its end.
pub fn last_line(path: &Path) -> Option<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    const END_BYTES: u64 = 4096;
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES))).ok()?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end).ok()?;
    let text = String::from_utf8_lossy(&end);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// So many ports in a row for what is started here; they are this process's until they are dropped.
pub fn take_ports(count: usize) -> Outcome<Taken> {
    let taken = u16::try_from(count).map_err(io::Error::other).and_then(|it| OF_GROUPS.take(it));
    taken.map_err(|error| {
        let what = format!("{count} free ports on 127.0.0.1 are needed for the replicas: {error}");
        Failure::Usage(what)
    })
}
