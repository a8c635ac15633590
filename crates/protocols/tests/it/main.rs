//! Whole groups of every protocol in the simulator.

mod attacks;
mod explore;
mod hand;
mod hybster;
mod mutants;
mod net;
mod schedules;
mod sessions;
mod strategies;
mod swarm;
mod traces;
