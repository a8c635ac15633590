//! The targets.

mod channel;
mod client;
mod counter;
mod files;
mod group;
mod ingress;
mod kv_bytes;
mod kv_commands;
mod resp_gateway;
mod resp_parser;
mod snapshot;
mod storage;
mod trace;
mod transfer;
mod verifier;
mod wire;

use crate::Target;

macro_rules! targets {
    ($($name:ident)*) => {
        [$(Target { name: stringify!($name), run: $name::run, seeds: $name::seeds }),*]
    };
}

/// All targets.
pub const ALL: [Target; 16] = targets! {
    wire ingress group transfer snapshot channel files resp_parser resp_gateway
    kv_commands kv_bytes verifier client trace storage counter
};
