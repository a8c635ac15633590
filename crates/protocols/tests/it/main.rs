//! Whole groups of every protocol in the simulator.

mod swarm;
mod traces;
