//! The binary and the library as their users see them.

mod bench;
mod cluster;
mod config;
mod edges;
mod events;
mod example;
mod exhausted;
mod flood;
mod hosts;
mod netns;
mod rejoin;
mod resp;
mod sight;
mod sim;
mod support;
