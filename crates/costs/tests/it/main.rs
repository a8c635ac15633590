//! Operations and messages of a group with real keys, counters and channels.

mod minbft;
mod real;
