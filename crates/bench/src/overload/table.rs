//! The table that people read.

use super::Found;
use crate::stats::mebibytes;
use std::fmt::Write as _;

/// One line for each condition.
pub fn render(found: &[Found]) -> String {
    let mut text = format!(
        "{:<20} {:>7} {:>10} {:>5} {:>11} {:>7} {:>13} {:>6} {:>6} {:>8} {:>8} {:>9} {:>5}  {}\n",
        "condition",
        "c x o",
        "ops/s",
        "of",
        "cpu, us/op",
        "for it",
        "cpu, r + c, %",
        "Jain",
        "least",
        "p50, ms",
        "p99, ms",
        "peak, MiB",
        "views",
        "errors, and what the flooder got"
    );
    for row in found {
        let base = found.iter().find(|other| other.condition == row.beside);
        let part = base.map_or(0.0, |base| row.throughput_ops / base.throughput_ops * 100.0);
        let for_it =
            base.map_or(0.0, |base| base.replica_cpu_us_per_op / row.replica_cpu_us_per_op * 100.0);
        let (replicas, clients) = (row.replica_cpu_share * 100.0, row.client_cpu_share * 100.0);
        let cpu = format!("{replicas:.0} + {clients:.0}");
        let peak = row.peak_memory_bytes.iter().max().copied().unwrap_or_default();
        let errors: Vec<_> =
            row.errors.iter().map(|(error, count)| format!("{count} {error}")).collect();
        let mut rest = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
        if row.flooder_ops > 0.0 {
            // Writing to a string does not fail.
            let _ = write!(rest, "; {:.0} ops/s", row.flooder_ops);
        }
        let load = format!("{}x{}", row.clients, row.outstanding);
        let _ = writeln!(
            text,
            "{:<20} {load:>7} {:>10.0} {part:>4.0}% {:>11.2} {for_it:>6.0}% {cpu:>13} {:>6.3} \
             {:>6.2} {:>8.2} {:>8.2} {:>9.1} {:>5}  {rest}",
            row.condition,
            row.throughput_ops,
            row.replica_cpu_us_per_op,
            row.jain,
            row.least,
            row.p50_ms,
            row.p99_ms,
            mebibytes(peak),
            row.view_changes,
        );
    }
    text
}
