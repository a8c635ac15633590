//! A deterministic world for groups of replicas and their clients: one seed decides everything that
//! the host contract leaves open, checkers watch every step, and the same seed always shows the
//! same run again. Start at [`run::run_seed`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`run`], [`swarm`] | from a seed to a summary or a violation |
//! | [`guided`], [`coverage`] | searches that are guided by coverage |
//! | [`twins`] | every schedule of partitions around a replica that exists twice |
//! | [`world`], [`node`], [`workload`] | replicas and clients as hosts put them |
//! | [`packet`], [`observation`] | what is sent, and what is seen of a replica |
//! | [`network`], [`time`], [`adversary`], [`hostile`] | what goes wrong |
//! | [`checker`], [`oracle`] | what must hold nevertheless |
//! | [`crypto`], [`device`], [`service`] | keys, trusted counters and the replicated registers |
//! | [`disk`] | a disk that loses, tears and fails |
//! | [`explorer`] | everything that can happen to a small group, within budgets |
//! | [`wide`] | groups without faults whose links take long |
//! | [`trace`] | golden traces: exact schedules in a small language |
//! | [`shrink`], [`replay`] | a violation made small, told and drawn |
//! | `mutants`, `museum` | seeded bugs and published ones, with the feature `mutants` |
//! | [`audit`], [`rng`] | proof of determinism, and its only source of chance |

#![forbid(unsafe_code)]

mod administration;
pub mod adversary;
pub mod audit;
pub mod certifier;
pub mod checker;
pub mod coverage;
pub mod crypto;
pub mod device;
pub mod devices;
pub mod disk;
pub mod explorer;
mod factories;
mod following;
pub mod guided;
pub mod hearing;
pub mod hostile;
pub mod key_ring;
#[cfg(feature = "mutants")]
pub mod museum;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod network;
pub mod node;
pub mod observation;
pub mod oracle;
pub mod packet;
mod quiet;
pub mod real_devices;
pub mod replay;
pub mod rng;
pub mod run;
pub mod service;
pub mod shadowed;
pub mod shrink;
pub mod strategies;
mod summary;
pub mod swarm;
pub mod time;
pub mod trace;
pub mod twins;
pub mod wide;
pub mod workload;
pub mod world;

#[cfg(test)]
mod tests;
