//! A run told again: what happened before its end, as lines in the language of golden traces
//! (`lines.rs`) and as a message-sequence chart ([`chart`]).

use crate::crypto::client_id;
use crate::packet::Address;
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, run_seed, watch_seed};
use crate::shrink::Case;
use crate::swarm::{Disturbance, Options, SimConfig};
use crate::time::Micros;
use crate::world::Log;
use crate::world::log::{Deed, Event, Place, What};
use core::str::FromStr;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Rules;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

pub mod chart;
mod lines;

/// A world to be run again.
#[derive(Clone, Debug)]
pub enum Subject {
    /// As a seed draws it.
    Drawn(u64, Box<SimConfig>),
    /// As it is written down.
    Given(Box<Case>),
}

impl Subject {
    /// Its seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        match self {
            Self::Drawn(seed, _) => *seed,
            Self::Given(case) => case.seed,
        }
    }

    /// Its options.
    #[must_use]
    pub fn options(&self, rules: &Rules) -> Options {
        match self {
            Self::Drawn(seed, config) => Options::draw(&mut Rng::new(*seed), config, rules),
            Self::Given(case) => case.options.clone(),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The property that it breaks.
    pub fn run(&self, factories: &Factories<'_>, log: Option<Log>) -> Result<Summary, Violation> {
        match (self, log) {
            (Self::Given(case), log) => case.run(factories, log),
            (Self::Drawn(seed, config), None) => run_seed(*seed, config, factories),
            (Self::Drawn(seed, config), Some(log)) => watch_seed(*seed, config, factories, log),
        }
    }
}

/// Where a replay ends, if not with the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// At this time.
    Time(Micros),
    /// When somebody executes this slot.
    Slot(u64),
    /// With the event of this number.
    Event(u64),
}

impl FromStr for Until {
    type Err = String;

    /// # Errors
    /// What would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = "write milliseconds like 1204.5, a slot like s12, or an event like #3400";
        let number = |text: &str| text.parse().map_err(|_| wrong.to_owned());
        match (text.strip_prefix('s'), text.strip_prefix('#')) {
            (Some(slot), _) => number(slot).map(Self::Slot),
            (_, Some(event)) => number(event).map(Self::Event),
            _ => {
                let millis = text.parse().ok().filter(|it: &f64| (0.0..1e9).contains(it));
                millis
                    .map(|it| Self::Time((it * 1_000.0) as Micros))
                    .ok_or_else(|| wrong.to_owned())
            }
        }
    }
}

/// What of a run is to be told.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The last lines, at most.
    pub lines: usize,
    /// Where to end.
    pub until: Option<Until>,
    /// Replicas and clients by their names (`r2`, `c1`); everyone, if there are none.
    pub only: Vec<String>,
    /// Also what follows from other lines, and what devices certify.
    pub everything: bool,
}

/// One copy of a message under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrow {
    /// To whom.
    pub to: Place,
    /// When it arrives: never, once or twice.
    pub arrivals: [Option<Micros>; 2],
}

/// What a line tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// A message leaves, to one or more.
    Sends(String, Vec<Arrow>),
    /// A timer ran out: its kind and subject.
    Timeout(u8, u64),
    /// Something goes wrong.
    Disturbed(String),
    /// From now on everything works.
    Heals,
    /// Anything else.
    Does(Deed, String),
}

/// One line: something that happens, or a message that leaves for several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The number of the event in the run, from 1.
    pub number: u64,
    /// When.
    pub at: Micros,
    /// Where.
    pub place: Place,
    /// What.
    pub told: Told,
}

/// A time in which something is wrong somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// From when.
    pub from: Micros,
    /// Until when; to the end, if it has none.
    pub until: Option<Micros>,
    /// With whom.
    pub place: Place,
    /// What.
    pub name: &'static str,
}

/// A run, told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// The seed of the run.
    pub seed: u64,
    /// Its options.
    pub options: Options,
    /// The lines that were wanted, in order.
    pub lines: Vec<Line>,
    /// Lines before those that were wanted but too many.
    pub before: u64,
    /// All events of the run.
    pub events: u64,
    /// Everything that went wrong in it.
    pub troubles: Vec<Trouble>,
    /// Whether the recording goes to the end of the run.
    pub to_the_end: bool,
    /// How the run ended. Clients have names of this recording in it.
    pub outcome: Result<Summary, Violation>,
}

/// Runs a world again and tells what was wanted.
#[must_use]
pub fn record(subject: &Subject, factories: &Factories<'_>, wanted: &Wanted) -> Recording {
    let (seed, options) = (subject.seed(), subject.options(&factories.rules));
    let recorder = Arc::new(Mutex::new(Recorder::new(seed, &options, wanted.clone())));
    let listener = recorder.clone();
    let log = Box::new(move |event: &Event| {
        listener.lock().expect("a recorder does not panic").hear(event);
    });
    let outcome = subject.run(factories, Some(log));
    let mut recorder = recorder.lock().expect("a recorder does not panic");
    let outcome = outcome.map_err(|mut violation| {
        violation.broken.detail = recorder.named(&violation.broken.detail);
        violation
    });
    Recording {
        seed,
        options,
        lines: core::mem::take(&mut recorder.lines).into(),
        before: recorder.before,
        events: recorder.events,
        troubles: core::mem::take(&mut recorder.troubles),
        to_the_end: !recorder.ended,
        outcome,
    }
}

/// Hears all events of a run and keeps the last lines.
struct Recorder {
    wanted: Wanted,
    /// Who stands at which place.
    places: Vec<ReplicaId>,
    /// Names of clients as cores print them, and shorter ones.
    clients: Vec<(String, String)>,
    heal_at: Micros,
    lines: VecDeque<Line>,
    before: u64,
    events: u64,
    troubles: Vec<Trouble>,
    ended: bool,
}

impl Recorder {
    fn new(seed: u64, options: &Options, wanted: Wanted) -> Self {
        let count = options.clients + options.hostile.len();
        let name = |index| (client_id(seed, index).to_string(), format!("c{index}"));
        Self {
            wanted,
            places: options.places(),
            clients: (0..count).map(name).collect(),
            heal_at: options.heal_at,
            lines: VecDeque::new(),
            before: 0,
            events: 0,
            troubles: Vec::new(),
            ended: false,
        }
    }

    fn named(&self, text: &str) -> String {
        let replace = |text: String, (long, short): &(String, String)| text.replace(long, short);
        self.clients.iter().fold(text.to_owned(), replace)
    }

    fn hear(&mut self, event: &Event) {
        self.events += 1;
        self.note_trouble(event);
        self.ended |= match self.wanted.until {
            Some(Until::Time(at)) => event.at > at,
            Some(Until::Event(number)) => self.events > number,
            _ => false,
        };
        if self.ended {
            return;
        }
        if let Some(told) = self.told(event) {
            self.keep(event, told);
        }
        if let (Some(Until::Slot(slot)), What::Does(Deed::Executes, text)) =
            (self.wanted.until, &event.what)
        {
            self.ended = text.starts_with(&format!("executes s{slot} "));
        }
    }

    fn note_trouble(&mut self, event: &Event) {
        let (name, until) = match &event.what {
            What::Disturbed(Disturbance::Crash(_) | Disturbance::ClockJump(..)) => return,
            What::Disturbed(disturbance) => {
                let mut disturbance = *disturbance;
                let lasts = disturbance.lasts().map_or(0, |lasts| *lasts);
                (disturbance.name(), Some((event.at + lasts).min(self.heal_at)))
            }
            What::Does(Deed::Crashes, _) => ("crashed", None),
            _ => return,
        };
        self.troubles.push(Trouble { from: event.at, until, place: event.place, name });
    }

    fn told(&self, event: &Event) -> Option<Told> {
        Some(match &event.what {
            What::Departs { to, arrivals, text, .. } => {
                let to = match to {
                    Address::Replica(place) => {
                        let id = self.places.get(usize::from(place.0)).copied();
                        Place::Replica(place.0, id.unwrap_or(*place))
                    }
                    Address::Client(index) => Place::Client(*index),
                };
                Told::Sends(self.named(text), vec![Arrow { to, arrivals: *arrivals }])
            }
            What::Timeout((kind, subject)) => Told::Timeout(*kind, *subject),
            What::Disturbed(disturbance) => {
                Told::Disturbed(crate::swarm::text::disturbance_text(*disturbance))
            }
            What::Heals => Told::Heals,
            What::Does(Deed::Says | Deed::Certifies, _) if !self.wanted.everything => return None,
            What::Does(deed, text) => Told::Does(*deed, self.named(text)),
        })
    }

    fn keep(&mut self, event: &Event, told: Told) {
        if !self.is_wanted(event.place, &told) {
            return;
        }
        let (at, place, number) = (event.at, event.place, self.events);
        if let (Told::Sends(text, arrows), Some(last)) = (&told, self.lines.back_mut())
            && let Told::Sends(known, others) = &mut last.told
            && (last.at, last.place, &*known) == (at, place, text)
        {
            others.extend(arrows.iter().cloned());
            return;
        }
        if self.lines.len() >= self.wanted.lines {
            self.lines.pop_front();
            self.before += 1;
        }
        self.lines.push_back(Line { number, at, place, told });
    }

    fn is_wanted(&self, place: Place, told: &Told) -> bool {
        let named =
            |place: Place| place == Place::World || self.wanted.only.contains(&place.to_string());
        let reaches = match told {
            Told::Sends(_, arrows) => arrows.iter().any(|arrow| named(arrow.to)),
            _ => false,
        };
        self.wanted.only.is_empty() || named(place) || reaches
    }
}

#[cfg(test)]
mod tests;
