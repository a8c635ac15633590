//! What others have to know of it.

use super::{Agreeing, Byzantine, HybridPbft, Pbft, TentativePbft, is_settled};
use crate::descriptor::{ClientStart, Descriptor, Status, confirming_client};
use alloc::boxed::Box;
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::Protocol as _;

/// PBFT.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "PBFT",
    about: "three phases",
    paper: "*Practical Byzantine Fault Tolerance and Proactive Recovery*, sections 4 and 5",
    page: Some("pbft.md"),
    forger: Some(Byzantine::<Signature>::boxed),
    is_settled: is_settled::<Signature>,
    mutants: &["pbft", "domain.epochs-shared"],
    ..Descriptor::of::<Pbft>(Status::Young)
};

/// PBFT that executes what is prepared.
pub static TENTATIVE: Descriptor = Descriptor {
    about: "`pbft` that executes before the third phase",
    paper: "*Practical Byzantine Fault Tolerance and Proactive Recovery*, section 5.1",
    page: Some("pbft.md#tentative-execution"),
    client: tentative_client,
    forger: Some(Byzantine::<Signature>::boxed),
    is_settled: is_settled::<Signature>,
    mutants: &["pbft-tentative"],
    ..Descriptor::of::<TentativePbft>(Status::Young)
};

/// PBFT whose votes are trusted MACs.
pub static HYBRID: Descriptor = Descriptor {
    title: "HybridPBFT",
    about: "`pbft` whose votes are trusted MACs",
    paper: "*Hybrids on Steroids: SGX-Based High Performance BFT*, sections 5.1 and 6",
    page: Some("pbft.md#hybridpbft"),
    forger: Some(Byzantine::<TrustedMac>::boxed),
    is_settled: is_settled::<TrustedMac>,
    mutants: &["hybrid-pbft", "ingress.mac-not-checked", "trusted.mac-not-checked"],
    ..Descriptor::of::<HybridPbft>(Status::Young)
};

fn tentative_client(start: ClientStart) -> Box<dyn ClientCore> {
    confirming_client(&TentativePbft::RULES, Agreeing(start.group), start)
}
