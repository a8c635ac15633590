//! The protocol cores, replica and client side, one directory each, and the registry by which
//! `--protocol` finds them. A test makes this table of [`PROTOCOLS`]; `UPDATE=1` has it written.
//!
//! | name | replicas | what |
//! | --- | --- | --- |
//! | `minbft` | `2f + 1` | two phases; the default |
//! | `pbft` | `3f + 1` | three phases |
//! | `pbft-tentative` | `3f + 1` | `pbft` that executes before the third phase |
//! | `hybrid-pbft` | `3f + 1` | `pbft` whose votes are trusted MACs |
//! | `modsmart` | `3f + 1` | three phases; votes are not signed |
//! | `modsmart-cft` | `2f + 1` | `modsmart` for replicas that crash and never lie: two phases |
//! | `modsmart-serial` | `3f + 1` | `modsmart` one slot at a time; for benchmarks |
//! | `hybster` | `2f + 1` | two phases |
//! | `hybster-pillars` | `2f + 1` | several side by side, each with a part of the order |
//! | `pbft-pillars` | `3f + 1` | several side by side, each with a part of the order |
//! | `hybrid-pbft-pillars` | `3f + 1` | several side by side, each with a part of the order |
//! | `minzyzzyva` | `2f + 1` | executes before it agrees |
//! | `zyzzyva` | `3f + 1` | executes before it agrees |
//! | `zyzzyva5` | `5f + 1` | `zyzzyva` that stays fast while `f` replicas are silent |
//! | `zyzzyva-plain` | `3f + 1` | `zyzzyva` without its commit optimisation; for benchmarks |
//! | `zyzzyva-signed` | `3f + 1` | `zyzzyva` whose replicas sign every answer; for benchmarks |
//! | `zyzzyva-hasty` | `3f + 1` | `zyzzyva` whose clients wait for nobody; for benchmarks |
//! | `zyzzyva-2009` | `3f + 1` | `zyzzyva` as printed: unsafe; for the museum |
//! | `minzyzzyva-2010` | `2f + 1` | `minzyzzyva` with views as printed: unsafe; for the museum |
//! | `unreplicated` | `1` | one server; for benchmarks |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod common;
pub mod descriptor;
pub mod hybster;
pub mod minbft;
pub mod minzyzzyva;
pub mod modsmart;
pub mod pbft;
pub mod pillars;
pub mod shuttle;
pub mod unreplicated;
pub mod zyzzyva;

pub use descriptor::{
    ClientStart, Descriptor, Examples, Split, Start, StartClient, StartParts, Status,
};

use pentarchy_core::auth::Signature;
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::forge::MakeForger;
use pillars::Pillar;

/// Every protocol.
pub static PROTOCOLS: &[&Descriptor] = &[
    &minbft::DESCRIPTOR,
    &pbft::DESCRIPTOR,
    &pbft::TENTATIVE,
    &pbft::HYBRID,
    &modsmart::DESCRIPTOR,
    &modsmart::CRASH,
    &modsmart::SERIAL,
    &hybster::DESCRIPTOR,
    &HYBSTER_PILLARS,
    &PBFT_PILLARS,
    &HYBRID_PBFT_PILLARS,
    &minzyzzyva::DESCRIPTOR,
    &zyzzyva::DESCRIPTOR,
    &zyzzyva::FIVE,
    &zyzzyva::PLAIN,
    &zyzzyva::SIGNED,
    &zyzzyva::HASTY,
    &zyzzyva::PRINTED,
    &minzyzzyva::PRINTED,
    &unreplicated::DESCRIPTOR,
];

/// The protocol that runs unless another is named.
pub static DEFAULT: &Descriptor = &minbft::DESCRIPTOR;

/// The one server to which replicated ones are compared.
pub static BASELINE: &Descriptor = &unreplicated::DESCRIPTOR;

/// Protocols that help texts, measurements and tests take as examples, beside [`DEFAULT`].
pub static EXAMPLES: Examples = Examples {
    split: &hybster::DESCRIPTOR,
    signed: &pbft::DESCRIPTOR,
    macs: &pbft::HYBRID,
    speculative: &zyzzyva::DESCRIPTOR,
};

impl Pillar for hybster::Hybster {
    const NAME: &'static str = "hybster-pillars";
    const FORGER: MakeForger = hybster::Byzantine::boxed;
}

impl Pillar for pbft::Pbft {
    const NAME: &'static str = "pbft-pillars";
    const FORGER: MakeForger = pbft::Byzantine::<Signature>::boxed;
}

impl Pillar for pbft::HybridPbft {
    const NAME: &'static str = "hybrid-pbft-pillars";
    const FORGER: MakeForger = pbft::Byzantine::<TrustedMac>::boxed;
}

static HYBSTER_PILLARS: Descriptor = pillars::describe::<hybster::Hybster>(&["pillars"]);
/// Hybster signs only messages of which it matters little where they were said.
static PBFT_PILLARS: Descriptor = pillars::describe::<pbft::Pbft>(&[
    "pbft-pillars",
    "pillars.reads-a-row-early",
    "pillars.statements-shared",
]);
static HYBRID_PBFT_PILLARS: Descriptor =
    pillars::describe::<pbft::HybridPbft>(&["hybrid-pbft-pillars"]);

/// The protocol of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Descriptor> {
    PROTOCOLS.iter().find(|protocol| protocol.rules.name == name).copied()
}

/// Several of this protocol side by side, if it can be split into pillars.
#[must_use]
pub fn in_pillars(name: &str) -> Option<&'static Descriptor> {
    let consists_of_it = |protocol: &Descriptor| protocol.split.is_some_and(|it| it.whole == name);
    PROTOCOLS.iter().find(|protocol| consists_of_it(protocol)).copied()
}

/// The protocol in which a seeded bug of this name is looked for: the one that claims it, or else
/// [`DEFAULT`], as what protocols share is the same in all.
#[must_use]
pub fn of_mutant(name: &str) -> &'static Descriptor {
    let claims = |protocol: &&&Descriptor| protocol.claims(name);
    let claimed = PROTOCOLS.iter().filter(|protocol| claims(protocol).is_some());
    claimed.max_by_key(claims).unwrap_or(&DEFAULT)
}
