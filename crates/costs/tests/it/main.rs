//! Operations and messages of a group with real keys, counters and channels.

mod formulas;
mod hybster;
mod ledger;
mod minbft;
mod minzyzzyva;
mod optimisations;
mod ordering;
mod pbft;
mod telling;
mod zyzzyva;
