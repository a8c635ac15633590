//! The binary and the library as their users see them.

mod bench;
mod cluster;
mod config;
mod events;
mod example;
mod hosts;
mod rejoin;
mod resp;
mod sim;
mod support;
