//! What others have to know of a protocol whose order is split.

use super::byzantine::Byzantine;
use super::pillar_core::Pillar;
use super::replica::Pillars;
use crate::common::parts::Parts;
use crate::descriptor::{Descriptor, Split, Status};
use alloc::boxed::Box;
use pentarchy_core::forge::Forger;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;

/// Several of this protocol side by side.
#[must_use]
pub const fn describe<P: Pillar>(mutants: &'static [&'static str]) -> Descriptor {
    Descriptor {
        about: "several side by side, each with a part of the order",
        paper: "*Hybrids on Steroids: SGX-Based High Performance BFT*, section 5.3",
        page: Some("pillars.md"),
        forger: Some(forger::<P>),
        mutants,
        split: Some(Split { whole: P::RULES.name, start: Parts::start::<P> }),
        ..Descriptor::of::<Pillars<P>>(Status::Young)
    }
}

fn forger<P: Pillar>(me: ReplicaId, group: &Membership) -> Box<dyn Forger> {
    Byzantine::boxed(me, group, P::FORGER)
}
