//! What was computed: a line for each protocol, a point for each link.

use crate::chart::{Panel, draw};
use crate::grid::Grid;
use crate::machine::Program;
use crate::report::table::number;
use serde::Serialize;

/// Everything that was computed.
#[derive(Serialize, Debug)]
pub struct Figure {
    /// Changes with the meaning of any field.
    format: u32,
    /// With what.
    program: Program,
    /// Faults tolerated.
    f: usize,
    /// Standard deviation of what a link takes, in percent of it.
    deviation_percent: u64,
    /// Requests behind each point.
    requests: usize,
    /// What decided how long each message takes.
    seed: u64,
    /// By protocol.
    pub lines: Vec<Line>,
}

/// One protocol.
#[derive(Serialize, Debug)]
pub struct Line {
    /// Its name.
    pub protocol: String,
    /// Replicas.
    pub n: usize,
    /// In the order of the options.
    pub points: Vec<Point>,
}

/// One link.
#[derive(Serialize, Debug)]
pub struct Point {
    /// What a message takes on average, in milliseconds.
    pub link_ms: f64,
    /// Latency from the submission to the believed result, in milliseconds: the mean.
    pub mean_ms: f64,
    /// Half of the requests were faster.
    pub p50_ms: f64,
    /// 99 % were faster.
    pub p99_ms: f64,
    /// The mean in times of a link: communication steps, and the wait for the slower of several
    /// messages.
    pub steps: f64,
}

impl Point {
    /// From what requests took, in microseconds.
    pub fn new(link_ms: f64, mut took: Vec<u64>) -> Self {
        took.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * took.len() as f64).ceil() as usize;
            took.get(rank.saturating_sub(1)).map_or(0.0, |us| *us as f64 / 1e3)
        };
        let mean_ms = took.iter().sum::<u64>() as f64 / 1e3 / took.len().max(1) as f64;
        let (p50_ms, p99_ms) = (quantile(0.5), quantile(0.99));
        Self { link_ms, mean_ms, p50_ms, p99_ms, steps: mean_ms / link_ms }
    }
}

impl Figure {
    /// Of these lines.
    pub fn new(
        f: usize,
        deviation_percent: u64,
        requests: usize,
        seed: u64,
        lines: Vec<Line>,
    ) -> Self {
        let program = Program::this();
        Self { format: 1, program, f, deviation_percent, requests, seed, lines }
    }

    fn caption(&self) -> String {
        let Self { f, deviation_percent, requests, seed, .. } = self;
        format!(
            "Latency of {requests} requests of one client, in milliseconds: mean (99 % were \
             faster). f = {f}, links with a\nstandard deviation of {deviation_percent} %, seed \
             {seed}. Virtual time: nothing but links takes any."
        )
    }

    fn grid(&self) -> Grid {
        let cell =
            |point: &Point| format!("{} ({})", number(point.mean_ms, 1), number(point.p99_ms, 1));
        self.table("link, ms", cell)
    }

    fn steps(&self) -> Grid {
        self.table("mean by link", |point| number(point.steps, 2))
    }

    /// A row for each protocol, a column for each link.
    fn table(&self, corner: &str, cell: impl Fn(&Point) -> String) -> Grid {
        let links = self.lines.first().map_or(&[][..], |line| &line.points);
        let links = links.iter().map(|point| point.link_ms.to_string());
        let row = |line: &Line| {
            let name = format!("{} n={}", line.protocol, line.n);
            [name].into_iter().chain(line.points.iter().map(&cell)).collect()
        };
        let heads = [corner.to_owned()].into_iter().chain(links).collect();
        Grid { heads, rows: self.lines.iter().map(row).collect() }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        format!("{}\n\n{}\n\n{}", self.caption(), self.grid().text(), self.steps().text())
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        format!("{}\n\n{}\n{}", self.caption(), self.grid().markdown(), self.steps().markdown())
    }

    /// Mean latency against the time of a link.
    pub fn svg(&self) -> String {
        let line = |line: &Line| {
            let mut points: Vec<_> =
                line.points.iter().map(|it| (it.link_ms, it.mean_ms)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (line.protocol.clone(), points)
        };
        let lines: Vec<_> = self.lines.iter().map(line).collect();
        let links = lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.0));
        draw(&[Panel {
            title: format!("Latency in virtual time, f = {}", self.f),
            unit: "latency, ms",
            unit_across: "time of a link, ms",
            end: links.fold(1.0, f64::max),
            logarithmic: false,
            fault: None,
            level: None,
            lines,
        }])
    }
}
