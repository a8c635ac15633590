//! What the view shows: the last report, and what follows from it and those before.

use pentarchy_console::status::report::{ClusterReport, Fill, Known, ReplicaReport};
use std::collections::{BTreeMap, VecDeque};

/// Group rates that are remembered, one for each report.
const RATES_MAX: usize = 240;

/// Events that are remembered.
const EVENTS_MAX: usize = 100;

/// The longest text of a replica that fits its cell.
const TEXT_MAX: usize = 48;

/// What is shown.
#[derive(Default)]
pub struct State {
    /// The protocol and what it tolerates.
    pub title: String,
    /// Whether the group serves, what it tolerates, and which replicas are suspected.
    pub verdict: String,
    /// Whether it is known to serve.
    pub serves: bool,
    /// Whether all replicas are level.
    pub level: bool,
    /// By member.
    pub rows: Vec<Row>,
    /// Requests of the group in a second, oldest first.
    pub rates: VecDeque<u64>,
    /// What happened, oldest first.
    pub events: VecDeque<String>,
    before: BTreeMap<u32, Before>,
}

/// One replica.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Row {
    pub id: u32,
    pub reachable: bool,
    pub role: String,
    pub phase: String,
    /// Of each pillar.
    pub views: Vec<u64>,
    pub executed: u64,
    /// Requests executed in a second.
    pub rate: Option<u64>,
    pub behind: u64,
    /// Of one processor, in percent.
    pub cpu: Option<u64>,
    pub memory_kib: u64,
    /// The fullest queue and how full it is, in percent.
    pub fullest: Option<(String, u64)>,
    pub peers: usize,
    /// Other replicas in the group.
    pub others: usize,
}

/// What is needed of an earlier report.
struct Before {
    reachable: bool,
    known: Known,
}

impl State {
    /// Takes in what the replicas say now.
    pub fn take(&mut self, report: &ClusterReport) {
        let n = report.replicas.len();
        self.title = report.title();
        self.verdict = report.verdict.text();
        self.serves = report.verdict.serves == Some(true);
        self.level = report.level;
        self.rows = report.replicas.iter().map(|replica| self.row(replica, n)).collect();
        for replica in &report.replicas {
            self.note(replica);
        }
        let mut rates: Vec<u64> = self.rows.iter().filter_map(|row| row.rate).collect();
        rates.sort_unstable();
        // What `f + 1` replicas say at least, so that it is no lie.
        let rate = rates.iter().rev().nth(report.f).copied().unwrap_or_default();
        if !self.before.is_empty() {
            keep(&mut self.rates, rate, RATES_MAX);
        }
        for replica in &report.replicas {
            let known = replica.known.clone();
            let known = match self.before.remove(&replica.id) {
                Some(before) if !replica.reachable => before.known,
                _ => known,
            };
            self.before.insert(replica.id, Before { reachable: replica.reachable, known });
        }
    }

    fn row(&self, replica: &ReplicaReport, n: usize) -> Row {
        let ReplicaReport { id, reachable, known, .. } = replica;
        let before = self.before.get(id).filter(|before| before.reachable && *reachable);
        let since = |read: fn(&Known) -> u64| {
            let known_before = &before?.known;
            let millis = known.uptime_ms.checked_sub(known_before.uptime_ms)?;
            let more = read(known).checked_sub(read(known_before))?;
            (millis > 0).then(|| more as f64 * 1e3 / millis as f64)
        };
        Row {
            id: *id,
            reachable: *reachable,
            role: short(&known.role),
            phase: short(&known.phase),
            views: known.views().collect(),
            executed: known.executed,
            rate: since(|known| known.requests).map(|rate| rate.round() as u64),
            behind: known.behind,
            cpu: since(|known| known.cpu_micros).map(|rate| (rate / 1e4).round() as u64),
            memory_kib: known.rss_kib,
            fullest: fullest(&known.queues),
            peers: known.peers.len(),
            others: n.saturating_sub(1),
        }
    }

    /// Remembers what has happened since the report before.
    fn note(&mut self, replica: &ReplicaReport) {
        let ReplicaReport { id, reachable, known, .. } = replica;
        let before = self.before.get(id);
        if before.map_or(!reachable, |before| before.reachable != *reachable) {
            let what = if *reachable { "answers" } else { "does not answer" };
            keep(&mut self.events, format!("replica {id} {what}"), EVENTS_MAX);
        }
        let has_keys = |known: &Known| known.has_former_key == Some(true);
        let had_keys = before.is_some_and(|before| has_keys(&before.known));
        if *reachable && has_keys(known) != had_keys {
            let what = if had_keys { "has erased" } else { "has yet to erase" };
            let what = format!("replica {id} {what} the keys by which it signed before");
            keep(&mut self.events, what, EVENTS_MAX);
        }
        let seen = before.and_then(|before| before.known.recent_view_changes.last());
        let seen_ms = seen.map_or(0, |change| change.uptime_ms);
        let is_other_life = before.is_some_and(|before| before.known.uptime_ms > known.uptime_ms);
        let changes = known.recent_view_changes.iter();
        let fresh = changes.filter(|change| is_other_life || change.uptime_ms > seen_ms);
        for change in fresh {
            let seconds = known.uptime_ms.saturating_sub(change.uptime_ms) / 1000;
            let (view, reason) = (change.view, short(&change.reason));
            let place = change.pillar.map_or_else(String::new, |it| format!(" of pillar {it}"));
            let line =
                format!("replica {id} wants view {view}{place}: {reason} ({seconds} s earlier)");
            keep(&mut self.events, line, EVENTS_MAX);
        }
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    if list.len() == max {
        list.pop_front();
    }
    list.push_back(item);
}

fn fullest(queues: &BTreeMap<String, Fill>) -> Option<(String, u64)> {
    let percent = |fill: &Fill| fill.used.saturating_mul(100).checked_div(fill.limit).unwrap_or(0);
    let fills = queues.iter().map(|(name, fill)| (percent(fill), name));
    let (percent, name) = fills.max()?;
    Some((short(name), percent))
}

/// So much of a replica's text as fits a cell.
fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pentarchy::generate::{GroupOptions, NewCluster};

    /// What three replicas say, or none if one is silent.
    pub fn report(answers: [Option<String>; 3]) -> ClusterReport {
        let addresses: Vec<String> = (1..4).map(|port| format!("a:{port}")).collect();
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let problem = "timed out".to_owned();
        let replicas = (0..).zip(&answers).map(|(id, answer)| {
            ReplicaReport::new(id, "a:1", answer.as_ref().map(String::as_bytes).ok_or(&problem))
        });
        ClusterReport::new(&config.configuration(), replicas.collect())
    }

    /// A replica's words after so many seconds.
    pub fn answer(seconds: u64, requests: u64, changes: &str) -> Option<String> {
        let (uptime, cpu) = (seconds * 1000, seconds * 250_000);
        Some(format!(
            r#"{{"view":1,"role":"backup","phase":"normal","executed":{requests},"behind":0,
            "requests":{requests},"uptime_ms":{uptime},"cpu_micros":{cpu},"rss_kib":20480,
            "peers":[0,1],"recent_view_changes":[{changes}],
            "queues":{{"sessions":{{"used":1,"limit":100}},"clients":{{"used":9,"limit":10}}}}}}"#
        ))
    }

    pub const CHANGE: &str = r#"{"view":1,"reason":"request timed out\u001b[2J","uptime_ms":1500}"#;

    #[test]
    fn rates_follow_from_two_reports_and_a_liar_does_not_set_them() {
        let mut state = State::default();
        state.take(&report([answer(1, 100, ""), answer(1, 100, ""), answer(1, 100, "")]));
        assert!(state.rows.iter().all(|row| row.rate.is_none()) && state.rates.is_empty());
        state.take(&report([answer(3, 300, ""), answer(3, 500, ""), answer(3, 1 << 50, "")]));
        assert_eq!(state.rows[0].rate, Some(100));
        assert_eq!(state.rates, [200]);
        assert_eq!(state.rows[0].cpu, Some(25));
        assert_eq!(state.rows[0].fullest, Some(("clients".to_owned(), 90)));
        state.take(&report([answer(1, 0, ""), None, answer(4, 1 << 50, "")]));
        assert_eq!(state.rows[0].rate, None, "another life");
    }

    #[test]
    fn it_is_told_once_which_replica_has_former_keys_and_that_it_erased_them() {
        let with_keys = |seconds| answer(seconds, 0, r#"],"has_former_key":true,"more":["#);
        let mut state = State::default();
        state.take(&report([answer(1, 0, ""), with_keys(1), answer(1, 0, "")]));
        state.take(&report([answer(2, 0, ""), with_keys(2), answer(2, 0, "")]));
        state.take(&report([answer(3, 0, ""), None, answer(3, 0, "")]));
        state.take(&report([answer(4, 0, ""), answer(4, 0, ""), answer(4, 0, "")]));
        let expected = [
            "replica 1 has yet to erase the keys by which it signed before",
            "replica 1 does not answer",
            "replica 1 answers",
            "replica 1 has erased the keys by which it signed before",
        ];
        assert_eq!(state.events, expected);
    }

    #[test]
    fn events_are_told_once_and_without_control_characters() {
        let mut state = State::default();
        state.take(&report([answer(1, 0, ""), None, answer(1, 0, "")]));
        state.take(&report([answer(2, 0, CHANGE), None, answer(2, 0, "")]));
        state.take(&report([answer(3, 0, CHANGE), answer(1, 0, ""), answer(3, 0, "")]));
        let expected = [
            "replica 1 does not answer",
            "replica 0 wants view 1: request timed out[2J (0 s earlier)",
            "replica 1 answers",
        ];
        assert_eq!(state.events, expected);
    }
}
