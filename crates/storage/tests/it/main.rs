//! The log and the snapshots on the simulator's disk, and on a real one.

mod cold;
mod crash;
mod damage;
mod deltas;
mod fills;
mod golden;
mod keeper;
mod kept;
mod links;
mod log_handles;
mod parts;
mod real;
mod rot;
mod slow;
mod snapshots;
mod workload;
