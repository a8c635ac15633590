//! The page that lists every metric, from the tables that make them.

use super::{Kind, Metric, gateway, replica};
use std::fmt::Write as _;

const HEAD: &str = "# Metrics

Which metrics are there, and what should I watch? How to switch them on, and which alerts are worth
having: [operations.md](operations.md). A test compares this page with the tables in
`crates/pentarchy/src/metrics`, and writes it from them with `PENTARCHY_BLESS=1`.

Counters start at 0 with the process and their names end in `_total`: look at their rates. Times are
in seconds, sizes in bytes. The bounds of histograms are powers of two.
";

/// The text of `docs/metrics.md`.
#[must_use]
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## Replicas\n\nEvery number carries the label `replica`, with the number of ");
    page.push_str("the\nmember.\n\n");
    table(replica::METRICS, &mut page);
    page.push_str("\n## Gateways\n\n");
    table(gateway::METRICS, &mut page);
    page
}

fn table<S>(metrics: &[Metric<S>], page: &mut String) {
    page.push_str("| metric | kind | what it is | watch for |\n| --- | --- | --- | --- |\n");
    for Metric { name, kind, help, watch, .. } in metrics {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(page, "| `{name}` | {kind} | {help} | {watch} |");
    }
}
