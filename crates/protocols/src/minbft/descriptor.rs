//! What others have to know of it.

use super::{Byzantine, MinBft, STARTS, is_settled};
use crate::descriptor::{Descriptor, Status};

/// MinBFT.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "MinBFT",
    about: "two phases; the default",
    paper: "*Efficient Byzantine fault tolerance*, section 4",
    page: Some("minbft.md"),
    forger: Some(Byzantine::boxed),
    is_settled,
    starts: &STARTS,
    mutants: &["usig"],
    ..Descriptor::of::<MinBft>(Status::Stable)
};
