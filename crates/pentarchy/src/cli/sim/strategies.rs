//! `sim strategies`: what a faulty primary gains by being slow, or by serving only some.

use super::super::variant;
use super::args::StrategiesArgs;
use super::{factories, jobs, protocol};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::{say, table};
use pentarchy_sim::strategies::{Played, STRATEGIES, play_all};

/// Runs the command.
pub fn run(args: &StrategiesArgs) -> Outcome {
    let entry = protocol(&args.protocol)?;
    variant::choose(args.variant.as_deref())?;
    let played = play_all(jobs(None), &factories(entry));
    say(&to_text(&played));
    if played.iter().all(Result::is_ok) { Ok(()) } else { Err(Failure::NotWell) }
}

fn to_text(played: &[Played]) -> String {
    let mut table = table::new(&["the first primary", "a request takes, ms", "times", "views"]);
    let mean = |played: &Played| played.as_ref().ok().and_then(|summary| summary.late_mean_us);
    let honest = played.first().and_then(mean);
    for (strategy, played) in STRATEGIES.iter().zip(played) {
        let row = match (played, mean(played)) {
            (Ok(summary), Some(mean)) => {
                let times = honest.map_or(1.0, |honest| mean as f64 / honest as f64);
                let millis = mean as f64 / 1_000.0;
                [format!("{millis:.1}"), format!("{times:.1}"), summary.view.0.to_string()]
            }
            (Ok(_), None) => ["-", "-", "-"].map(str::to_owned),
            (Err(violation), _) => [violation.broken.to_string(), "-".into(), "-".into()],
        };
        let [millis, times, views] = row;
        table.add_row([strategy.name.to_owned(), millis, times, views]);
    }
    let note = "Means of simulated time, once the group has had time to find out. With a fixed \
                number of requests at a time, throughput falls as their time rises.";
    format!("{}\n{note}", table::text(&table))
}
