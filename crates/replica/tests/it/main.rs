//! The host over real sockets, with a protocol and a service that are just enough to see it work.

mod cluster;
mod follow;
mod frames;
mod hostile;
mod pillars;
mod requests;
mod tally;
