//! A line in the order of a group that runs: everything that was acknowledged before it was drawn
//! lies before it, and some checkpoint lies behind it.
//!
//! The line is one ordered request. What a replica says of its progress is not asked for that: a
//! state is behind the line if the table of clients in it has that request, and it is the group's
//! if `f + 1` replicas name its digest, of which one is correct. So replicas that lie or lag can
//! delay this and nothing else. Checkpoints come after so many slots, so further requests, which
//! read a key that nobody sets, fill the slots that are missing.

use pentarchy::Client;
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::Command;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::status::{self, report::ReplicaReport};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::Outcome as Settled;
use pentarchy_core::sessions::{Lookup, SESSION_SECTIONS, Sessions};
use pentarchy_core::tree::Tree;
use pentarchy_core::wire::{Reader, Wire as _};
use pentarchy_io::clock::wall_micros;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::Newest;
use pentarchy_storage::snapshots::Sections;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a replica may take to say how it is.
const STATUS_LIMIT: Duration = Duration::from_secs(2);

/// Between two questions to one replica.
const PERIOD: Duration = Duration::from_millis(10);

/// Checkpoints of each replica that are remembered: some seconds of a group that is busy.
const REMEMBERED_MAX: usize = 1024;

/// The line, and who drew it.
pub struct Barrier {
    client: Client,
    /// The request has this number or a higher one, and no earlier request of the client has.
    number: u64,
}

impl Barrier {
    /// Has the group order a request. All that was acknowledged before this is called is executed
    /// before it.
    pub fn draw(config: &ClusterConfig, key: Option<&Path>, limit: Duration) -> Outcome<Self> {
        let number = wall_micros();
        let client = status::connect(config, key)?;
        let barrier = Self { client, number };
        barrier.order(limit)?;
        Ok(barrier)
    }

    /// Has the group order a request that changes nothing.
    pub fn order(&self, limit: Duration) -> Outcome {
        let read = Command::new(&["GET", "pentarchy:barrier"]).to_operation();
        let answer = self.client.submit(read).wait_timeout(limit);
        answer.map(drop).map_err(|error| {
            Failure::Unwell(format!(
                "the group does not order requests of this key ({error}), so it is unknown what \
                 was acknowledged last"
            ))
        })
    }

    /// Whether a state has what was ordered up to the line.
    pub fn is_in(&self, head: &Head) -> bool {
        head.has_settled(&self.client.id(), self.number)
    }

    /// Watches the replicas' checkpoints while something is done, which is in vain if the group
    /// [changes](Checkpoints::stand) meanwhile: others would vouch, and perhaps more would have to.
    pub fn watching<T>(&self, act: impl FnOnce(&Checkpoints) -> T) -> T {
        let group = self.client.membership();
        let seen = Checkpoints::new(&group);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (place, member) in group.ids().zip(group.members.iter()) {
                let (seen, done, group) = (&seen, &done, &group);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let asked = self.client.status(place).wait_timeout(STATUS_LIMIT);
                        if self.client.membership().configuration != group.configuration {
                            seen.has_changed.store(true, Ordering::Relaxed);
                            break;
                        }
                        let answer = asked.map_err(|error| error.to_string());
                        seen.take(ReplicaReport::new(member.id.0, "", answer.as_deref()));
                        std::thread::sleep(PERIOD);
                    }
                });
            }
            let result = act(&seen);
            done.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// What replicas say of their checkpoints.
pub struct Checkpoints {
    f: usize,
    n: usize,
    said: Mutex<BTreeMap<u32, Said>>,
    /// The group has another configuration than these are of.
    has_changed: AtomicBool,
}

/// What one replica says.
#[derive(Default)]
struct Said {
    /// The last stable checkpoints that it named: slot and digest.
    stable: VecDeque<(u64, String)>,
    executed: u64,
    /// The newest state on its disk.
    saved: Option<u64>,
    answers: bool,
}

impl Checkpoints {
    fn new(group: &Membership) -> Self {
        let (said, has_changed) = (Mutex::new(BTreeMap::new()), AtomicBool::new(false));
        Self { f: group.f, n: group.n(), said, has_changed }
    }

    /// Fails if the group has changed, so that what replicas say does not count together.
    pub fn stand(&self) -> Outcome {
        if self.has_changed.load(Ordering::Relaxed) {
            return Err(Failure::Unwell("the group changed meanwhile; try again".to_owned()));
        }
        Ok(())
    }

    fn take(&self, report: ReplicaReport) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.entry(report.id).or_default();
        said.answers = report.reachable;
        if !report.reachable {
            return;
        }
        said.executed = report.known.executed;
        said.saved = report.known.durability.and_then(|disk| disk.saved);
        let Some(state) = report.known.state else { return };
        let stable = (report.known.stable, state);
        if said.stable.back() != Some(&stable) {
            if said.stable.len() == REMEMBERED_MAX {
                said.stable.pop_front();
            }
            said.stable.push_back(stable);
        }
    }

    /// Whether `f + 1` replicas have named this state as that of a stable checkpoint.
    pub fn prove(&self, slot: Slot, digest: Digest) -> bool {
        let state = (slot.0, hex::encode(digest.0));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.values().filter(|said| said.stable.contains(&state)).count() > self.f
    }

    /// The highest slot whose state `f + 1` replicas have named alike.
    pub fn proven(&self) -> u64 {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut votes: BTreeMap<&(u64, String), usize> = BTreeMap::new();
        for stable in said.values().flat_map(|said| &said.stable) {
            *votes.entry(stable).or_default() += 1;
        }
        let proven = votes.into_iter().filter(|(_, count)| *count > self.f);
        proven.map(|((slot, _), _)| *slot).max().unwrap_or(0)
    }

    /// Whether each replica has answered, or has not in time.
    pub fn have_all(&self) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).len() == self.n
    }

    /// The last slot that any replica says it has executed.
    pub fn executed(&self) -> u64 {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.values().map(|said| said.executed).max().unwrap_or(0)
    }

    /// Whether every replica that answers has a state of this slot or a later one on its disk.
    pub fn are_saved(&self, slot: u64) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answering = said.values().filter(|said| said.answers).peekable();
        answering.peek().is_some() && answering.all(|said| said.saved >= Some(slot))
    }
}

/// What is in a state beside the service's own: slot, time, and the table of clients.
#[derive(Default)]
pub struct Head {
    sections: BTreeMap<u32, Vec<u8>>,
    present: Option<u32>,
}

impl Sections for Head {
    fn begin(&mut self, section: u32, _bytes: u64) -> Result<(), StorageError> {
        self.present = (section <= SESSION_SECTIONS).then_some(section);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        if let Some(section) = self.present {
            self.sections.entry(section).or_default().extend_from_slice(bytes);
        }
        Ok(())
    }
}

impl Head {
    /// Of the newest state in a data folder.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn of(newest: &Newest) -> Result<Self, StorageError> {
        let mut head = Self::default();
        newest.walk(&mut head)?;
        Ok(head)
    }

    /// Of a state in memory.
    pub fn of_tree(tree: &Tree) -> Self {
        let sections = (0..=SESSION_SECTIONS).filter_map(|index| {
            let bytes = tree.section(index)?.joined()?;
            Some((index, bytes.to_vec()))
        });
        Self { sections: sections.collect(), present: None }
    }

    /// The group's time after its last slot; none if the state is none of a replica.
    pub fn time(&self) -> Option<Millis> {
        let header = self.sections.get(&0)?.clone().into();
        let mut from = Reader::new(&header);
        Slot::decode(&mut from).ok()?;
        Millis::decode(&mut from).ok()
    }

    /// Whether this client's request of this number has been ordered.
    fn has_settled(&self, client: &ClientId, number: u64) -> bool {
        let mut table = Sessions::default();
        for (section, bytes) in self.sections.range(1..) {
            if table.restore_section(section - 1, bytes).is_err() {
                return false;
            }
        }
        match table.known(client).lookup(number) {
            // The request was answered, so the client's floor went beyond its number only later.
            Lookup::Settled(
                Settled::Done(_) | Settled::Forgotten | Settled::GivenUp | Settled::Overtaken,
            ) => true,
            Lookup::Settled(Settled::Refused) | Lookup::New => false,
        }
    }
}

/// Waits, for so long at most, until every replica that answers has a state on its disk
/// with all that was acknowledged before. Gives its slot.
pub fn settle(config: &ClusterConfig, limit: Duration) -> Outcome<u64> {
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let barrier = Barrier::draw(config, None, left())?;
    barrier.watching(|seen| {
        let (mut goal, mut has_all) = (None, None);
        while !left().is_zero() {
            seen.stand()?;
            match has_all {
                None => barrier.order(left())?,
                // No further checkpoint is to begin while this one is written.
                Some(_) => std::thread::sleep(PERIOD),
            }
            if !seen.have_all() {
                continue;
            }
            // What correct replicas had executed when the line was drawn is at most this.
            let goal = *goal.get_or_insert_with(|| seen.executed());
            has_all = has_all.or_else(|| Some(seen.proven()).filter(|proven| *proven >= goal));
            if let Some(slot) = has_all.filter(|slot| seen.are_saved(*slot)) {
                return Ok(slot);
            }
        }
        Err(Failure::Unwell("not every replica had a checkpoint on its disk in time".to_owned()))
    })
}
