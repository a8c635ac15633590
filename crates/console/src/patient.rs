//! A local cluster that is broken and healed on command, and what can go wrong with its replicas.

use crate::approach::Approach;
use crate::failure::{Failure, Outcome};
use crate::folder::{Part, Running, identity};
use crate::status;
use crate::status::report::{ClusterReport, ReplicaReport, vouched};
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::{Client, Fault};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a command may take to have its effect.
const EFFECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a healed replica may take to catch up.
const LEVEL_LIMIT: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(50);

/// Why a replica that asks for its admission may not have caught up yet, and what follows.
const WAITS: &str = ": a replica that lost its memory often in a short time waits up to 640 s for \
                     its admission; it asks again by itself";

/// Where a replica of a local cluster reads how to misbehave.
pub fn fault_file(replica_folder: &Path) -> PathBuf {
    replica_folder.join("fault")
}

/// What a replica's fault file says.
pub fn read_fault(path: &Path) -> Fault {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// What can be done to a replica.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Its process ends at once.
    Kill,
    /// Its process is frozen.
    Pause,
    /// It does something wrong from now on, or, with no fault, nothing any more.
    Misbehave(Fault),
}

/// A cluster that `up` started, with what it takes to break it.
pub struct Patient {
    config: ClusterConfig,
    client: Client,
    data: PathBuf,
}

impl Patient {
    /// The cluster whose folder this is.
    pub fn of(data: &Path) -> Outcome<Self> {
        let (config, _) = status::cluster(None, data)?;
        let config = status::present(config, None)?;
        let client = status::connect(&config, None)?;
        Ok(Self { config, client, data: data.to_path_buf() })
    }

    /// What everybody may know of the cluster.
    pub const fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// As it is now: a replica that was started again is another process.
    fn running(&self) -> Outcome<Running> {
        let (_, running) = status::cluster(None, &self.data)?;
        running.ok_or_else(|| Failure::Internal("nothing runs there".to_owned()))
    }

    /// The process of a member's replica. It is known by its key: folders may have other numbers.
    fn part(&self, id: u32) -> Outcome<Part> {
        let members = self.config.configuration().members;
        let entry = members.iter().find(|member| member.id.0 == id).ok_or_else(|| {
            let there: Vec<_> = members.iter().map(|member| member.id.0.to_string()).collect();
            let there = there.join(", ");
            Failure::Usage(format!("there are replicas {there}, and no replica {id}"))
        })?;
        let is_its = |part: &Part| identity(&part.folder) == Some(entry.identity);
        self.running()?.replicas.into_iter().find(is_its).ok_or_else(|| {
            Failure::Usage(format!("`up` did not start replica {id}, at {}", entry.address))
        })
    }

    /// What each replica says, and all together.
    pub fn report(&self) -> ClusterReport {
        status::ask(&self.client)
    }

    fn replica(&self, id: u32) -> Option<ReplicaReport> {
        self.report().replicas.into_iter().find(|replica| replica.id == id)
    }

    /// The replicas that do not answer or say that they misbehave on command.
    pub fn broken(&self) -> Vec<u32> {
        let replicas = self.report().replicas.into_iter();
        replicas
            .filter(|replica| !replica.reachable || replica.known.fault.is_some())
            .map(|replica| replica.id)
            .collect()
    }

    /// Does it, and waits until it shows.
    pub fn harm(&self, id: u32, harm: Harm) -> Outcome {
        let part = self.part(id)?;
        match harm {
            Harm::Kill => {
                send(&part, Signal::KILL)?;
                self.await_effect("it is still there", || !is_alive(part.pid))
            }
            Harm::Pause => send(&part, Signal::STOP),
            Harm::Misbehave(fault) => {
                self.command(&part, fault)?;
                let wanted = (fault != Fault::None).then(|| fault.to_string());
                self.await_effect("it does not misbehave as it should", || {
                    self.replica(id).is_some_and(|replica| replica.known.fault == wanted)
                })
            }
        }
    }

    fn command(&self, part: &Part, fault: Fault) -> Outcome {
        let path = fault_file(&part.folder);
        let draft = path.with_extension("new");
        let written = std::fs::write(&draft, format!("{fault}\n"));
        written
            .and_then(|()| std::fs::rename(&draft, &path))
            .map_err(|error| Failure::Internal(format!("cannot write {}: {error}", path.display())))
    }

    fn await_effect(&self, otherwise: &str, mut shows: impl FnMut() -> bool) -> Outcome {
        let deadline = Instant::now() + EFFECT_LIMIT;
        while !shows() {
            if Instant::now() >= deadline {
                let limit = EFFECT_LIMIT.as_secs();
                return Err(Failure::Unwell(format!("{otherwise} after {limit} s")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Undoes whatever was done to a replica and waits until it is level with the others: it
    /// answers, is at work with at least `f` peers, and has executed what `f + 1` others had when
    /// it first answered.
    pub fn heal(&self, id: u32) -> Outcome<ReplicaReport> {
        let part = self.part(id)?;
        self.command(&part, Fault::None)?;
        if is_alive(part.pid) {
            send(&part, Signal::CONT)?;
        } else {
            let supervisor = Part { pid: self.running()?.supervisor, ..part };
            send(&supervisor, Signal::USR1)?;
        }
        let deadline = Instant::now() + LEVEL_LIMIT;
        let (mut goal, bar) = (None, Approach::default());
        loop {
            let report = self.report();
            if report.verdict.lost {
                bar.end();
                return Err(Failure::Unwell(format!(
                    "{}. What can be saved, and how to begin anew: docs/operations.md, \"A group \
                     that is lost\"",
                    report.verdict.text()
                )));
            }
            let theirs = executed_by_others(&report, id, self.config.f);
            let mine = report.replicas.into_iter().find(|replica| replica.id == id);
            let waits = mine.as_ref().is_some_and(|replica| replica.known.phase == "joining");
            let why = if waits { WAITS } else { "" };
            match mine.filter(|replica| replica.reachable && replica.known.fault.is_none()) {
                Some(replica) => {
                    let goal = *goal.get_or_insert(theirs);
                    if self.is_level(&replica, goal) {
                        bar.end();
                        return Ok(replica);
                    }
                    bar.show(&replica, goal);
                }
                None => bar.wait(),
            }
            if Instant::now() >= deadline {
                let data = self.data.display();
                return Err(Failure::Unwell(format!(
                    "replica {id} has not caught up after {} s{why}; see: pentarchy status --data \
                     {data}",
                    LEVEL_LIMIT.as_secs(),
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn is_level(&self, replica: &ReplicaReport, goal: u64) -> bool {
        let known = &replica.known;
        known.is_level() && known.executed >= goal && known.peers.len() >= self.config.f
    }
}

/// What at least `f + 1` of the others say that they have executed, or all that answer if they are
/// fewer.
fn executed_by_others(report: &ClusterReport, id: u32, f: usize) -> u64 {
    let others = report.replicas.iter().filter(|other| other.id != id && other.reachable);
    vouched(others.map(|other| other.known.executed), f)
}

/// The supervisor takes a process out of `cluster.json` when it has ended, before its number can be
/// another's for long.
fn send(part: &Part, signal: Signal) -> Outcome {
    let pid = i32::try_from(part.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::Internal("cluster.json is damaged".to_owned()))?;
    kill_process(pid, signal).map_err(|error| {
        Failure::Unwell(format!("cannot reach {} (pid {}): {error}", part.name, part.pid))
    })
}

/// Whether a process runs; one that has ended and was not waited for does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_cluster::generate::{GroupOptions, NewCluster};

    #[test]
    fn the_goal_is_what_f_and_one_more_of_the_others_have_executed() {
        let addresses: Vec<String> = (1..6).map(|port| format!("a:{port}")).collect();
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let goal = |executed: [Option<u64>; 5]| {
            let replicas = (0..).zip(executed).map(|(id, executed)| {
                let answer = executed.map(|slot| format!(r#"{{"executed":{slot}}}"#));
                let answer = answer.as_ref().map(|text| text.as_bytes());
                ReplicaReport::new(id, "a:1", answer.ok_or(&"gone".to_owned()))
            });
            executed_by_others(
                &ClusterReport::new(&config.configuration(), replicas.collect()),
                0,
                2,
            )
        };
        assert_eq!(goal([Some(900), Some(9), Some(8), Some(7), Some(6)]), 7);
        assert_eq!(goal([Some(1), Some(1 << 60), Some(1 << 60), Some(7), Some(6)]), 7, "f liars");
        assert_eq!(goal([None, Some(9), Some(8), None, None]), 8);
        assert_eq!(goal([Some(3), None, None, None, None]), 0);
    }
}
