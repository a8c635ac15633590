//! Olympus: its rules one by one, and random worlds in which they have to hold.

mod chain;
mod liars;
mod rules;
mod support;
mod world;

use pentarchy_core::mutant;
use pentarchy_core::mutant::{Finder, MUTANTS};
use support::Mode;
use world::{Broken, World};

const MODES: [Mode; 3] = [Mode::Byzantine, Mode::Crash, Mode::Leased];

/// Worlds of each mode. In all of them nothing may break, and in some each seeded bug has to show.
const WORLDS: u64 = 100;

fn run(seed: u64, mode: Mode) -> Result<(), Broken> {
    World::new(seed, mode).run()
}

#[test]
fn nothing_breaks_in_random_worlds() {
    for mode in MODES {
        for seed in 0..WORLDS {
            if let Err(broken) = run(seed, mode) {
                panic!("{mode:?}, seed {seed}: {broken:?}");
            }
        }
    }
}

/// The first world that shows a bug, and the property that it breaks.
fn first_broken(name: &str) -> Option<(Mode, u64, &'static str)> {
    let worlds = (0..WORLDS).flat_map(|seed| MODES.map(|mode| (mode, seed)));
    worlds.into_iter().find_map(|(mode, seed)| {
        let result = mutant::with(Some(name), || run(seed, mode));
        result.err().map(|Broken { property, how }| {
            println!("{name}: {mode:?}, seed {seed}: {property}: {how:.200}");
            (mode, seed, property)
        })
    })
}

/// What names each seeded bug.
const EXPECTED: [(&str, &str); 11] = [
    ("olympus.longest-report", "acceptance"),
    ("olympus.takes-any-incarnation", "acceptance"),
    ("olympus.takes-any-base", "bases"),
    ("olympus.hears-strangers", "liveness"),
    ("olympus.issues-unheld", "executable"),
    ("olympus.holds-in-any-life", "executable"),
    ("olympus.issues-twice", "once"),
    ("olympus.keeps-accuser", "liveness"),
    ("olympus.drops-choices", "liveness"),
    ("olympus.report-not-noted", "snapshot"),
    ("olympus.issues-under-lease", "lease"),
];

#[test]
fn random_worlds_find_every_seeded_bug() {
    let of_olympus = MUTANTS.iter().filter(|it| it.finder == Finder::Model);
    assert!(of_olympus.map(|it| it.name).eq(EXPECTED.map(|(name, _)| name)));
    let found = EXPECTED.map(|(name, _)| (name, first_broken(name)));
    let named = found.map(|(name, found)| (name, found.map_or("nothing", |(.., it)| it)));
    assert_eq!(named, EXPECTED, "{found:?}");
}
