//! Operations and messages of a group with real keys, counters and channels.

mod formulas;
mod ledger;
mod minzyzzyva;
mod optimisations;
mod ordering;
mod pbft;
mod pillars;
mod telling;
mod two_phases;
mod zyzzyva;
