//! The table that people read.

use super::Found;
use std::fmt::Write as _;

/// One line for each condition.
pub fn render(found: &[Found]) -> String {
    let mut text = format!(
        "{:<20} {:>6} {:>10} {:>7} {:>6} {:>6} {:>9} {:>9} {:>10} {:>5}  {}\n",
        "condition",
        "c x o",
        "ops/s",
        "of",
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
            "{:<20} {load:>6} {:>10.0} {part:>6.0}% {:>6.3} {:>6.2} {:>9.2} {:>9.2} {:>10.1} \
             {:>5}  {rest}",
            row.condition,
            row.throughput_ops,
            row.jain,
            row.least,
            row.p50_ms,
            row.p99_ms,
            peak as f64 / f64::from(1 << 20),
            row.view_changes,
        );
    }
    text
}
