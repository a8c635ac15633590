//! What others have to know of it.

use super::{Byzantine, ModSmart, is_settled};
use crate::descriptor::{Descriptor, Status};

/// Mod-SMaRt.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Mod-SMaRt",
    about: "three phases; replicas sign next to nothing",
    paper: "*From Byzantine Consensus to BFT State Machine Replication: A Latency-Optimal \
            Transformation*, and *State Machine Replication for the Masses with BFT-SMaRt*",
    page: Some("modsmart.md"),
    forger: Some(Byzantine::boxed),
    is_settled,
    mutants: &["modsmart"],
    ..Descriptor::of::<ModSmart>(Status::Young)
};
