//! The binary and the library as their users see them.

mod altering;
mod backup;
mod bench;
mod bench_faults;
mod bench_more;
mod bench_protocols;
mod bench_scaling;
mod bench_wan;
#[cfg(target_os = "linux")]
mod clocks;
mod cluster;
mod config;
mod counters;
mod durable;
mod edges;
mod events;
mod example;
mod exhausted;
mod explore;
mod faults;
mod fenced;
mod flood;
mod gateways;
mod hosts;
#[cfg(target_os = "linux")]
mod joining;
mod large;
mod machines;
mod members;
mod netns;
mod operators;
mod overtaken;
mod pillars;
mod power;
mod proxy;
mod redis_py;
mod rejoin;
mod rescued;
mod resp;
mod rewound;
mod saves;
mod sight;
mod sim;
mod support;
mod switching;
mod upgraded;
