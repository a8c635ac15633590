//! The binary and the library as their users see them.

mod cluster;
mod config;
mod resp;
mod support;
