//! Whole groups of every protocol in the simulator.

mod explore;
mod swarm;
mod traces;
