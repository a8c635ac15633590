//! What one replica says of itself, as far as people look at it.

#![expect(missing_docs, reason = "`StatusReport` of `machine` documents what a replica says")]

use pentarchy_cluster::limits::{CHECKPOINT_SLOTS, PILLARS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A replica that has executed this much less than another is no longer level: more than what lies
/// in flight between replicas that keep up, and enough for a checkpoint. Of so many slots in each
/// pillar.
pub const LEVEL_SLOTS: u64 = CHECKPOINT_SLOTS;

/// Characters of one text of a replica that are shown.
pub const TEXT_MAX: usize = 120;

/// One replica.
#[derive(Serialize)]
pub struct ReplicaReport {
    /// Which member.
    pub id: u32,
    /// Where it should be.
    pub address: String,
    /// Where it serves metrics, as far as is known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Whether it answered.
    pub reachable: bool,
    /// Whether nobody asked it, which says nothing of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_asked: bool,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The parts of its answer that are shown.
    #[serde(skip)]
    pub known: Known,
    /// All of its answer.
    #[serde(flatten)]
    pub answer: serde_json::Map<String, Value>,
}

/// The parts of a replica's answer that people look at. What a replica of another version does not
/// say is left at nought.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Known {
    pub configuration: Option<String>,
    pub configuration_number: Option<u64>,
    pub has_former_key: Option<bool>,
    pub epoch: u64,
    pub fault: Option<String>,
    pub view: u64,
    pub role: String,
    pub phase: String,
    pub pillars: Vec<Pillar>,
    pub executed: u64,
    pub stable: u64,
    pub state: Option<String>,
    pub behind: u64,
    pub catch_up: Option<CatchUp>,
    pub approach: Option<Pace>,
    pub incarnation: u64,
    pub counter_process: Option<u32>,
    pub peers: Vec<u32>,
    pub clients: u64,
    pub requests: u64,
    pub view_changes: u64,
    pub view_change_reason: String,
    pub rejects: BTreeMap<String, u64>,
    pub counters: BTreeMap<String, Value>,
    pub diverged_sections: Vec<String>,
    pub recent_view_changes: Vec<ViewChange>,
    pub queues: BTreeMap<String, Fill>,
    pub cpu_micros: u64,
    pub rss_kib: u64,
    pub uptime_ms: u64,
    pub durability: Option<Disk>,
    pub asking: Vec<u32>,
    pub silent_ms: BTreeMap<u32, u64>,
    pub refused_from: BTreeMap<u32, u64>,
    pub findings_lately: BTreeMap<u32, u64>,
}

/// How one of a replica's pillars is.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Pillar {
    pub view: u64,
    pub primary: u32,
    pub phase: String,
    pub committed: u64,
    pub stable: u64,
    pub waiting: u64,
    pub thread: Option<PillarThread>,
}

/// How the thread of a pillar is.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct PillarThread {
    pub peers: Vec<u32>,
    pub cpu_micros: u64,
}

/// What a replica keeps across a crash.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Disk {
    pub mode: String,
    pub log_bytes: u64,
    pub lag_entries: u64,
    pub last_sync_micros: u64,
    pub saved: Option<u64>,
    pub damaged_pieces: u64,
    pub repaired_pieces: u64,
}

/// How fast a replica that is behind comes closer.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Pace {
    pub slots_per_second: f64,
    pub bytes_per_second: f64,
    pub seconds_left: Option<f64>,
}

impl Known {
    /// How it catches up, in words; none if it has nothing to catch up with.
    pub fn approach(&self) -> Option<String> {
        let Self { behind, catch_up, approach, .. } = self;
        if *behind == 0 && catch_up.is_none() {
            return None;
        }
        let mut words = format!("{behind} slots behind");
        match catch_up {
            Some(CatchUp { slot, chunks_total, chunks_have }) => {
                let _ = write!(
                    words,
                    ", fetching the state at slot {slot}, {chunks_have} of {chunks_total} chunks"
                );
            }
            None => words.push_str(", asking peers for them"),
        }
        if let Some(Pace { slots_per_second, bytes_per_second, seconds_left, .. }) = approach {
            let kib = bytes_per_second / 1024.0;
            let _ = write!(words, "; {slots_per_second:.0} slots/s, {kib:.0} KiB/s of state");
            match seconds_left {
                Some(seconds) => {
                    let _ = write!(words, ", caught up in about {:.0} s", seconds.ceil());
                }
                None => words.push_str(", not coming closer"),
            }
        }
        Some(words)
    }

    /// The views of its pillars, or of the whole.
    pub fn views(&self) -> impl Iterator<Item = u64> {
        let whole = self.pillars.is_empty().then_some(self.view);
        self.pillars.iter().map(|pillar| pillar.view).chain(whole)
    }

    /// Whether it takes part in the ordering, as far as it says.
    pub fn is_at_work(&self) -> bool {
        self.phase == "normal" && self.catch_up.is_none()
    }

    /// Whether it is at work and close to the others.
    pub fn is_level(&self) -> bool {
        let level_slots = LEVEL_SLOTS * self.pillars.len().max(1) as u64;
        self.is_at_work() && self.behind < level_slots
    }
}

/// A view change that began.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct ViewChange {
    pub pillar: Option<u8>,
    pub view: u64,
    pub reason: String,
    /// When, by the replica's own `uptime_ms`.
    pub uptime_ms: u64,
}

/// How full a table or queue is.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Fill {
    pub used: u64,
    pub limit: u64,
}

/// How far a transfer of state has come.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct CatchUp {
    pub slot: u64,
    pub chunks_total: u64,
    pub chunks_have: u64,
}

impl ReplicaReport {
    /// From what a replica answered, or why it did not.
    pub fn new(id: u32, address: &str, answer: Result<&[u8], &String>) -> Self {
        let parsed = answer.map_err(Clone::clone).and_then(|json| {
            let answer: serde_json::Map<String, Value> = serde_json::from_slice(json)
                .map_err(|_| "its answer is no JSON object".to_owned())?;
            let answer = answer.into_iter().map(|(name, value)| (plain(&name), tame(value)));
            let answer: serde_json::Map<_, _> = answer.collect();
            let known: Known = serde_json::from_value(Value::Object(answer.clone()))
                .map_err(|_| "its answer is from another version".to_owned())?;
            if known.pillars.len() > usize::from(PILLARS_MAX) {
                return Err("its answer has more pillars than there can be".to_owned());
            }
            Ok((known, answer))
        });
        let (address, reachable) = (address.to_owned(), parsed.is_ok());
        let (problem, (known, answer)) = match parsed {
            Ok(parsed) => (None, parsed),
            Err(problem) => (Some(problem), Default::default()),
        };
        let (metrics, not_asked) = (None, false);
        Self { id, address, metrics, reachable, not_asked, problem, known, answer }
    }

    /// Of a replica that was not asked, as it serves another process with the same key.
    pub fn not_asked(id: u32, address: &str) -> Self {
        let problem = "not asked: another process uses the key of this command; name another one \
                       with --key"
            .to_owned();
        Self { not_asked: true, ..Self::new(id, address, Err(&problem)) }
    }
}

/// A faulty replica's words without what a terminal would obey, and not at any length.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect()
}

/// The same for each text in an answer. The parser has bounded the depth.
fn tame(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&text)),
        Value::Array(values) => values.into_iter().map(tame).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (plain(&name), tame(value))).collect()
        }
        plain => plain,
    }
}

/// The highest number that at least `f + 1` of these reach, so that liars cannot raise it; the
/// lowest if they are fewer.
pub fn vouched(numbers: impl Iterator<Item = u64>, f: usize) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.get(f).or(numbers.last()).copied().unwrap_or(0)
}
