//! The protocol cores, replica and client side, one directory each, and the registry by which
//! `--protocol` finds them.
//!
//! | name | replicas | module |
//! | --- | --- | --- |
//! | `minbft` | `2f + 1` | [`minbft`] |
//! | `minzyzzyva` | `2f + 1` | [`minbft`] |
//! | `hybster` | `2f + 1` | [`hybster`] |
//! | `pbft` | `3f + 1` | [`pbft`] |
//! | `hybster-pillars` | `2f + 1` | several of [`hybster`] side by side: [`pillars`] |
//! | `pbft-pillars` | `3f + 1` | several of [`pbft`] side by side: [`pillars`] |
//! | `pbft-tentative` | `3f + 1` | [`pbft`] that executes what is prepared |
//! | `hybrid-pbft` | `3f + 1` | [`pbft`] whose votes are trusted MACs |
//! | `hybrid-pbft-pillars` | `3f + 1` | several of these side by side: [`pillars`] |
//! | `zyzzyva` | `3f + 1` | [`zyzzyva`] |
//! | `zyzzyva5` | `5f + 1` | [`zyzzyva`] |
//! | `zyzzyva-plain` | `3f + 1` | [`zyzzyva`] without its commit optimisation, for benchmarks |
//! | `zyzzyva-signed` | `3f + 1` | [`zyzzyva`] whose replicas sign every answer, for benchmarks |
//! | `zyzzyva-hasty` | `3f + 1` | [`zyzzyva`] whose clients wait for nobody, for benchmarks |
//! | `zyzzyva-2009` | `3f + 1` | [`zyzzyva`], as printed: unsafe, for the museum |
//! | `minzyzzyva-2010` | `2f + 1` | [`minbft`], its views as printed: unsafe, for the museum |
//! | `unreplicated` | 1 | [`unreplicated`], for benchmarks only |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod common;
pub mod hybster;
pub mod minbft;
pub mod pbft;
pub mod pillars;
pub mod unreplicated;
pub mod zyzzyva;

use crate::common::confirming_client::ConfirmingClient;
use crate::common::voting_client::VotingClient;
use alloc::boxed::Box;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::forge::{IsSettled, MakeForger};
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::{BadRecord, Protocol, Rules, Setup, Timeouts};
use pentarchy_core::quorum::Quorums;
use pillars::{Parts, Pillar, Pillars};
use zyzzyva::table::{AGREED, FIVE, HASTY, PLAIN, PRINTED, SIGNED, THREE, Table};
use zyzzyva::{Proving, Zyzzyva};

/// Starts a replica core; its first effects are appended.
pub type Start = fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore>;

/// What a client core is started with.
#[derive(Clone, Copy, Debug)]
pub struct ClientStart {
    /// Who.
    pub client: ClientId,
    /// Replicas, and faults that are tolerated.
    pub group: Quorums,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// Every number below is settled.
    pub start_floor: u64,
    /// What chooses requests that are shown to all; known to no replica. None: no request is.
    pub seed: Option<u64>,
}

/// Starts a client core.
pub type StartClient = fn(ClientStart) -> Box<dyn ClientCore>;

/// One protocol that can be chosen by name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Fault model and group size.
    pub rules: Rules,
    /// Brings up a replica.
    pub start: Start,
    /// Brings up a client.
    pub client: StartClient,
    /// Whether these are records of such a replica; to be asked before it starts with them.
    pub check_records: fn(&[Bytes]) -> Result<(), BadRecord>,
    /// Whether a user may run a service on it.
    pub for_users: bool,
    /// Whether it is known to be unsafe, and here only to show that.
    pub in_museum: bool,
    /// Makes a replica that lies, for searches; none if nobody has written down how.
    pub forger: Option<MakeForger>,
    /// Which messages have no effect any more, for the explorer.
    pub is_settled: IsSettled,
    /// Where explorations can begin: names and scripts.
    pub starts: &'static [(&'static str, &'static str)],
    /// How its parts are brought up each on its own, if it has some.
    pub split: Option<StartParts>,
}

/// Brings up the parts of a replica that share no state, so that a host can run each in a thread of
/// its own.
pub type StartParts = fn(Setup) -> Parts;

impl Pillar for hybster::Hybster {
    const NAME: &'static str = "hybster-pillars";
}

impl Pillar for pbft::Pbft<false> {
    const NAME: &'static str = "pbft-pillars";
}

impl Pillar for pbft::HybridPbft {
    const NAME: &'static str = "hybrid-pbft-pillars";
}

/// Every protocol.
pub static PROTOCOLS: [Entry; 17] = [
    Entry {
        rules: minbft::MinBft::RULES,
        start: start_minbft,
        client: voting_client,
        check_records: Erased::<minbft::MinBft>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(minbft::Byzantine::boxed),
        is_settled: minbft::is_settled,
        starts: &minbft::STARTS,
        split: None,
    },
    Entry {
        rules: pbft::Pbft::<false>::RULES,
        start: start_pbft::<false>,
        client: voting_client,
        check_records: Erased::<pbft::Pbft<false>>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(pbft::Byzantine::<Signature>::boxed),
        is_settled: pbft::is_settled::<Signature>,
        starts: &[],
        split: None,
    },
    Entry {
        rules: pbft::Pbft::<true>::RULES,
        start: start_pbft::<true>,
        client: agreed_client,
        check_records: Erased::<pbft::Pbft<true>>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(pbft::Byzantine::<Signature>::boxed),
        is_settled: pbft::is_settled::<Signature>,
        starts: &[],
        split: None,
    },
    Entry {
        rules: pbft::HybridPbft::RULES,
        start: start_hybrid_pbft,
        client: voting_client,
        check_records: Erased::<pbft::HybridPbft>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(pbft::Byzantine::<TrustedMac>::boxed),
        is_settled: pbft::is_settled::<TrustedMac>,
        starts: &[],
        split: None,
    },
    Entry {
        rules: hybster::Hybster::RULES,
        start: start_hybster,
        client: voting_client,
        check_records: Erased::<hybster::Hybster>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(hybster::Byzantine::boxed),
        is_settled: hybster::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Pillars::<hybster::Hybster>::RULES,
        start: start_pillars::<hybster::Hybster>,
        client: voting_client,
        check_records: Erased::<Pillars<hybster::Hybster>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(|me, group| pillars::Byzantine::boxed(me, group, hybster::Byzantine::boxed)),
        is_settled: |_, _| false,
        starts: &[],
        split: Some(Parts::start::<hybster::Hybster>),
    },
    Entry {
        rules: Pillars::<pbft::Pbft<false>>::RULES,
        start: start_pillars::<pbft::Pbft<false>>,
        client: voting_client,
        check_records: Erased::<Pillars<pbft::Pbft<false>>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(|me, group| {
            pillars::Byzantine::boxed(me, group, pbft::Byzantine::<Signature>::boxed)
        }),
        is_settled: |_, _| false,
        starts: &[],
        split: Some(Parts::start::<pbft::Pbft<false>>),
    },
    Entry {
        rules: Pillars::<pbft::HybridPbft>::RULES,
        start: start_pillars::<pbft::HybridPbft>,
        client: voting_client,
        check_records: Erased::<Pillars<pbft::HybridPbft>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(|me, group| {
            pillars::Byzantine::boxed(me, group, pbft::Byzantine::<TrustedMac>::boxed)
        }),
        is_settled: |_, _| false,
        starts: &[],
        split: Some(Parts::start::<pbft::HybridPbft>),
    },
    Entry {
        rules: minbft::MinZyzzyva::RULES,
        start: start_minzyzzyva,
        client: minzyzzyva_client,
        check_records: Erased::<minbft::MinZyzzyva>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(minbft::Byzantine::boxed),
        is_settled: minbft::is_settled,
        starts: &minbft::STARTS,
        split: None,
    },
    Entry {
        rules: Zyzzyva::<THREE>::RULES,
        start: start_zyzzyva::<THREE>,
        client: zyzzyva_client::<THREE>,
        check_records: Erased::<Zyzzyva<THREE>>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(zyzzyva::Byzantine::boxed::<THREE>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Zyzzyva::<FIVE>::RULES,
        start: start_zyzzyva::<FIVE>,
        client: zyzzyva_client::<FIVE>,
        check_records: Erased::<Zyzzyva<FIVE>>::check_records,
        for_users: true,
        in_museum: false,
        forger: Some(zyzzyva::Byzantine::boxed::<FIVE>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Zyzzyva::<PLAIN>::RULES,
        start: start_zyzzyva::<PLAIN>,
        client: zyzzyva_client::<PLAIN>,
        check_records: Erased::<Zyzzyva<PLAIN>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(zyzzyva::Byzantine::boxed::<PLAIN>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Zyzzyva::<SIGNED>::RULES,
        start: start_zyzzyva::<SIGNED>,
        client: zyzzyva_client::<SIGNED>,
        check_records: Erased::<Zyzzyva<SIGNED>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(zyzzyva::Byzantine::boxed::<SIGNED>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Rules { name: "zyzzyva-hasty", ..Zyzzyva::<THREE>::RULES },
        start: start_zyzzyva::<THREE>,
        client: zyzzyva_client::<HASTY>,
        check_records: Erased::<Zyzzyva<THREE>>::check_records,
        for_users: false,
        in_museum: false,
        forger: Some(zyzzyva::Byzantine::boxed::<THREE>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: Zyzzyva::<PRINTED>::RULES,
        start: start_zyzzyva::<PRINTED>,
        client: zyzzyva_client::<PRINTED>,
        check_records: Erased::<Zyzzyva<PRINTED>>::check_records,
        for_users: false,
        in_museum: true,
        forger: Some(zyzzyva::Byzantine::boxed::<PRINTED>),
        is_settled: zyzzyva::is_settled,
        starts: &[],
        split: None,
    },
    Entry {
        rules: minbft::MinZyzzyva2010::RULES,
        start: start_minzyzzyva_2010,
        client: minzyzzyva_client,
        check_records: Erased::<minbft::MinZyzzyva2010>::check_records,
        for_users: false,
        in_museum: true,
        forger: Some(minbft::Byzantine::boxed),
        is_settled: minbft::is_settled,
        starts: &minbft::STARTS,
        split: None,
    },
    Entry {
        rules: unreplicated::Unreplicated::RULES,
        start: start_unreplicated,
        client: voting_client,
        check_records: Erased::<unreplicated::Unreplicated>::check_records,
        for_users: false,
        in_museum: false,
        forger: None,
        is_settled: |_, _| false,
        starts: &[],
        split: None,
    },
];

/// The protocol of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    PROTOCOLS.iter().find(|entry| entry.rules.name == name)
}

/// Several of this protocol side by side, if it can be split into pillars.
#[must_use]
pub fn in_pillars(name: &str) -> Option<&'static Entry> {
    let name = match name {
        "hybster" => <hybster::Hybster as Pillar>::NAME,
        "pbft" => <pbft::Pbft<false> as Pillar>::NAME,
        "hybrid-pbft" => <pbft::HybridPbft as Pillar>::NAME,
        _ => return None,
    };
    find(name)
}

/// The protocol in which a seeded bug of this name is looked for: the one that it names, or else
/// the first, as what protocols share is the same in all.
#[must_use]
pub fn of_mutant(name: &str) -> &'static Entry {
    let module = name.split_once('.').map_or(name, |(module, _)| module);
    let module = match (name, module) {
        // Hybster signs only messages of which it matters little where they were said.
        ("pillars.statements-shared", _) => "pbft-pillars",
        (_, "pillars") => "hybster-pillars",
        // Where all replicas have to answer a query, one of them has the state of the handover.
        ("epochs.reads-before-base", _) => "zyzzyva",
        _ => module,
    };
    find(module).unwrap_or(&PROTOCOLS[0])
}

fn start_minbft(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<minbft::MinBft>::start(setup, out))
}

fn start_minzyzzyva(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<minbft::MinZyzzyva>::start(setup, out))
}

fn start_minzyzzyva_2010(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<minbft::MinZyzzyva2010>::start(setup, out))
}

fn start_pbft<const TENTATIVE: bool>(
    setup: Setup,
    out: &mut Vec<CoreEffect>,
) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<pbft::Pbft<TENTATIVE>>::start(setup, out))
}

fn start_hybrid_pbft(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<pbft::HybridPbft>::start(setup, out))
}

fn start_hybster(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<hybster::Hybster>::start(setup, out))
}

fn start_pillars<P: Pillar>(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<Pillars<P>>::start(setup, out))
}

fn start_unreplicated(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<unreplicated::Unreplicated>::start(setup, out))
}

fn start_zyzzyva<const KIND: usize>(
    setup: Setup,
    out: &mut Vec<CoreEffect>,
) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<Zyzzyva<KIND>>::start(setup, out))
}

fn voting(start: ClientStart) -> VotingClient {
    let ClientStart { client, group, timeouts, start_floor, seed } = start;
    let client = VotingClient::new(client, group.n, group.f, timeouts, start_floor);
    match seed {
        Some(seed) => client.showing(seed),
        None => client,
    }
}

fn voting_client(start: ClientStart) -> Box<dyn ClientCore> {
    Box::new(voting(start))
}

fn agreed_client(start: ClientStart) -> Box<dyn ClientCore> {
    zyzzyva_client::<AGREED>(start)
}

fn zyzzyva_client<const KIND: usize>(start: ClientStart) -> Box<dyn ClientCore> {
    let rules = Proving(Table::new(KIND, start.group));
    Box::new(ConfirmingClient::new(rules, start.group.n, voting(start)))
}

fn minzyzzyva_client(start: ClientStart) -> Box<dyn ClientCore> {
    let rules = minbft::Settling(start.group);
    Box::new(ConfirmingClient::new(rules, start.group.n, voting(start)))
}
