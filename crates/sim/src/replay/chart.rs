//! A message-sequence chart of the end of a run, as SVG: a lane for each replica and client, time
//! downwards (in order, not to scale), arrows from departure to arrival, what was lost, what was
//! wrong, and at the end in red what broke.

use super::lines::millis;
use super::{Line, Recording, Told};
use crate::time::Micros;
use crate::world::log::{Deed, Place};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// What a chart shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChartOptions {
    /// The last of the things that it shows, at most: each is a row.
    pub rows: usize,
    /// Also what goes to and fro all the time: heartbeats, checkpoints, state transfers, and
    /// what is said again.
    pub chatter: bool,
}

impl Default for ChartOptions {
    fn default() -> Self {
        Self { rows: 60, chatter: false }
    }
}

/// Words that chatter begins with.
const CHATTER: [&str; 5] = ["Heartbeat", "Report", "Progress", "Checkpoint", "state transfer"];

const LANE: u32 = 210;
const LEFT: u32 = 84;
const TOP: u32 = 66;
/// What labels of the last lane need beside it.
const MARGIN: u32 = 30;
const ROW: u32 = 16;
const STEP: u32 = 5;
/// Characters that fit beside a lane, and across the whole of one line of what broke.
const LABEL: usize = 35;

/// Draws the end of a recording.
#[must_use]
pub fn draw(recording: &Recording, options: ChartOptions) -> String {
    let shown: Vec<&Line> = recording
        .lines
        .iter()
        .zip(worth(&recording.lines))
        .filter(|(line, worth)| *worth || (options.chatter && !is_aside(line)))
        .map(|(line, _)| line)
        .collect();
    let rows = &shown[shown.len().saturating_sub(options.rows)..];
    let mut chart = Chart::new(recording, rows);
    chart.head(recording);
    chart.troubles(recording);
    rows.iter().enumerate().for_each(|(index, line)| chart.row(index, line));
    chart.end(recording)
}

/// What a chart never shows: clients' own business, and what follows from other rows.
fn is_aside(line: &Line) -> bool {
    let drawn = [Deed::Executes, Deed::Enters, Deed::Crashes, Deed::Lies, Deed::Refuses];
    matches!(&line.told, Told::Does(deed, _) if !drawn.contains(deed))
}

/// Which lines are worth a row also without chatter: neither what is said again and again, nor a
/// timeout that leads to nothing else.
fn worth<'a>(lines: &'a [Line]) -> Vec<bool> {
    let mut said = BTreeSet::new();
    let is_new = |line: &'a Line| match &line.told {
        Told::Sends(text, _) => {
            let fresh = said.insert((line.place, text.as_str()));
            fresh && !CHATTER.iter().any(|word| text.contains(word))
        }
        Told::Does(deed, _) => *deed != Deed::Refuses && !is_aside(line),
        Told::Timeout(..) => false,
        Told::Disturbed(_) | Told::Heals => true,
    };
    let mut worth: Vec<bool> = lines.iter().map(is_new).collect();
    for index in (0..lines.len().saturating_sub(1)).rev() {
        let (line, next) = (&lines[index], &lines[index + 1]);
        let leads = (line.at, line.place) == (next.at, next.place) && worth[index + 1];
        worth[index] |= leads && matches!(line.told, Told::Timeout(..));
    }
    worth
}

/// A drawing under way.
struct Chart {
    lanes: Vec<Place>,
    /// Each moment that has a place of its own, and where: arrivals before what follows from them.
    heights: Vec<(Moment, u32)>,
    bottom: u32,
    /// Lines and areas, and above them what is written.
    shapes: String,
    texts: String,
}

/// A time, whether it is a row's (arrivals come first), and which.
type Moment = (Micros, bool, usize);

impl Chart {
    fn new(recording: &Recording, rows: &[&Line]) -> Self {
        let mut lanes: BTreeSet<Place> = (0..)
            .zip(recording.options.places())
            .map(|(place, id)| Place::Replica(place, id))
            .collect();
        let mut moments: BTreeSet<Moment> = BTreeSet::new();
        let last = rows.last().map_or(0, |line| line.at);
        for (index, line) in rows.iter().enumerate() {
            moments.insert((line.at, true, index));
            lanes.extend(Some(line.place).filter(|place| *place != Place::World));
            if let Told::Sends(_, arrows) = &line.told {
                lanes.extend(arrows.iter().map(|arrow| arrow.to));
                let arrivals = arrows.iter().flat_map(|arrow| arrow.arrivals).flatten();
                let arrivals = arrivals.filter(|at| *at <= last);
                moments.extend(arrivals.map(|at| (at, false, 0)));
            }
        }
        let mut bottom = TOP + ROW;
        let place = |moment: Moment| {
            bottom += if moment.1 { ROW } else { STEP };
            (moment, bottom)
        };
        let heights = moments.into_iter().map(place).collect();
        bottom += 2 * ROW;
        Self {
            lanes: lanes.into_iter().collect(),
            heights,
            bottom,
            shapes: String::new(),
            texts: String::new(),
        }
    }

    fn width(&self) -> u32 {
        LEFT + LANE * self.lanes.len().max(3) as u32 + MARGIN
    }

    fn x(&self, place: Place) -> u32 {
        let index = self.lanes.iter().position(|lane| *lane == place).unwrap_or(0);
        LEFT + LANE * index as u32 + 12
    }

    /// Where a time is: the first moment not before it.
    fn y(&self, at: Micros) -> u32 {
        let after = self.heights.iter().find(|((time, ..), _)| *time >= at);
        after.map_or(self.bottom, |(_, y)| *y)
    }

    fn y_of_row(&self, index: usize) -> u32 {
        let row = self.heights.iter().find(|((_, row, number), _)| *row && *number == index);
        row.map_or(self.bottom, |(_, y)| *y)
    }

    fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(self.texts, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
    }

    fn line(&mut self, (x1, y1): (u32, u32), (x2, y2): (u32, u32), class: &str) {
        let _ = writeln!(
            self.shapes,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>"
        );
    }

    fn head(&mut self, recording: &Recording) {
        let title = match &recording.outcome {
            Err(violation) => {
                format!("seed {:#x} breaks {}", recording.seed, violation.broken.property)
            }
            Ok(_) => format!("seed {:#x}", recording.seed),
        };
        self.text(12, 20, "title", &title);
        self.text(12, 38, "time", "time in ms, in order and not to scale");
        for lane in self.lanes.clone() {
            let faulty = recording
                .options
                .byzantine
                .iter()
                .find(|(id, _)| matches!(lane, Place::Replica(_, replica) if replica == *id));
            let clients = recording.options.clients;
            let (class, name) = match (faulty, lane) {
                (Some((_, habits)), _) => {
                    let habits: Vec<&str> = habits.iter().map(|habit| habit.name()).collect();
                    ("bad", format!("{lane} faulty: {}", habits.join(", ")))
                }
                (None, Place::Client(index)) if usize::from(index) >= clients => {
                    ("bad", format!("{lane} hostile"))
                }
                _ => ("name", lane.to_string()),
            };
            let x = self.x(lane);
            self.text(x, TOP - 8, class, &short(&name, LABEL));
            self.line((x, TOP), (x, self.bottom), "lane");
        }
    }

    /// Shades what was wrong in the time that is shown.
    fn troubles(&mut self, recording: &Recording) {
        let Some(((first, ..), _)) = self.heights.first().copied() else { return };
        let last = self.heights.last().map_or(0, |((at, ..), _)| *at);
        for trouble in &recording.troubles {
            if trouble.from > last || trouble.until.is_some_and(|until| until < first) {
                continue;
            }
            let from = if trouble.from < first { TOP } else { self.y(trouble.from) };
            let to =
                trouble.until.filter(|until| *until <= last).map_or(self.bottom, |at| self.y(at));
            let (x, width, class) = match trouble.place {
                Place::World => (LEFT, self.width() - LEFT, "world"),
                place => (self.x(place) - 10, 20, "down"),
            };
            let height = to.saturating_sub(from).max(2);
            let _ = writeln!(
                self.shapes,
                "<rect x=\"{x}\" y=\"{from}\" width=\"{width}\" height=\"{height}\" \
                 class=\"{class}\"><title>{}</title></rect>",
                trouble.name
            );
            if trouble.from < first {
                self.text(x + 2, TOP + 10, "wrong", trouble.name);
            }
        }
    }

    fn row(&mut self, index: usize, line: &Line) {
        let y = self.y_of_row(index);
        self.text(4, y + 3, "time", &millis(line.at));
        let x = if line.place == Place::World { LEFT } else { self.x(line.place) };
        let (class, text) = match &line.told {
            Told::Sends(text, arrows) => {
                for arrow in arrows {
                    self.arrow((x, y), self.x(arrow.to), arrow.arrivals);
                }
                ("said", text.clone())
            }
            Told::Does(Deed::Executes, text) => ("ran", text.clone()),
            Told::Does(Deed::Enters, text) => ("view", text.clone()),
            Told::Does(Deed::Lies, text) => ("bad", text.clone()),
            Told::Heals => ("view", "everything heals".to_owned()),
            told => ("wrong", told.to_string()),
        };
        let _ = writeln!(self.shapes, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" class=\"{class}\"/>");
        self.text(x + 7, y - 2, class, &short(&text, LABEL));
    }

    fn arrow(&mut self, (x, y): (u32, u32), to: u32, arrivals: [Option<Micros>; 2]) {
        let last = self.heights.last().map_or(0, |((at, ..), _)| *at);
        if arrivals == [None, None] {
            let stop = (x * 2 + to) / 3;
            self.line((x, y), (stop, y + ROW / 2), "lost");
            self.text(stop.saturating_sub(3), y + ROW / 2 + 4, "wrong", "✕");
        }
        for at in arrivals.into_iter().flatten() {
            if at <= last {
                self.line((x, y), (to, self.y(at)), "arrow");
            } else {
                // Still under way when the run ends.
                self.line((x, y), (to, self.bottom), "later");
            }
        }
    }

    fn end(mut self, recording: &Recording) -> String {
        let (width, mut bottom) = (self.width(), self.bottom);
        if let (Err(violation), true) = (&recording.outcome, recording.to_the_end) {
            self.line((LEFT, bottom), (width, bottom), "broken");
            let across = (width as usize - 24) / 6;
            let detail = violation.broken.to_string();
            let said = format!("{} ms  {detail}", millis(violation.at));
            for part in said.lines().flat_map(|line| pieces(line, across)).take(8) {
                bottom += ROW;
                self.text(12, bottom, "broken", &part);
            }
        }
        let height = bottom + ROW;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n{STYLE}\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}{}</svg>\n",
            self.shapes, self.texts
        )
    }
}

const STYLE: &str = "<style>text{font:10px monospace;fill:#222;paint-order:stroke;stroke:#fff;\
    stroke-width:3px;white-space:pre}.title{font-size:14px}\
    .title,.broken,.bad,.view{font-weight:bold}text.name{font-size:12px}\
    text.time{fill:#666;font-size:9px}text.ran{fill:#1a6b2d}circle.ran{fill:#1a6b2d}\
    text.view{fill:#1546a0}circle.view{fill:#1546a0}text.wrong,text.bad{fill:#a04a00}\
    circle.wrong,circle.bad{fill:#a04a00}text.broken{fill:#c00000;font-size:10px}\
    line.lane{stroke:#999}line.arrow{stroke:#444;marker-end:url(#head)}\
    line.later{stroke:#aaa;stroke-dasharray:2 4}line.lost{stroke:#a04a00;stroke-dasharray:4 2}\
    line.broken{stroke:#c00000;stroke-width:3}rect.world{fill:#f6d9b8;fill-opacity:.35}\
    rect.down{fill:#d08a3c;fill-opacity:.35}</style>\n\
    <defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" \
    markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#444\"/></marker></defs>\n";

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            it if it.is_control() => out.push(' '),
            it => out.push(it),
        }
    }
    out
}

/// At most so many characters.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    kept + "…"
}

fn pieces(text: &str, most: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(most.max(1)).map(|piece| piece.iter().collect()).collect()
}
