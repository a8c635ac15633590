//! What is known of a cluster: each replica's own words, and what follows from them together.

pub use super::replica_report::{Disk, Fill, Known, Pillar, ReplicaReport, vouched};
use super::verdict::{Verdict, ordering};
use crate::folder::{Part, Running, identity};
use pentarchy_core::configuration::Configuration;
use pentarchy_core::membership::{Membership, PillarConfig};
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// By member.
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

impl ClusterReport {
    /// Draws the conclusions.
    pub fn new(group: &Configuration, mut replicas: Vec<ReplicaReport>) -> Self {
        let (protocol, f) = (group.protocol.clone(), usize::from(group.f));
        let answers = || replicas.iter().filter(|replica| replica.reachable);
        let executed = vouched(answers().map(|replica| replica.known.executed), f);
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
        let verdict = Verdict::of(&replicas, f, ordering(group));
        let level = replicas.iter().all(|replica| {
            !diverged
                && verdict.suspected.is_empty()
                && replica.reachable
                && Some(views(replica)) == first
                && replica.known.is_level()
        });
        let PillarConfig { pillars, rotates: rotate_leader, .. } = group.lane;
        let gateway = None;
        Self { protocol, pillars, rotate_leader, f, verdict, level, diverged, replicas, gateway }
    }

    /// The protocol and what it tolerates, in words.
    pub fn title(&self) -> String {
        let Self { protocol, pillars, f, replicas, .. } = self;
        let split = if *pillars > 1 { format!(" in {pillars} pillars") } else { String::new() };
        format!("{protocol} with {} replicas{split}, tolerates {f}", replicas.len())
    }

    /// Adds where metrics are served, from what `up` says that it started for this group.
    pub fn locate(&mut self, running: &Running, group: &Membership) {
        for replica in &mut self.replicas {
            let member = group.members.iter().find(|member| member.id.0 == replica.id);
            let key = member.map(|member| member.identity);
            let part = running.replicas.iter().find(|part| identity(&part.folder) == key);
            replica.metrics = part.and_then(|part| part.metrics.clone());
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
    use super::super::replica_report::{LEVEL_SLOTS, TEXT_MAX};
    use super::*;
    use pentarchy_cluster::generate::{GroupOptions, NewCluster};
    use serde_json::Value;

    fn cluster(answers: [Result<&str, &str>; 3]) -> ClusterReport {
        let addresses: Vec<String> = (1..4).map(|port| format!("a:{port}")).collect();
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let replicas = answers.into_iter().enumerate().map(|(id, answer)| {
            let problem = answer.err().map(str::to_owned).unwrap_or_default();
            ReplicaReport::new(id as u32, "a:1", answer.map(str::as_bytes).map_err(|_| &problem))
        });
        ClusterReport::new(&config.configuration(), replicas.collect())
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
