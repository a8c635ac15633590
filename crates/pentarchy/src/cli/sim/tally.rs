//! What many seeds came to.

use pentarchy_sim::audit::Fingerprint;
use pentarchy_sim::run::{FINDINGS, Summary, Violation};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Sums over all seeds that were run.
#[derive(Serialize, Default)]
pub struct Tally {
    protocol: String,
    /// What was run, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    /// Rounds of the schedules that were run instead of seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    twins: Option<u32>,
    first_seed: u64,
    seeds: u64,
    seconds: f64,
    seeds_per_second: f64,
    simulated_hours: f64,
    /// Hours of simulated time in a minute of real time.
    simulated_hours_per_minute: f64,
    requests: u64,
    executed: u64,
    messages: u64,
    rejected: u64,
    /// Highest views, added up.
    view_changes: u64,
    transfers: u64,
    /// Epochs, and configurations among them, that began behind the first ones.
    epochs: u64,
    configurations: u64,
    lies_told: u64,
    undecided_keys: u64,
    /// Kinds of lies that correct replicas found, and how many.
    lies_found: BTreeMap<&'static str, u64>,
    with_view_change: u64,
    with_checkpoint: u64,
    with_state_transfer: u64,
    with_byzantine: u64,
    with_hostile_client: u64,
    with_crash: u64,
    with_f_above_1: u64,
    /// In how many seeds a configuration began behind the first one.
    with_reconfiguration: u64,
    /// In how many seeds each kind of faulty replica took part.
    adversaries: BTreeMap<&'static str, u64>,
    /// In how many seeds each kind of hostile client took part.
    hostile: BTreeMap<&'static str, u64>,
    /// In how many seeds each kind of disturbance was drawn.
    faults: BTreeMap<&'static str, u64>,
    /// How often power or a disk failed, by what that interrupted or came before.
    crash_points: BTreeMap<&'static str, u64>,
    /// The audits of all seeds together, in whatever order they ended: equal seeds at equal
    /// commits give equal ones.
    audit: String,
    #[serde(skip)]
    fingerprint: Fingerprint,
    failed: Vec<Failed>,
    /// Different things that worlds covered, in a search that is guided by these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<usize>,
    /// How often each coverage mark was reached; empty in builds without them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    marks: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Failed {
    seed: String,
    property: &'static str,
    detail: String,
    replay: String,
}

fn count(into: &mut BTreeMap<&'static str, u64>, names: &[&'static str]) {
    let different: BTreeSet<_> = names.iter().copied().collect();
    different.into_iter().for_each(|name| *into.entry(name).or_default() += 1);
}

impl Tally {
    /// Nothing yet.
    pub fn new(protocol: &str, first_seed: u64, twins: Option<u32>) -> Self {
        let (protocol, commit) = (protocol.to_owned(), super::COMMIT);
        Self { protocol, commit, twins, first_seed, ..Self::default() }
    }

    /// How many seeds failed.
    pub const fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Adds a seed. Called on the thread that ran it.
    pub fn add(
        &mut self,
        outcome: &Result<Summary, Violation>,
        replay: impl FnOnce(&Violation) -> String,
    ) {
        #[cfg(feature = "marks")]
        pentarchy_core::mark::publish();
        self.seeds += 1;
        match outcome {
            Ok(summary) => self.add_summary(summary),
            Err(violation) => {
                self.fingerprint = self.fingerprint.and(violation.audit);
                self.failed.push(Failed {
                    seed: format!("{:#x}", violation.seed),
                    property: violation.broken.property,
                    detail: violation.broken.detail.clone(),
                    replay: replay(violation),
                });
            }
        }
    }

    fn add_summary(&mut self, summary: &Summary) {
        self.simulated_hours += summary.simulated_ms as f64 / 3_600_000.0;
        self.requests += summary.requests;
        self.executed += summary.executed;
        self.messages += summary.messages;
        self.rejected += summary.rejected;
        self.view_changes += summary.view.0;
        self.transfers += summary.transfers;
        self.epochs += summary.epochs;
        self.configurations += summary.configurations;
        self.lies_told += summary.lies;
        self.undecided_keys += summary.undecided;
        for (name, found) in FINDINGS.iter().zip(summary.found) {
            *self.lies_found.entry(name).or_default() += found;
        }
        self.with_view_change += u64::from(summary.view.0 > 0);
        self.with_checkpoint += u64::from(summary.stable.0 > 0);
        self.with_state_transfer += u64::from(summary.transfers > 0);
        self.with_byzantine += u64::from(!summary.adversaries.is_empty());
        self.with_hostile_client += u64::from(!summary.hostile.is_empty());
        self.with_crash += u64::from(summary.crashed > 0);
        self.with_f_above_1 += u64::from(summary.f > 1);
        self.with_reconfiguration += u64::from(summary.configurations > 0);
        count(&mut self.adversaries, &summary.adversaries);
        count(&mut self.hostile, &summary.hostile);
        count(&mut self.faults, &summary.faults);
        for (point, times) in &summary.crash_points {
            *self.crash_points.entry(point).or_default() += times;
        }
        self.fingerprint = self.fingerprint.and(summary.audit);
    }

    /// Takes note of how long it took.
    pub fn finish(&mut self, took: Duration) {
        self.seconds = took.as_secs_f64();
        let seconds = self.seconds.max(f64::MIN_POSITIVE);
        self.seeds_per_second = self.seeds as f64 / seconds;
        self.simulated_hours_per_minute = self.simulated_hours / seconds * 60.0;
        self.audit = self.fingerprint.to_string();
        #[cfg(feature = "marks")]
        self.marks.extend(pentarchy_core::mark::table());
    }

    fn one_seed(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |sum: u64| sum / self.seeds.max(1);
        let seconds = self.simulated_hours * 3_600.0 / self.seeds.max(1) as f64;
        writeln!(
            out,
            "  one seed: {} requests, {} ran in order, {} messages, {seconds:.1} simulated s",
            each(self.requests),
            each(self.executed),
            each(self.messages)
        )?;
        writeln!(
            out,
            "  all: {:.2} simulated hours ({:.2} per minute), {} view changes, {} state transfers, \
             {} epochs, {} configurations, {} messages refused, {} lies told, {} keys undecided",
            self.simulated_hours,
            self.simulated_hours_per_minute,
            self.view_changes,
            self.transfers,
            self.epochs,
            self.configurations,
            self.rejected,
            self.lies_told,
            self.undecided_keys
        )
    }
}

/// For programs: a tally, or those of several protocols.
pub fn to_json(tallies: &impl Serialize) -> String {
    serde_json::to_string_pretty(tallies).unwrap_or_default()
}

/// `name count, name count`, or that there is none.
fn listed(counts: &BTreeMap<&'static str, u64>) -> String {
    let names: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64| 100 * count / self.seeds.max(1);
        let what = if self.twins.is_some() { "schedules" } else { "seeds" };
        writeln!(
            out,
            "{} {what} of {} in {:.1} s ({:.0} per second), {} failed",
            self.seeds,
            self.protocol,
            self.seconds,
            self.seeds_per_second,
            self.failed.len()
        )?;
        self.one_seed(out)?;
        writeln!(
            out,
            "  of 100 seeds, {} had f > 1, {} a Byzantine replica, {} a hostile client, \
             {} a crash, {} a view change, {} a stable checkpoint, {} a state transfer, \
             {} another configuration",
            share(self.with_f_above_1),
            share(self.with_byzantine),
            share(self.with_hostile_client),
            share(self.with_crash),
            share(self.with_view_change),
            share(self.with_checkpoint),
            share(self.with_state_transfer),
            share(self.with_reconfiguration)
        )?;
        writeln!(out, "  faulty replicas: {}", listed(&self.adversaries))?;
        writeln!(out, "  hostile clients: {}", listed(&self.hostile))?;
        writeln!(out, "  disturbances: {}", listed(&self.faults))?;
        writeln!(out, "  crash points: {}", listed(&self.crash_points))?;
        writeln!(out, "  lies found: {}", listed(&self.lies_found))?;
        if let Some(things) = self.covered {
            writeln!(out, "  worlds covered {things} different things")?;
        }
        write!(out, "  audit {}", self.audit)?;
        for (name, count) in &self.marks {
            write!(out, "\n  mark {name}: {count}")?;
        }
        Ok(())
    }
}
