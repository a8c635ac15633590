//! Whole groups of every protocol in the simulator.

mod apart;
mod attacks;
mod behind_a_state;
mod confirming;
mod explore;
mod failing_views;
mod hand;
mod hybrid;
mod hybster;
mod minzyzzyva;
mod mutants;
mod net;
mod pillars;
mod pillars_by_hand;
mod schedules;
mod sessions;
mod stalls;
mod strategies;
mod swarm;
mod telling;
mod traces;
mod waiting;
