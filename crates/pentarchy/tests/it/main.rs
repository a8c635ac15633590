//! The binary and the library as their users see them.

mod config;
mod support;
