//! Operations and messages of a group with real keys, counters and channels.

mod formulas;
mod minbft;
mod pbft;
mod real;
mod zyzzyva;
