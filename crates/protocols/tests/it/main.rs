//! Whole groups of every protocol in the simulator.

mod explore;
mod mutants;
mod sessions;
mod strategies;
mod swarm;
mod traces;
