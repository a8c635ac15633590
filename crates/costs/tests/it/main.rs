//! Operations and messages of a group with real keys, counters and channels.

mod formulas;
mod minbft;
mod minzyzzyva;
mod optimisations;
mod pbft;
mod real;
mod telling;
mod zyzzyva;
