//! Whole groups of every protocol in the simulator.

mod explore;
mod hand;
mod mutants;
mod schedules;
mod sessions;
mod strategies;
mod swarm;
mod traces;
