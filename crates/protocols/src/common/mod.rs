//! What several protocols share.

pub mod bodies;
pub mod certificate;
pub mod checkpoint;
pub mod extent;
pub mod pace;
pub mod pending;
pub mod voting_client;
