//! What others have to know of it.

use super::{Byzantine, Hybster, is_settled};
use crate::descriptor::{Descriptor, Status};

/// Hybster.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Hybster",
    about: "two phases",
    paper: "*Hybrids on Steroids: SGX-Based High Performance BFT*, section 5.2",
    page: Some("hybster.md"),
    forger: Some(Byzantine::boxed),
    is_settled,
    mutants: &["hybster", "trusted.forgets-what-it-said", "trusted.leaves-in-silence"],
    ..Descriptor::of::<Hybster>(Status::Young)
};
