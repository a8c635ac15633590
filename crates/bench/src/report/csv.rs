//! `--csv`: one line for each measurement, with what a plot or a test needs.

use super::super::case::{Case, System};
use super::super::machine::{Machine, Program};
use super::super::sample::{CaseSamples, Sample};
use pentarchy_cluster::config::request_mode_name;
use serde::Serialize;

/// One line. The names are the column heads.
#[derive(Serialize)]
struct Line<'a> {
    protocol: &'a str,
    f: usize,
    n: usize,
    workload: &'static str,
    request_bytes: usize,
    reply_bytes: usize,
    request_auth: &'static str,
    durability: &'static str,
    clients: usize,
    outstanding: usize,
    connections: &'static str,
    service: &'static str,
    reads_percent: u8,
    client_loops: usize,
    offered_ops: Option<u64>,
    repeat: usize,
    seconds: f64,
    completed: u64,
    errors: u64,
    resent_envelopes: u64,
    view_changes: u64,
    throughput_ops: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    latency_p999_us: f64,
    latency_max_us: f64,
    /// Of the replica that used most.
    replica_cpu_us_per_op_max: Option<f64>,
    replica_cpu_us_per_op_min: Option<f64>,
    client_cpu_us_per_op: f64,
    replica_peak_bytes_max: Option<f64>,
    requests_per_batch: Option<f64>,
    requests_per_envelope: Option<f64>,
    processor: &'a str,
    cores: usize,
    kernel: &'a str,
    commit: &'static str,
}

/// The lines of all measurements, under a line of column heads.
pub fn write(
    cases: &[CaseSamples],
    machine: &Machine,
    program: &Program,
) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (case, systems) in cases {
        for (system, samples) in systems {
            for (repeat, sample) in samples.iter().enumerate() {
                let mut line = line(case, system, sample, machine);
                (line.repeat, line.commit) = (repeat, program.commit.unwrap_or(""));
                writer.serialize(line)?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn line<'a>(case: &Case, system: &'a System, sample: &Sample, machine: &'a Machine) -> Line<'a> {
    let ids = 0..sample.replicas.len();
    let cpu = |pick: fn(f64, f64) -> f64| {
        ids.clone().filter_map(|id| sample.replica_cpu_us_per_op(id)).reduce(pick)
    };
    Line {
        protocol: &system.protocol,
        f: system.f,
        n: system.n,
        workload: case.workload.name(),
        request_bytes: case.payload.request,
        reply_bytes: case.payload.reply,
        request_auth: request_mode_name(case.request_auth),
        durability: case.durability.name(),
        clients: case.clients,
        outstanding: case.outstanding,
        connections: case.connections.name(),
        service: case.service.name(),
        reads_percent: case.reads,
        client_loops: case.drivers.loops(),
        offered_ops: case.rate,
        repeat: 0,
        seconds: sample.seconds,
        completed: sample.completed,
        errors: sample.errors.values().sum(),
        resent_envelopes: sample.sent.resent,
        view_changes: sample.view_changes(),
        throughput_ops: sample.throughput(),
        latency_p50_us: sample.latency.p50,
        latency_p99_us: sample.latency.p99,
        latency_p999_us: sample.latency.p999,
        latency_max_us: sample.latency.max,
        replica_cpu_us_per_op_max: cpu(f64::max),
        replica_cpu_us_per_op_min: cpu(f64::min),
        client_cpu_us_per_op: sample.client_cpu_us_per_op(),
        replica_peak_bytes_max: ids.clone().filter_map(|id| sample.peak_bytes(id)).reduce(f64::max),
        requests_per_batch: sample.requests_per_batch(),
        requests_per_envelope: sample.requests_per_envelope(),
        processor: &machine.processor,
        cores: machine.cores,
        kernel: &machine.kernel,
        commit: "",
    }
}
