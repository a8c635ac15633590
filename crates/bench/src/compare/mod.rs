//! `bench compare`: whether what was measured after a change differs from what was measured before.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`recorded`] | the two files |
//! | [`rank`] | the test, and the interval |

mod rank;
mod recorded;

use crate::files::json;
use clap::{Args, ValueEnum};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::{complain, say, table};
use rank::Change;
use recorded::{Case, Recorded, System};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// `bench compare`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy bench --json > before.json\n  \
    pentarchy bench --json > after.json     # of the changed program, on the same quiet machine\n  \
    pentarchy bench compare before.json after.json\n\n\
    Exit codes: 0 no regression was shown, 1 one was, 2 the files cannot be compared or have too\n\
    few repeats to show anything (4 each for 95 %).")]
pub struct CompareArgs {
    /// What `bench --json` printed before the change
    before: PathBuf,
    /// What it printed after
    after: PathBuf,
    /// Which figures decide; each is one more chance of a false alarm
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "throughput",
        value_name = "FIGURE,..."
    )]
    figure: Vec<Figure>,
    /// Confidence of the intervals, in percent
    #[arg(long, default_value = "95", value_name = "PERCENT", value_parser = parse_confidence)]
    confidence: f64,
    /// Differences below this are none, in percent
    #[arg(long, default_value = "0", value_name = "PERCENT", value_parser = parse_threshold)]
    threshold: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Figure {
    /// Operations in a second
    Throughput,
    /// The median latency
    P50,
    /// The latency that 1 % of the operations exceed
    P99,
    /// Processor time of everyone for one operation
    Cpu,
}

impl Figure {
    const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Cpu => "cpu",
        }
    }

    fn of(self, system: &System) -> Vec<f64> {
        match self {
            Self::Throughput => system.throughput(),
            Self::P50 | Self::P99 => system.latency(self.name()),
            Self::Cpu => system.cpu(),
        }
    }

    /// The words for more of it and for less, and whether more is better.
    const fn words(self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Throughput => ("faster", "slower", true),
            Self::P50 | Self::P99 | Self::Cpu => ("higher", "lower", false),
        }
    }
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Better,
    Worse,
    NoDifferenceShown,
    /// Whatever the values were, they could not have shown anything.
    TooFewRepeats,
}

/// One figure of one system under one set of conditions.
#[derive(Serialize, Debug)]
struct Line {
    case: String,
    system: String,
    figure: &'static str,
    verdict: Verdict,
    /// In percent of before, as all below.
    change_percent: f64,
    low_percent: Option<f64>,
    high_percent: Option<f64>,
    p: f64,
    #[serde(skip)]
    what: Figure,
}

#[derive(Serialize)]
struct Comparison {
    format: u32,
    confidence_percent: f64,
    threshold_percent: f64,
    regression: bool,
    warnings: Vec<String>,
    comparisons: Vec<Line>,
}

/// Runs the command.
pub fn run(args: &CompareArgs) -> Outcome {
    let (before, after) = (Recorded::load(&args.before)?, Recorded::load(&args.after)?);
    let comparison = compare(&before, &after, args)?;
    if args.json {
        say(&json(&comparison)?);
    } else {
        comparison.warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
        say(&render(&comparison));
    }
    if comparison.comparisons.iter().all(|line| line.verdict == Verdict::TooFewRepeats) {
        return Err(Failure::Usage(format!(
            "too few repeats: at {} % nothing can be shown by so few; measure with --repeats 5 or \
             more",
            args.confidence
        )));
    }
    if comparison.regression { Err(Failure::NotWell) } else { Ok(()) }
}

fn compare(before: &Recorded, after: &Recorded, args: &CompareArgs) -> Outcome<Comparison> {
    let mut warnings = before.doubts(after);
    let mut comparisons = Vec::new();
    for case in &before.cases {
        let Some(other) = after.cases.iter().find(|other| case.is_like(other)) else {
            warnings.push(format!("only in the first run: {}", case.name()));
            continue;
        };
        comparisons.extend(compare_case(case, other, args));
    }
    for case in &after.cases {
        if !before.cases.iter().any(|other| case.is_like(other)) {
            warnings.push(format!("only in the second run: {}", case.name()));
        }
    }
    if comparisons.is_empty() {
        return Err(Failure::Usage("the two runs have nothing in common".to_owned()));
    }
    let regression = comparisons.iter().any(|line| line.verdict == Verdict::Worse);
    Ok(Comparison {
        format: 1,
        confidence_percent: args.confidence,
        threshold_percent: args.threshold,
        regression,
        warnings,
        comparisons,
    })
}

fn compare_case(before: &Case, after: &Case, args: &CompareArgs) -> Vec<Line> {
    let mut lines = Vec::new();
    for system in &before.systems {
        let Some(other) = after.systems.iter().find(|other| other.name() == system.name()) else {
            continue;
        };
        for figure in &args.figure {
            let (ours, theirs) = (figure.of(system), figure.of(other));
            let change = Change::between(&ours, &theirs, args.confidence / 100.0);
            lines.extend(change.map(|change| Line {
                case: before.name(),
                system: system.name(),
                figure: figure.name(),
                verdict: judge(*figure, &change, args.threshold / 100.0),
                change_percent: percent(change.ratio),
                low_percent: change.interval.map(|(low, _)| percent(low)),
                high_percent: change.interval.map(|(_, high)| percent(high)),
                p: change.p,
                what: *figure,
            }));
        }
    }
    lines
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn judge(figure: Figure, change: &Change, threshold: f64) -> Verdict {
    let Some((low, high)) = change.interval else { return Verdict::TooFewRepeats };
    let (.., more_is_better) = figure.words();
    match (low > 1.0 + threshold, high < 1.0 - threshold) {
        (true, _) if more_is_better => Verdict::Better,
        (true, _) => Verdict::Worse,
        (_, true) if more_is_better => Verdict::Worse,
        (_, true) => Verdict::Better,
        (false, false) => Verdict::NoDifferenceShown,
    }
}

fn render(comparison: &Comparison) -> String {
    let mut table = table::new(&["conditions", "system", "figure", "after the change"]);
    for line in &comparison.comparisons {
        table.add_row([&line.case, &line.system, line.figure, &line.to_string()]);
    }
    let decided = comparison.comparisons.len();
    let chance = 1.0 - comparison.confidence_percent / 100.0;
    format!(
        "{}\n\n{decided} comparisons, intervals of {} %: if nothing has changed, up to {:.1} of \
         them show a difference by chance.",
        table::text(&table),
        comparison.confidence_percent,
        decided as f64 * chance
    )
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(low), Some(high)) = (self.low_percent, self.high_percent) else {
            return write!(f, "{:+.1} %; too few repeats to tell", self.change_percent);
        };
        let (more, less, _) = self.what.words();
        let word = if self.change_percent > 0.0 { more } else { less };
        match self.verdict {
            Verdict::NoDifferenceShown => f.write_str("no difference shown")?,
            _ => write!(f, "{word} by {:.1} %", self.change_percent.abs())?,
        }
        write!(f, " (interval {low:+.1} .. {high:+.1} %)")
    }
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (50.0..=99.9).contains(percent));
    percent.ok_or_else(|| format!("{text:?} is not a number of percent from 50 to 99.9"))
}

fn parse_threshold(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=99.0).contains(percent));
    percent.ok_or_else(|| format!("{text:?} is not a number of percent from 0 to 99"))
}

#[cfg(test)]
mod tests;
