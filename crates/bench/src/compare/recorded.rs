//! What an earlier `bench --json` wrote, as far as comparing needs it.

use crate::report::FORMAT;
use pentarchy_console::failure::{Failure, Outcome};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// One file.
#[derive(Deserialize)]
pub struct Recorded {
    format: u32,
    /// Whether all was measured that was asked for.
    pub complete: bool,
    machine: BTreeMap<String, Value>,
    program: BTreeMap<String, Value>,
    settings: BTreeMap<String, Value>,
    /// What was measured.
    pub cases: Vec<Case>,
}

/// One set of conditions.
#[derive(Deserialize)]
pub struct Case {
    /// Every member that is not named here is a condition.
    #[serde(flatten)]
    conditions: BTreeMap<String, Value>,
    /// What was found of each system.
    pub systems: Vec<System>,
    /// Follows from the systems.
    #[serde(rename = "ratio")]
    _ratio: Option<Value>,
}

/// One system.
#[derive(Deserialize)]
pub struct System {
    protocol: String,
    f: u64,
    n: u64,
    throughput_ops: Values,
    latency_us: BTreeMap<String, Values>,
    cpu_us_per_op: Cpu,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct Cpu {
    replicas: Vec<Values>,
    clients: Values,
}

/// Members of `machine` and `settings` that say nothing about whether two runs can be compared.
const PASSING: [&str; 2] = ["load_before", "seed"];

impl Recorded {
    /// Reads a file.
    pub fn load(path: &Path) -> Outcome<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::Usage(format!(
                "{} is no result of `pentarchy bench --json`: {why}",
                path.display()
            ))
        };
        let text = std::fs::read(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        let recorded: Self = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        if recorded.format != FORMAT {
            return Err(wrong(&format!("its format is {}, not {FORMAT}", recorded.format)));
        }
        Ok(recorded)
    }

    /// Why a difference between two runs may have another cause than the program.
    pub fn doubts(&self, other: &Self) -> Vec<String> {
        let mut doubts = Vec::new();
        for (name, run) in [("first", self), ("second", other)] {
            if !run.complete {
                doubts.push(format!("the {name} run is not complete"));
            }
            if run.program.get("release") == Some(&Value::Bool(false)) {
                doubts.push(format!("the {name} run is of a debug build"));
            }
            let busy = |load: &f64| *load > 0.5;
            if let Some(load) = run.machine.get("load_before").and_then(Value::as_f64).filter(busy)
            {
                doubts.push(format!("before the {name} run the machine was busy: load {load}"));
            }
        }
        let parts = [
            ("machine", &self.machine, &other.machine),
            ("settings", &self.settings, &other.settings),
        ];
        for (part, ours, theirs) in parts {
            for (name, value) in ours.iter().filter(|(name, _)| !PASSING.contains(&name.as_str())) {
                let there = theirs.get(name).unwrap_or(&Value::Null);
                if there != value {
                    doubts.push(format!("{part}.{name} differs: {value} and {there}"));
                }
            }
        }
        let rustc = |run: &Self| run.program.get("rustc").cloned();
        if rustc(self) != rustc(other) {
            doubts.push("the compilers differ".to_owned());
        }
        doubts
    }
}

impl Case {
    /// Whether the other was measured under the same conditions, as far as both say them.
    pub fn is_like(&self, other: &Self) -> bool {
        let mut shared = self
            .conditions
            .iter()
            .filter_map(|(name, ours)| Some((ours, other.conditions.get(name)?)));
        shared.all(|(ours, theirs)| ours == theirs)
    }

    /// The conditions that people tell cases apart by.
    pub fn name(&self) -> String {
        let text = |name: &str| match self.conditions.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "?".to_owned(),
        };
        let names = ["workload", "request_bytes", "reply_bytes", "request_auth", "clients"];
        let [workload, request, reply, auth, clients] = names.map(text);
        let mut name = format!("{workload} {request}/{reply}, {auth}, {clients}");
        match self.conditions.get("offered_ops").filter(|rate| !rate.is_null()) {
            Some(rate) => name += &format!(" clients at {rate} ops/s"),
            None => name += &format!(" x {}", text("outstanding")),
        }
        // What is usual needs no word.
        let usual = [
            ("connections", json!("per-client"), ""),
            ("service", json!("null"), ""),
            ("key_choice", json!("uniform"), ""),
            ("reads_percent", json!(0), " % reads"),
            ("batch_requests", Value::Null, " requests in a batch"),
            ("crashed_backups", json!(0), " crashed backup"),
        ];
        for (condition, usual, unit) in usual {
            let value = self.conditions.get(condition).filter(|value| !value.is_null());
            if value.is_some_and(|value| *value != usual) {
                name += &format!(", {}{unit}", text(condition));
            }
        }
        name
    }
}

impl System {
    /// What it is.
    pub fn name(&self) -> String {
        format!("{} f={} n={}", self.protocol, self.f, self.n)
    }

    /// Operations in a second, by repeat.
    pub fn throughput(&self) -> Vec<f64> {
        self.throughput_ops.values.clone()
    }

    /// A quantile of the latency in microseconds, by repeat; none if there is no such quantile.
    pub fn latency(&self, quantile: &str) -> Vec<f64> {
        self.latency_us.get(quantile).map_or_else(Vec::new, |spread| spread.values.clone())
    }

    /// Microseconds of processor time of everyone for one operation, by repeat; none if a repeat
    /// lacks some.
    pub fn cpu(&self) -> Vec<f64> {
        let Cpu { replicas, clients } = &self.cpu_us_per_op;
        let whole = |repeat: usize| {
            let parts = replicas.iter().chain([clients]);
            parts.map(|spread| spread.values.get(repeat)).sum::<Option<f64>>()
        };
        (0..clients.values.len()).map(whole).collect::<Option<_>>().unwrap_or_default()
    }
}
