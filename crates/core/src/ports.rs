//! What a core and its host ask of each other. One pair of enums for each role, shared by every
//! protocol; what only some protocols need is a capability, nested in the pair.

pub mod client;
pub mod replica;
