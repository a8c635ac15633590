//! What many seeds came to.

use pentarchy_sim::run::{Summary, Violation};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Sums over all seeds that were run.
#[derive(Serialize, Default)]
pub struct Tally {
    protocol: String,
    first_seed: u64,
    seeds: u64,
    seconds: f64,
    seeds_per_second: f64,
    requests: u64,
    executed: u64,
    messages: u64,
    rejected: u64,
    /// Highest views, added up.
    view_changes: u64,
    with_view_change: u64,
    with_checkpoint: u64,
    with_state_transfer: u64,
    with_byzantine: u64,
    with_crash: u64,
    with_f_above_1: u64,
    failed: Vec<Failed>,
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

impl Tally {
    /// Nothing yet.
    pub fn new(protocol: &str, first_seed: u64) -> Self {
        Self { protocol: protocol.to_owned(), first_seed, ..Self::default() }
    }

    /// How many seeds failed.
    pub const fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Adds a seed. Called on the thread that ran it.
    pub fn add(
        &mut self,
        outcome: &Result<Summary, Violation>,
        replay: impl FnOnce(u64) -> String,
    ) {
        #[cfg(feature = "marks")]
        pentarchy_core::mark::publish();
        self.seeds += 1;
        match outcome {
            Ok(summary) => self.add_summary(summary),
            Err(violation) => self.failed.push(Failed {
                seed: format!("{:#x}", violation.seed),
                property: violation.broken.property,
                detail: violation.broken.detail.clone(),
                replay: replay(violation.seed),
            }),
        }
    }

    fn add_summary(&mut self, summary: &Summary) {
        self.requests += summary.requests;
        self.executed += summary.executed;
        self.messages += summary.messages;
        self.rejected += summary.rejected;
        self.view_changes += summary.view.0;
        self.with_view_change += u64::from(summary.view.0 > 0);
        self.with_checkpoint += u64::from(summary.stable.0 > 0);
        self.with_state_transfer += u64::from(summary.transfers > 0);
        self.with_byzantine += u64::from(!summary.adversaries.is_empty());
        self.with_crash += u64::from(summary.crashed > 0);
        self.with_f_above_1 += u64::from(summary.f > 1);
    }

    /// Takes note of how long it took.
    pub fn finish(&mut self, took: Duration) {
        self.seconds = took.as_secs_f64();
        self.seeds_per_second = self.seeds as f64 / self.seconds.max(f64::MIN_POSITIVE);
        #[cfg(feature = "marks")]
        self.marks.extend(pentarchy_core::mark::table());
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64| 100 * count / self.seeds.max(1);
        writeln!(
            out,
            "{} seeds of {} in {:.1} s ({:.0} per second), {} failed",
            self.seeds,
            self.protocol,
            self.seconds,
            self.seeds_per_second,
            self.failed.len()
        )?;
        writeln!(
            out,
            "  {} requests, {} of them ordered; {} messages, {} refused; {} view changes",
            self.requests, self.executed, self.messages, self.rejected, self.view_changes
        )?;
        write!(
            out,
            "  of 100 seeds, {} had f > 1, {} a Byzantine replica, {} a crash, {} a view change, \
             {} a stable checkpoint, {} a state transfer",
            share(self.with_f_above_1),
            share(self.with_byzantine),
            share(self.with_crash),
            share(self.with_view_change),
            share(self.with_checkpoint),
            share(self.with_state_transfer)
        )?;
        for (name, count) in &self.marks {
            write!(out, "\n  mark {name}: {count}")?;
        }
        Ok(())
    }
}
