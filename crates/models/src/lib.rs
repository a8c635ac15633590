//! Models of rules that protocols rest on: randomized runs, and searches of small cases.
//!
//! A model has a few replicas as plain values, messages in a bag, and an adversary that draws what
//! happens next. It has no codec, no clock and no disk, so it makes a million runs in minutes. It
//! is written before the protocol's code, from the rules as the design states them, to find out
//! whether they hold. Each rule can be left out by name; a model in which nothing breaks without a
//! rule says nothing about it.
//!
//! A model may have small cases, too, of which a search visits every state. Runs and searches use
//! the same rules.
//!
//! `cargo run --release -p pentarchy-models -- --help` runs them.

#![forbid(unsafe_code)]

mod roster;
mod run;
mod search;
mod synchronisation;

pub use run::{Outcome, Summary, run_all, run_until_broken};
pub use search::{Case, Found, Searched};

use fastrand::Rng;
use std::fmt;

/// A rule that can be left out: its name, and what it says.
pub type Rule = (&'static str, &'static str);

/// What a run found to be broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which property.
    pub property: &'static str,
    /// Who contradicts whom, and over what.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.how)
    }
}

/// A model: what draws one run of it, and its rules.
#[derive(Clone, Copy)]
pub struct Model {
    /// One word.
    pub name: &'static str,
    /// What it is a model of.
    pub about: &'static str,
    /// The rules that can be left out.
    pub rules: &'static [Rule],
    /// One run, from the beginning to its end. It keeps all rules but the one of this name.
    pub run: fn(rng: Rng, without: Option<&str>) -> Result<(), Broken>,
    /// Its small cases, those with few states first.
    pub cases: &'static [Case],
}

/// All models.
pub const MODELS: &[Model] =
    &[roster::MODEL, synchronisation::BYZANTINE, synchronisation::PRUNING, synchronisation::CRASH];
