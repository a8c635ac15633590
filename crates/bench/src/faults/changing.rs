//! A group whose members are changed while it is measured.

use crate::files::temporary_folder;
use crate::group::text;
use crate::interrupt::Interrupt;
use pentarchy_cluster::KeyPair;
use pentarchy_cluster::administration::{Administrator, Alteration, Switch, Terms, alter, refresh};
use pentarchy_cluster::chain_file;
use pentarchy_cluster::config::{ClusterConfig, Durability};
use pentarchy_cluster::following::Follower;
use pentarchy_cluster::generate::{GroupOptions, NewCluster, NewMember, administrator_key_name};
use pentarchy_cluster::node::StartError;
use pentarchy_cluster::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::Part;
use pentarchy_console::options::GroupArgs;
use pentarchy_console::status;
use pentarchy_console::status::report::ClusterReport;
use pentarchy_console::supervisor::{Supervisor, last_line, take_ports};
use pentarchy_core::change::{Change, Shown};
use pentarchy_core::ids::MemberId;
use pentarchy_io::ports::Taken;
use pentarchy_protocols::Descriptor;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long an administrator waits for the group.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a change may take.
const CHANGE_LIMIT: Duration = Duration::from_secs(300);

/// After this an administrator's change is void.
const EXPIRES: Duration = Duration::from_secs(600);

/// Between two questions whether a change has begun: each is an ordered request. ...
const LOOK: Duration = Duration::from_millis(5);

/// ... Later on, they are to be no part of the load.
const LATER_LOOK: Duration = Duration::from_millis(50);

/// A change that is prepared: all is there that it needs.
pub struct Prepared(Change);

impl Prepared {
    /// By which protocol the group is to order.
    pub fn protocol(&self) -> String {
        self.0.next.protocol.clone()
    }
}

/// Replica processes, of which others take the places, and their administrator. They are stopped
/// when it is dropped.
pub struct ChangingGroup {
    /// What clients must know of the group, as it was before its last change.
    pub config: ClusterConfig,
    /// The protocol with which it began, ...
    first: String,
    /// ... and the last of its members then.
    last: MemberId,
    administrator: Administrator,
    // In this order: the processes end before their ports are given back and their folder removed.
    supervisor: Supervisor,
    ports: Taken,
    started: usize,
    folder: TempDir,
}

impl ChangingGroup {
    /// Starts one that so many machines can join. Waits until it answers.
    pub fn start(group: &GroupArgs, durability: Durability, joins: usize) -> Outcome<Self> {
        let n = group.replicas()?;
        let folder = temporary_folder("pentarchy-bench-")?;
        let ports = take_ports(n + joins)?;
        let addresses: Vec<_> = ports.numbers().take(n).map(address).collect();
        let options = GroupOptions { durability, ..group.options() };
        let cluster = NewCluster::generate(&addresses, &options);
        cluster.write(folder.path())?;
        let key = folder.path().join(administrator_key_name(1));
        let key = KeyPair::load(&key).map_err(|error| Failure::Internal(error.to_string()))?;
        let administrator = Administrator::connect(&cluster.config, key)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        let supervisor = Supervisor::default();
        let config = cluster.config;
        let first = config.protocol.clone();
        let last = MemberId(u32::try_from(n - 1).unwrap_or(u32::MAX));
        let mut group =
            Self { config, first, last, administrator, supervisor, ports, started: 0, folder };
        for id in 0..n {
            let keys = group.folder.path().join(format!("replica-{id}"));
            group.start_replica(&keys, &["--id", &id.to_string()])?;
        }
        group.show()?;
        Ok(group)
    }

    /// Starts the next machine, which takes the next port.
    fn start_replica(&mut self, keys: &Path, which: &[&str]) -> Outcome {
        let config = self.folder.path().join("cluster.toml");
        let files = ["replica", "--leash", "--config", text(&config)?, "--keys", text(keys)?];
        let part = Part {
            name: format!("machine {}", self.started),
            pid: 0,
            address: self.next_address()?,
            metrics: None,
            folder: keys.to_owned(),
        };
        self.started += 1;
        self.supervisor.start(part, keys.join("replica.log"), &[&files[..], which].concat())
    }

    /// The change after which the group orders by another protocol that withstands the same, or by
    /// the first one, if it orders by another. None if these members can run no other.
    pub fn switched(&self) -> Outcome<Option<Prepared>> {
        let shown = self.show()?;
        let Some(first) = protocols::find(&self.first) else { return Ok(None) };
        let is_like = |it: &&Descriptor| {
            let (one, other) = (&it.rules, &first.rules);
            // New machines lack the secret that devices share.
            (one.fault_model, one.counter.is_some()) == (other.fault_model, other.counter.is_some())
        };
        let others: Vec<_> = match shown.configuration.protocol == self.first {
            true => first.switches_to().filter(is_like).collect(),
            false => vec![first],
        };
        let changes = others.iter().filter_map(|other| {
            let session_key = self.config.session_key;
            let switch = Some(Switch { protocol: other.rules.name, session_key });
            alter(&shown, &Alteration { switch, ..Alteration::default() }, &self.terms()).ok()
        });
        Ok(changes.map(Prepared).next())
    }

    fn next_address(&self) -> Outcome<String> {
        let port = self.ports.numbers().nth(self.started);
        port.map(address).ok_or_else(|| Failure::Internal("no port is left".to_owned()))
    }

    fn show(&self) -> Outcome<Shown> {
        self.administrator.show(LIMIT).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &impl Display) -> Failure {
        let logs = self.supervisor.parts().map(|part| part.folder.join("replica.log"));
        let words: Vec<String> = logs.filter_map(|log: PathBuf| last_line(&log)).collect();
        Failure::Unwell(format!("{error}; the replicas said: {}", words.join("; ")))
    }

    /// The change after which each member signs by a new key.
    pub fn refreshed(&self) -> Outcome<Prepared> {
        Ok(Prepared(refresh(&self.show()?, &self.terms())))
    }

    const fn terms(&self) -> Terms {
        Terms { expires: EXPIRES, counter: self.config.counter }
    }

    /// The change after which a new machine has the place of the member that has been one for
    /// longest. Starts that machine.
    pub fn replaced(&mut self) -> Outcome<Prepared> {
        let oldest = self.oldest()?;
        self.with_new_machine(oldest.as_slice())
    }

    /// The change after which a new machine is a member, too. Starts that machine.
    pub fn joined(&mut self) -> Outcome<Prepared> {
        self.with_new_machine(&[])
    }

    /// The change after which the member is none any more that has been one for longest.
    pub fn left(&self) -> Outcome<Prepared> {
        let oldest = self.oldest()?;
        self.altered(&Alteration { leaves: oldest.as_slice(), ..Alteration::default() })
    }

    /// The change after which the last of the members that began is none any more.
    pub fn left_by_last(&self) -> Outcome<Prepared> {
        self.altered(&Alteration { leaves: &[self.last], ..Alteration::default() })
    }

    /// Kills the process of whoever is primary, and waits until it has ended.
    pub fn kill_primary(&mut self) -> Outcome {
        let report = self.report()?;
        let primary = report.replicas.iter().find(|replica| replica.known.role == "primary");
        let pid = primary.and_then(|replica| replica.answer.get("pid")?.as_i64());
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let Some(pid) = pid else { return Err(self.failed(&"no replica says that it is primary")) };
        kill_process(pid, Signal::KILL)
            .map_err(|error| Failure::Unwell(format!("cannot kill the primary: {error}")))?;
        while self.supervisor.deaths().is_empty() {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Starts again what was killed, and waits until all members have caught up with each other.
    pub fn revive(&mut self, interrupt: &Interrupt) -> Outcome {
        self.write_where_it_is()?;
        self.supervisor.revive()?;
        let begun = Instant::now();
        while !self.report()?.level {
            if begun.elapsed() > CHANGE_LIMIT {
                let seconds = CHANGE_LIMIT.as_secs();
                return Err(self.failed(&format!("not all have caught up after {seconds} s")));
            }
            interrupt.sleep(LATER_LOOK)?;
        }
        Ok(())
    }

    /// Fails if members have different states at one checkpoint, or do not catch up.
    pub fn assert_level(&self) -> Outcome {
        let begun = Instant::now();
        loop {
            let report = self.report()?;
            if report.diverged {
                return Err(self.failed(&"members have different states at one checkpoint"));
            }
            if report.level {
                return Ok(());
            }
            if begun.elapsed() > LIMIT {
                return Err(self.failed(&"the members have not caught up with each other"));
            }
            std::thread::sleep(LATER_LOOK);
        }
    }

    /// What all members say.
    fn report(&self) -> Outcome<ClusterReport> {
        let present = status::present(self.config.clone(), None)?;
        Ok(status::ask(&status::connect(&present, None)?))
    }

    fn oldest(&self) -> Outcome<Option<MemberId>> {
        Ok(self.show()?.configuration.members.iter().map(|member| member.id).min())
    }

    fn altered(&self, wanted: &Alteration<'_>) -> Outcome<Prepared> {
        let change = alter(&self.show()?, wanted, &self.terms());
        Ok(Prepared(change.map_err(|error| Failure::Internal(error.to_string()))?))
    }

    fn with_new_machine(&mut self, leaves: &[MemberId]) -> Outcome<Prepared> {
        let new = NewMember::generate(self.config.group, &self.next_address()?)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        let joins = [new.card().clone()];
        let change =
            self.altered(&Alteration { joins: &joins, leaves, ..Alteration::default() })?;
        let keys = self.folder.path().join(format!("machine-{}", self.started));
        new.write(&keys)?;
        self.write_where_it_is()?;
        self.start_replica(&keys, &["--join"])?;
        Ok(change)
    }

    /// Writes beside `cluster.toml` how the group has changed. A machine that joins would not find
    /// it any more once all members have other addresses.
    fn write_where_it_is(&mut self) -> Outcome {
        let failed = |error: StartError| Failure::Internal(error.to_string());
        let follower = Follower::new(self.config.clone(), KeyPair::generate()).map_err(failed)?;
        self.config = follower.present().map_err(failed)?;
        let chain = chain_file::beside(&self.folder.path().join("cluster.toml"));
        Ok(self.config.write_chain(&chain)?)
    }

    /// Proposes a change and waits until the group is so: until all are ready that must be, and a
    /// checkpoint is stable. Gives how long that took.
    pub fn make(&self, Prepared(change): Prepared, interrupt: &Interrupt) -> Outcome<Duration> {
        let (begun, number) = (Instant::now(), change.next.number);
        self.administrator.propose(change, LIMIT).map_err(|error| self.failed(&error))?;
        while self.show()?.configuration.number < number {
            if begun.elapsed() > CHANGE_LIMIT {
                let seconds = CHANGE_LIMIT.as_secs();
                return Err(self.failed(&format!("the change has not begun after {seconds} s")));
            }
            let is_late = begun.elapsed() > Duration::from_secs(1);
            interrupt.sleep(if is_late { LATER_LOOK } else { LOOK })?;
        }
        Ok(begun.elapsed())
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
