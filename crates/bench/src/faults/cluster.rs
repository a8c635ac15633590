//! A local cluster that lives as long as one measurement under faults.

use crate::files::temporary_folder;
use pentarchy_cluster::config::{ClusterConfig, Durability};
use pentarchy_console::background::Background;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::{self, Part};
use pentarchy_console::options::GroupArgs;
use pentarchy_console::patient::{Harm, Patient};
use pentarchy_console::status::report::ReplicaReport;
use pentarchy_console::supervisor::take_ports;
use pentarchy_io::ports::Taken;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the replicas may take to catch up with each other.
const LEVEL_LIMIT: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(50);

/// Fresh processes with fresh keys, as `up` starts them, on a leash: they are stopped when this is
/// dropped, and also if this process ends in any other way.
pub struct Cluster {
    /// What clients must know.
    pub config: ClusterConfig,
    patient: Patient,
    data: PathBuf,
    // In this order: the processes end before their port is given back and their folder removed.
    _processes: Background,
    _port: Taken,
    _folder: TempDir,
}

impl Cluster {
    /// Starts one and waits until it answers.
    pub fn start(group: &GroupArgs, durability: Durability) -> Outcome<Self> {
        let folder = temporary_folder("pentarchy-bench-")?;
        let data = folder.path().join("data");
        let port = take_ports(1)?;
        let processes = Background::start(group, durability, port.numbers().start, &data)?;
        let config = ClusterConfig::load(&data.join("cluster.toml"))?;
        let patient = Patient::of(&data)?;
        Ok(Self { config, patient, data, _processes: processes, _port: port, _folder: folder })
    }

    /// The replicas' processes, by id.
    pub fn replicas(&self) -> Outcome<Vec<Part>> {
        let running = folder::running(&self.data)?;
        let running =
            running.ok_or_else(|| Failure::Unwell("the cluster has stopped".to_owned()))?;
        Ok(running.replicas)
    }

    /// Waits until all replicas have caught up with each other, and says which is primary.
    pub fn level_primary(&self) -> Outcome<u32> {
        let deadline = Instant::now() + LEVEL_LIMIT;
        loop {
            let report = self.patient.report();
            if report.diverged {
                let what = "two replicas have different states at one checkpoint: please report it";
                return Err(Failure::Unwell(what.to_owned()));
            }
            let mut replicas = report.replicas.iter();
            let primary = replicas.find(|replica| replica.known.role == "primary");
            match primary.filter(|_| report.level) {
                Some(primary) => return Ok(primary.id),
                None if Instant::now() >= deadline => {
                    let seconds = LEVEL_LIMIT.as_secs();
                    let what = format!(
                        "the replicas have not caught up with each other after {seconds} s"
                    );
                    return Err(Failure::Unwell(what));
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// The highest view that any replica says it is in; 0 if none answers.
    pub fn view(&self) -> u64 {
        let report = self.patient.report();
        report.replicas.iter().map(|replica| replica.known.view).max().unwrap_or_default()
    }

    /// Breaks a replica.
    pub fn harm(&self, id: u32, harm: Harm) -> Outcome {
        self.patient.harm(id, harm)
    }

    /// Sends a replica's process a signal, and does not wait until it shows.
    pub fn signal(&self, part: &Part, signal: Signal) -> Outcome {
        let pid = i32::try_from(part.pid).ok().and_then(Pid::from_raw);
        let sent = pid.is_some_and(|pid| kill_process(pid, signal).is_ok());
        let ended = || Failure::Unwell(format!("{} (pid {}) has ended", part.name, part.pid));
        sent.then_some(()).ok_or_else(ended)
    }

    /// Heals a replica and waits until it has caught up. Gives what it says then.
    pub fn heal(&self, id: u32) -> Outcome<ReplicaReport> {
        self.patient.heal(id)
    }

    /// What a replica says of itself.
    pub fn replica(&self, id: u32) -> Outcome<ReplicaReport> {
        let mut replicas = self.patient.report().replicas.into_iter();
        let found = replicas.find(|replica| replica.id == id && replica.reachable);
        found.ok_or_else(|| Failure::Unwell(format!("replica {id} does not answer")))
    }

    /// The next replica after this one.
    pub fn after(&self, id: u32) -> u32 {
        (id + 1) % self.config.replicas.len() as u32
    }
}

impl Drop for Cluster {
    /// Wakes whoever is frozen: a process that is not awake does not see that it is to stop.
    fn drop(&mut self) {
        for part in self.replicas().unwrap_or_default() {
            if let Some(pid) = i32::try_from(part.pid).ok().and_then(Pid::from_raw) {
                // Whoever is dead needs no waking.
                let _ = kill_process(pid, Signal::CONT);
            }
        }
    }
}
