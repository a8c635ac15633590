//! The gateway over a store of its own, spoken to by a client of bytes, by Redis's own tools, and
//! beside a real Redis.

mod bounds;
mod commands;
mod differential;
mod grammar;
mod pipelining;
mod redis;
mod sessions;
mod support;
mod tools;
mod web;
