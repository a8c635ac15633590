//! What a replica or a gateway shows to monitoring: metrics in the text format of OpenMetrics,
//! which Prometheus reads, and whether it lives and is ready.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`replica`], [`gateway`] | every metric, with what it means and where it comes from |
//! | [`document`] | `docs/metrics.md`, from the same tables |
//! | [`server`] | `/metrics`, `/healthz` and `/readyz` over HTTP |
//!
//! Nothing here runs on the thread that orders requests: asked for it, the replica leaves a report
//! behind at the end of a round, and this module turns it into text.

pub mod document;
pub mod gateway;
pub mod replica;
pub mod server;

use pentarchy_replica::histogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::fmt;

/// What may be done with a metric's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows, from 0 at the start of the process. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values below bounds.
    Histogram,
}

/// One metric of a source `S`: its description, and how its numbers are read.
pub struct Metric<S: 'static> {
    /// Its whole name.
    pub name: &'static str,
    /// What may be done with its numbers.
    pub kind: Kind,
    /// What it is. One sentence.
    pub help: &'static str,
    /// What to watch for, for an operator. May be empty.
    pub watch: &'static str,
    /// Reads its numbers.
    pub read: fn(&S, &mut Samples),
}

/// The numbers of one metric, each with its labels.
#[derive(Default)]
pub struct Samples(Vec<(Labels, Number)>);

type Labels = Vec<(&'static str, String)>;

enum Number {
    One(f64),
    Spread { sum: f64, count: u64, buckets: Vec<(f64, u64)> },
}

impl Samples {
    /// The only number of a metric without labels.
    pub fn one(&mut self, value: f64) {
        self.0.push((Vec::new(), Number::One(value)));
    }

    /// A number with one label.
    pub fn of(&mut self, label: &'static str, is: impl ToString, value: f64) {
        self.with(vec![(label, is.to_string())], value);
    }

    /// A number with its labels.
    pub fn with(&mut self, labels: Vec<(&'static str, String)>, value: f64) {
        self.0.push((labels, Number::One(value)));
    }

    /// Counts of values below bounds. One unit of the metric is `scale` of what was recorded.
    pub fn spread(&mut self, labels: Vec<(&'static str, String)>, of: &Histogram, scale: f64) {
        let mut buckets: Vec<(f64, u64)> =
            of.buckets().map(|(bound, count)| (bound as f64 / scale, count)).collect();
        let below: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, of.count() - below));
        let sum = of.sum() as f64 / scale;
        self.0.push((labels, Number::Spread { sum, count: of.count(), buckets }));
    }
}

/// The text of all metrics of a source. `labels` are put on every number.
#[must_use]
pub fn render<S: Clone + Send + Sync + 'static>(
    metrics: &'static [Metric<S>],
    source: &S,
    labels: &[(&'static str, String)],
) -> String {
    let labels = labels.iter().map(|(name, value)| (Cow::from(*name), Cow::from(value.clone())));
    let mut registry = Registry::with_labels(labels);
    registry.register_collector(Box::new(Page { metrics, source: source.clone() }));
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut page, &registry);
    page
}

struct Page<S: 'static> {
    metrics: &'static [Metric<S>],
    source: S,
}

impl<S> fmt::Debug for Page<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({} metrics)", self.metrics.len())
    }
}

impl<S: Send + Sync + 'static> Collector for Page<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in self.metrics {
            let mut samples = Samples::default();
            (metric.read)(&self.source, &mut samples);
            let (kind, name) = match metric.kind {
                // The encoder puts the ending back.
                Kind::Counter => (MetricType::Counter, metric.name.trim_end_matches("_total")),
                Kind::Gauge => (MetricType::Gauge, metric.name),
                Kind::Histogram => (MetricType::Histogram, metric.name),
            };
            // The encoder closes the sentence itself.
            let help = metric.help.trim_end_matches('.');
            let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, number) in &samples.0 {
                if labels.is_empty() {
                    encode_number(&mut encoder, metric.kind, number)?;
                } else {
                    encode_number(&mut encoder.encode_family(labels)?, metric.kind, number)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_number(encoder: &mut MetricEncoder<'_>, kind: Kind, number: &Number) -> fmt::Result {
    match number {
        Number::One(value) if kind == Kind::Counter => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(value, None)
        }
        Number::One(value) => encoder.encode_gauge(value),
        Number::Spread { sum, count, buckets } => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}
