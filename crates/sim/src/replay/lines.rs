//! A recording as text: when, who, what; and at the end what broke.

use super::{Arrow, Line, Recording, Told};
use crate::time::Micros;
use core::fmt;

/// Milliseconds, as everywhere in a trace.
pub(super) fn millis(at: Micros) -> String {
    format!("{}.{:03}", at / 1_000, at % 1_000)
}

impl fmt::Display for Arrow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arrivals {
            [Some(at), None] | [None, Some(at)] => write!(out, "{}@{}", self.to, millis(at)),
            [Some(at), Some(again)] => {
                write!(out, "{}@{} and {}", self.to, millis(at), millis(again))
            }
            [None, None] => write!(out, "{} LOST", self.to),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sends(text, arrows) => {
                let arrows: Vec<String> = arrows.iter().map(ToString::to_string).collect();
                write!(out, "-> {}   {text}", arrows.join(", "))
            }
            Self::Timeout(kind, subject) => write!(out, "timeout {kind}:{subject}"),
            Self::Disturbed(text) => write!(out, "is disturbed: {text}"),
            Self::Heals => out.write_str("heals"),
            Self::Does(_, text) => out.write_str(text),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at, place, told } = self;
        write!(out, "{:>8} {:>12} {place} {told}", format!("#{number}"), millis(*at))
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "seed {:#x} in {}", self.seed, self.options)?;
        writeln!(out, "   event    time (ms) who and what; @ is when it arrives there")?;
        if self.before > 0 {
            writeln!(out, "         ... {} lines before these; --all shows them", self.before)?;
        }
        for line in &self.lines {
            writeln!(out, "{line}")?;
        }
        if !self.to_the_end {
            writeln!(out, "         ... and on to event #{}", self.events)?;
        }
        match &self.outcome {
            Ok(summary) => write!(out, "\nNothing broke. {summary}"),
            Err(violation) => {
                writeln!(out, "\nVIOLATION at {} ms: {}", millis(violation.at), violation.broken)?;
                write!(out, "{} events, audit={}", self.events, violation.audit)
            }
        }
    }
}
