//! `up` in the background of another command.

use crate::failure::{Failure, Outcome};
use crate::folder::Held;
use crate::options::GroupArgs;
use crate::supervisor::last_line;
use pentarchy_cluster::config::Durability;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the background half says on stdout once the cluster answers; else it says why it does not.
pub const READY: &str = "ready";

/// A cluster that ends with the process that started it, however that ends. Dropping this stops the
/// cluster and waits for it.
pub struct Background {
    process: Child,
}

impl Background {
    /// Starts a cluster, in a folder that is to be made, and waits until it answers.
    pub fn start(
        group: &GroupArgs,
        durability: Durability,
        port: u16,
        data: &Path,
    ) -> Outcome<Self> {
        group.replicas()?;
        let (held, _) = Held::take(data)?;
        let mut options = group.words();
        let port = port.to_string();
        let more = ["--durability", durability.name(), "--port", &port, "--leash"];
        options.extend(more.map(str::to_owned));
        Ok(Self { process: start(held, &options, Stdio::piped())? })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // There is nobody to tell.
        let _ = self.process.wait();
    }
}

/// Starts `up` with these options in the folder, and waits until it says that the cluster answers.
pub fn start(held: Held, options: &[String], stdin: Stdio) -> Outcome<Child> {
    let log = held.root().join("up.log");
    let cannot = |error: std::io::Error| {
        Failure::Internal(format!("cannot start in the background: {error}"))
    };
    let mut open = OpenOptions::new();
    let output = open.create(true).write(true).truncate(true).open(&log).map_err(cannot)?;
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(["up", "--background"]).args(options).arg("--data").arg(held.root());
    command.stdin(stdin).stdout(Stdio::piped()).stderr(output);
    // The other process is to hold the folder.
    drop(held);
    let mut child = command.spawn().map_err(cannot)?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::Internal("no pipe".to_owned()))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(cannot)?;
    if line.trim_end() == READY {
        return Ok(child);
    }
    let code = child.wait().ok().and_then(|status| status.code());
    let why = match line.trim_end() {
        "" => last_line(&log).unwrap_or_else(|| format!("it ended; log: {}", log.display())),
        why => why.to_owned(),
    };
    Err(if code == Some(2) { Failure::Usage(why) } else { Failure::Unwell(why) })
}
