//! What others have to know of it.

use super::{Byzantine, ModSmart, is_settled};
use crate::descriptor::{Descriptor, Status};

/// Mod-SMaRt.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Mod-SMaRt",
    about: "three phases; votes are not signed",
    paper: "*From Byzantine Consensus to BFT State Machine Replication*, sections 4.2 and 4.3",
    page: Some("modsmart.md"),
    forger: Some(Byzantine::boxed),
    is_settled,
    mutants: &["modsmart"],
    ..Descriptor::of::<ModSmart>(Status::Young)
};
