//! Deterministic services to replicate, and their snapshots.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`null`] | a service that does nothing, to measure ordering alone |
//! | [`kv`] | strings, lists, hashes, sets and sorted sets under the names and rules of Redis |
//! | [`olympus`] | the members of a chain, and with what each of its configurations begins |
//!
//! A service never reads a clock, never draws randomness of its own and never iterates in hash
//! order: equal state and equal operation give equal next state and equal result everywhere.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod kv;
pub mod null;
pub mod olympus;
