//! What several protocols share.

pub mod bodies;
pub mod pace;
pub mod pending;
pub mod voting_client;
