//! What is known of a cluster: each replica's own words, and what follows from them together.

use super::verdict::Verdict;
use crate::cli::folder::{Part, Running};
use pentarchy::config::ClusterConfig;
use pentarchy::limits::{CHECKPOINT_SLOTS, PILLARS_MAX};
use pentarchy_core::membership::PillarConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A replica that has executed this much less than another is no longer level: more than what lies
/// in flight between replicas that keep up, and enough for a checkpoint. Of so many slots in each
/// pillar.
const LEVEL_SLOTS: u64 = CHECKPOINT_SLOTS;

/// Characters of one text of a replica that are shown.
const TEXT_MAX: usize = 120;

/// All replicas.
#[derive(Serialize)]
pub struct ClusterReport {
    /// The protocol's name.
    pub protocol: String,
    /// Pillars into which its order is split; 1 if it is not.
    pub pillars: u8,
    /// Whether each of them began with another primary.
    pub rotate_leader: bool,
    /// Faults tolerated.
    pub f: usize,
    /// Whether the group serves, how many more faults it tolerates, and which replicas are
    /// suspected.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether all replicas are reachable, in one view, at work, level, of one state, and none is
    /// suspected.
    pub level: bool,
    /// Whether two replicas have different states at the same checkpoint: one of them is faulty.
    pub diverged: bool,
    /// By id.
    pub replicas: Vec<ReplicaReport>,
    /// The gateway, of a cluster that `up` started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReport>,
}

/// Where a gateway is.
#[derive(Serialize)]
pub struct GatewayReport {
    /// Where Redis clients connect.
    pub address: String,
    /// Where it serves metrics, if it does.
    pub metrics: Option<String>,
}

/// One replica.
#[derive(Serialize)]
pub struct ReplicaReport {
    /// Which one.
    pub id: u16,
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
    pub peers: Vec<u16>,
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
    pub asking: Vec<u16>,
    pub silent_ms: BTreeMap<u16, u64>,
    pub refused_from: BTreeMap<u16, u64>,
    pub findings_lately: BTreeMap<u16, u64>,
}

/// How one of a replica's pillars is.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Pillar {
    pub view: u64,
    pub primary: u16,
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
    pub peers: Vec<u16>,
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
    pub fn new(id: u16, address: &str, answer: Result<&[u8], &String>) -> Self {
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
    pub fn not_asked(id: u16, address: &str) -> Self {
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

impl ClusterReport {
    /// Draws the conclusions.
    pub fn new(config: &ClusterConfig, mut replicas: Vec<ReplicaReport>) -> Self {
        let answers = || replicas.iter().filter(|replica| replica.reachable);
        let executed = vouched(answers().map(|replica| replica.known.executed), config.f);
        for replica in replicas.iter_mut().filter(|replica| replica.reachable) {
            // A replica that is cut off does not know how far behind it is; together they show it.
            let own = replica.known.executed;
            let behind = replica.known.behind.max(executed.saturating_sub(own));
            replica.known.behind = behind;
            replica.answer.insert("behind".to_owned(), behind.into());
        }
        let views = |replica: &ReplicaReport| -> Vec<u64> { replica.known.views().collect() };
        let first = replicas.first().map(views);
        let diverged = diverged(&replicas);
        let verdict = Verdict::of(&replicas, config.f);
        let level = replicas.iter().all(|replica| {
            !diverged
                && verdict.suspected.is_empty()
                && replica.reachable
                && Some(views(replica)) == first
                && replica.known.is_level()
        });
        let (protocol, f) = (config.protocol.clone(), config.f);
        let PillarConfig { pillars, rotates: rotate_leader, .. } = config.lane;
        let gateway = None;
        Self { protocol, pillars, rotate_leader, f, verdict, level, diverged, replicas, gateway }
    }

    /// The protocol and what it tolerates, in words.
    pub fn title(&self) -> String {
        let Self { protocol, pillars, f, replicas, .. } = self;
        let split = if *pillars > 1 { format!(" in {pillars} pillars") } else { String::new() };
        format!("{protocol} with {} replicas{split}, tolerates {f}", replicas.len())
    }

    /// Adds where metrics are served, from what `up` says that it started.
    pub fn locate(&mut self, running: &Running) {
        for (replica, part) in self.replicas.iter_mut().zip(&running.replicas) {
            replica.metrics.clone_from(&part.metrics);
        }
        let Part { address, metrics, .. } = running.gateway.clone();
        self.gateway = Some(GatewayReport { address, metrics });
    }

    /// For programs.
    pub fn to_json_pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For programs that read line by line.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The highest number that at least `f + 1` of these reach, so that liars cannot raise it; the
/// lowest if they are fewer.
pub fn vouched(numbers: impl Iterator<Item = u64>, f: usize) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.get(f).or(numbers.last()).copied().unwrap_or(0)
}

/// Compares the states of those replicas that have the same stable checkpoint.
fn diverged(replicas: &[ReplicaReport]) -> bool {
    let mut states = BTreeMap::new();
    replicas.iter().any(|ReplicaReport { known, .. }| match &known.state {
        Some(state) => states.entry(known.stable).or_insert(state) != &state,
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy::generate::{GroupOptions, NewCluster};

    fn cluster(answers: [Result<&str, &str>; 3]) -> ClusterReport {
        let addresses: Vec<String> = (1..4).map(|port| format!("a:{port}")).collect();
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let replicas = answers.into_iter().enumerate().map(|(id, answer)| {
            let problem = answer.err().map(str::to_owned).unwrap_or_default();
            ReplicaReport::new(id as u16, "a:1", answer.map(str::as_bytes).map_err(|_| &problem))
        });
        ClusterReport::new(&config, replicas.collect())
    }

    fn answer(view: u64, phase: &str, executed: u64) -> String {
        format!(r#"{{"view":{view},"phase":"{phase}","executed":{executed},"behind":0,"new":1}}"#)
    }

    #[test]
    fn no_replica_writes_to_the_terminal() {
        let hostile = r#"{"phase":"\u001b[2Jnormal","rejects":{"a\u0007b":1},"new":["\u009bx"]}"#;
        let report = cluster([Ok(hostile), Err("gone"), Err("gone")]);
        let known = &report.replicas[0].known;
        assert_eq!(known.phase, "[2Jnormal");
        assert_eq!(known.rejects.keys().collect::<Vec<_>>(), ["ab"]);
        assert!(!report.to_json_line().contains("u00"), "{}", report.to_json_line());
        let long = format!(r#"{{"role":"{}"}}"#, "x".repeat(9_999));
        let report = cluster([Ok(&long), Err("gone"), Err("gone")]);
        assert_eq!(report.replicas[0].known.role.len(), TEXT_MAX);
    }

    #[test]
    fn level_means_reachable_in_one_view_at_work_and_not_behind() {
        let good = answer(1, "normal", 100);
        let with = |other: &str| cluster([Ok(&good), Ok(&good), Ok(other)]).level;
        assert!(with(&good));
        assert!(with(&answer(1, "normal", 100 - LEVEL_SLOTS + 1)));
        assert!(!with(&answer(1, "normal", 100 - LEVEL_SLOTS)));
        assert!(!with(&answer(2, "normal", 100)));
        assert!(!with(&answer(1, "catching-up", 100)));
        assert!(!with("[]"));
        assert!(!cluster([Ok(&good), Ok(&good), Err("gone")]).level);
    }

    #[test]
    fn level_means_in_one_view_in_each_pillar() {
        let with = |view: u64| {
            let pillars = format!(r#"[{{"view":0,"phase":"normal"}},{{"view":{view}}}]"#);
            format!(r#"{{"view":0,"phase":"normal","pillars":{pillars}}}"#)
        };
        let level = |other| cluster([Ok(&with(1)), Ok(&with(1)), Ok(&with(other))]).level;
        assert!(level(1));
        assert!(!level(2));
    }

    #[test]
    fn different_states_at_one_checkpoint_are_not_level() {
        let answer = |stable: u64, state: &str| {
            format!(r#"{{"phase":"normal","executed":130,"stable":{stable},"state":{state}}}"#)
        };
        let good = answer(128, r#""aa""#);
        let with = |other: String| {
            let report = cluster([Ok(&good), Ok(&good), Ok(&other)]);
            (report.level, report.diverged)
        };
        assert_eq!(with(good.clone()), (true, false));
        assert_eq!(with(answer(64, r#""bb""#)), (true, false), "another checkpoint");
        assert_eq!(with(answer(128, "null")), (true, false), "not there yet");
        assert_eq!(with(answer(128, r#""bb""#)), (false, true));
    }

    #[test]
    fn one_liar_makes_no_group_stand_still() {
        let good = answer(1, "normal", 100);
        let (says, far) = ("serves: yes; tolerates 0 more faults; suspected: replica 2 (", 1 << 60);
        let text = |answers: [Result<&str, &str>; 3]| cluster(answers).verdict.text();
        let said = text([Ok(&good), Ok(&good), Ok(&answer(1, "normal", far))]);
        assert!(said.starts_with(says) && said.contains("slots more than f + 1 others"), "{said}");
        let healthy = "serves: yes; tolerates 1 more fault; suspected: none";
        // Under load the answers are of different moments.
        let later = answer(1, "normal", 100 + 3 * LEVEL_SLOTS);
        assert_eq!(text([Ok(&good), Ok(&later), Ok(&later)]), healthy);
        // One replica's word is not enough where another one is down.
        let down = "serves: yes; tolerates 0 more faults; suspected: replica 0 (does not answer)";
        assert_eq!(text([Err("gone"), Ok(&good), Ok(&answer(1, "normal", far))]), down);
    }

    #[test]
    fn the_minority_at_a_checkpoint_is_suspected() {
        let answer = |state: &str, more: &str| {
            format!(r#"{{"phase":"normal","executed":130,"stable":128,"state":"{state}"{more}}}"#)
        };
        let (good, other) = (answer("aa", ""), answer("bb", ""));
        let said = cluster([Ok(&good), Ok(&other), Ok(&good)]).verdict.text();
        assert!(said.contains("replica 1 (its state at slot 128 is another than that of f + 1"));
        assert!(!said.contains("replica 0") && !said.contains("replica 2"), "{said}");
        let two = cluster([Ok(&good), Ok(&other), Err("gone")]);
        assert!(two.diverged && !two.verdict.text().contains("at slot 128"), "one of both lies");
        let repaired = answer("aa", r#","diverged_sections":["section 1 of the service"]"#);
        let said = cluster([Ok(&good), Ok(&good), Ok(&repaired)]).verdict.text();
        let why = "replica 2 (its state differed from the group's: section 1 of the service)";
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn how_far_behind_a_replica_is_shows_in_the_others_answers() {
        let (ahead, cut_off) = (answer(1, "normal", 900), answer(1, "normal", 100));
        let report = cluster([Ok(&ahead), Ok(&cut_off), Ok(&ahead)]);
        assert_eq!(report.replicas[1].known.behind, 800);
        let report = cluster([Ok(&ahead), Ok(&cut_off), Err("gone")]);
        assert_eq!(report.replicas[1].known.behind, 0, "that may be a liar's word");
        let json: Value = serde_json::from_str(&report.to_json_line()).unwrap();
        assert_eq!(json["replicas"][1]["behind"], 0);
        assert_eq!(json["replicas"][1]["new"], 1, "what is not known is passed on");
        assert_eq!(json["replicas"][2]["reachable"], false);
        assert_eq!(json["replicas"][2]["problem"], "gone");
    }
}
