//! `sim museum`: published bugs and attacks, each against a variant that has the flaw and against
//! the protocol as it is here.

use super::args::MuseumArgs;
use super::{factories, jobs};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::{say, table};
use pentarchy_sim::explorer::Explored;
use pentarchy_sim::museum::{EXHIBITS, Exhibit, Flaw, Shown, Subject, show};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the command.
pub fn run(args: &MuseumArgs) -> Outcome {
    let lines = show_all(&chosen(args.only.as_deref())?)?;
    let well = lines.iter().all(|line| line.as_expected);
    say(&if args.json { to_json(&lines) } else { to_text(&lines, args.only.is_some()) });
    if well { Ok(()) } else { Err(Failure::NotWell) }
}

fn subject(name: &str) -> Option<Subject<'static>> {
    let entry = pentarchy_protocols::find(name)?;
    let explored = Explored {
        rules: entry.rules,
        start: &entry.start,
        forger: entry.forger,
        is_settled: entry.is_settled,
    };
    Some(Subject { factories: factories(entry), explored, starts: entry.starts })
}

/// Shows them side by side, one per processor at a time.
fn show_all(exhibits: &[&'static Exhibit]) -> Outcome<Vec<Line>> {
    let next = AtomicUsize::new(0);
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        exhibits.get(index).map(|exhibit| (index, *exhibit))
    };
    let line = |(index, exhibit): (usize, &'static Exhibit)| {
        (index, show(exhibit, &subject, 1).map(|shown| Line::new(exhibit, shown)))
    };
    let work = || std::iter::from_fn(take).map(line).collect::<Vec<_>>();
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs(None)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|it| it.join().expect("a world does not panic")).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, line)| line.map_err(Failure::Internal)).collect()
}

fn chosen(only: Option<&str>) -> Outcome<Vec<&'static Exhibit>> {
    let named = |it: &&Exhibit| only.is_none_or(|only| only == it.name);
    let chosen: Vec<_> = EXHIBITS.iter().filter(named).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = EXHIBITS.iter().map(|it| it.name).collect();
        return Err(Failure::Usage(format!("no such exhibit; there are: {}", names.join(", "))));
    }
    Ok(chosen)
}

/// What came of an exhibit.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    source: &'static str,
    about: &'static str,
    /// The protocol that is here.
    protocol: &'static str,
    /// The seeded bug, if that is the flaw.
    #[serde(skip_serializing_if = "Option::is_none")]
    mutant: Option<&'static str>,
    /// The rules as they were printed, if these are the flaw.
    #[serde(skip_serializing_if = "Option::is_none")]
    printed: Option<&'static str>,
    /// The property that the flawed variant breaks.
    flawed_breaks: Option<&'static str>,
    flawed_detail: Option<String>,
    /// Runs, or states of a search, until it did.
    tries: u64,
    /// The property that ours breaks: none.
    ours_breaks: Option<&'static str>,
    ours_detail: Option<String>,
    /// Runs, or states of a search, in which ours did not.
    survived: u64,
    /// Milliseconds of a run for each request, without the attack and under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    slowed_ms: Option<(u64, u64)>,
    as_expected: bool,
    seconds: f64,
}

impl Line {
    fn new(exhibit: &Exhibit, shown: Shown) -> Self {
        let as_expected = shown.is_as_expected(exhibit);
        let Shown { flawed, ours, tries, survived, slowed, took } = shown;
        let (mutant, printed) = match exhibit.flaw {
            Flaw::Mutant(name) => (Some(name), None),
            Flaw::Printed(name) => (None, Some(name)),
            Flaw::Device(_) | Flaw::Macs | Flaw::Known => (None, None),
        };
        let (flawed_breaks, flawed_detail) = flawed.unzip();
        let (ours_breaks, ours_detail) = ours.unzip();
        Self {
            name: exhibit.name,
            source: exhibit.source,
            about: exhibit.about,
            protocol: exhibit.protocol,
            mutant,
            printed,
            flawed_breaks,
            flawed_detail,
            tries,
            ours_breaks,
            ours_detail,
            survived,
            slowed_ms: slowed,
            as_expected,
            seconds: took.as_secs_f64(),
        }
    }

    fn flawed(&self) -> String {
        match (self.slowed_ms, self.flawed_breaks) {
            (Some((calm, slow)), _) => format!("known weakness: {calm} ms become {slow}"),
            (None, Some(property)) => format!("{property}, after {}", self.tries),
            (None, None) => "DOES NOT BREAK".to_owned(),
        }
    }

    fn ours(&self) -> String {
        match self.ours_breaks {
            None => format!("nothing, in {}", self.survived),
            Some(property) => format!("BREAKS {property}"),
        }
    }
}

fn to_json(lines: &[Line]) -> String {
    serde_json::to_string_pretty(lines).unwrap_or_default()
}

/// A table; of a single exhibit all that there is to say.
fn to_text(lines: &[Line], single: bool) -> String {
    if let (true, [line]) = (single, lines) {
        let mut text = format!("{}\n{}\n{}\n", line.name, line.source, line.about);
        text += &format!("with the flaw: {}\nhere: {}", line.flawed(), line.ours());
        for detail in line.flawed_detail.iter().chain(&line.ours_detail) {
            text += &format!("\n\n{detail}");
        }
        return text;
    }
    let mut table = table::new(&["exhibit", "the flaw breaks", "ours breaks", "time"]);
    for line in lines {
        let (flawed, ours) = (line.flawed(), line.ours());
        let mark = if line.as_expected { "" } else { " NOT AS EXPECTED" };
        table.add_row([
            line.name,
            &flawed,
            &format!("{ours}{mark}"),
            &format!("{:.1} s", line.seconds),
        ]);
    }
    format!("{}\nNumbers are runs, or states of a search.", table::text(&table))
}
